"""The read API over a real store and real release files."""

import re
from collections.abc import Callable
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from aggregator.keyring.kinds import KINDS
from aggregator.keyring.rotation import retire
from client_sdk.metric import Metric
from estimator.dashboard.access import is_loopback
from estimator.dashboard.api import listing
from estimator.releases.files import releases, write
from estimator.releases.signatures import fault_of, signature_of
from tests.estimator.conftest import REGISTRY, other_version
from tests.estimator.dashboard.conftest import Desk, released


def listed(desk: Desk, query: str = "") -> list[tuple[str, str, str]]:
    document = desk.get(f"/v1/releases{query}").json
    return [(each["metric"], each["epoch"], each["fingerprint"]) for each in document["releases"]]


def walked(desk: Desk, address: str) -> list[list[dict[str, Any]]]:
    """All pages from an address on."""
    pages = []
    client = desk.app().test_client()
    while address:
        document = client.get(address).json
        pages.append(document["releases"])
        address = document["next"]
    return pages


def together(pages: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return list(chain.from_iterable(pages))


# The list


def test_releases_are_listed_by_metric_time_and_version(full: Desk) -> None:
    wanted = [(r.metric, r.epoch, r.fingerprint) for r in releases(full.releases)]
    assert listed(full) == wanted and len(wanted) == 9
    assert full.get("/v1/releases").json["next"] is None


def test_pages_show_everything_once_and_end(full: Desk) -> None:
    whole = full.get("/v1/releases").json["releases"]
    for limit in range(1, 11):
        pages = walked(full, f"/v1/releases?limit={limit}")
        assert together(pages) == whole
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert pages[-1]


def test_what_is_published_between_two_pages_repeats_and_hides_nothing(
    full: Desk, metrics: dict[str, Metric]
) -> None:
    first = full.get("/v1/releases?limit=5").json
    before = full.get("/v1/releases").json["releases"]
    full.put(released(metrics["theme"], "2026-W46"))
    full.put(released(metrics["theme"], "2026-W53"))
    rest = together(walked(full, first["next"]))
    assert (first["releases"] + rest)[: len(before)] == before
    assert [each["epoch"] for each in rest[-1:]] == ["2026-W53"]


def test_filters_hold_together_and_travel_with_the_pages(full: Desk) -> None:
    assert {m for m, _, _ in listed(full, "?metric=theme")} == {"theme"}
    assert listed(full, "?metric=unheard_of") == []
    assert [e for _, e, _ in listed(full, "?since=2026-12-01&until=2026-12-07")] == [
        "2026-12-01",
        "2026-12-02",
        "2026-W50",
    ]
    assert listed(full, "?since=2027-01-01") == []
    assert listed(full, "?fingerprint=pooled") == [("theme", "2026-W49", "pooled")]
    pages = walked(full, "/v1/releases?metric=theme&since=2026-12-01&limit=2")
    assert [[each["epoch"] for each in page] for page in pages] == [
        ["2026-W50", "2026-W51"],
        ["2026-W51"],
    ]


def test_a_filter_on_status_opens_no_more_than_its_share_of_files(
    full: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    read = listing.read

    def counted(path: Path) -> Any:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(listing, "read", counted)
    monkeypatch.setattr(listing, "MOST_OPENED", 2)
    pages = walked(full, "/v1/releases?status=WITHHELD")
    assert [each["epoch"] for page in pages for each in page] == ["2026-W50"]
    assert len(pages) == 5 and len(opened) == 9
    assert len(walked(full, "/v1/releases?metric=theme&limit=1")[0]) == 1
    opened.clear()
    full.get("/v1/releases?limit=1")
    assert len(opened) == 1


def test_a_withheld_release_shows_no_n_anywhere(full: Desk) -> None:
    (shown,) = full.get("/v1/releases?status=WITHHELD").json["releases"]
    assert (shown["n"], shown["alarm"], shown["min_reports"]) == (None, None, 100)
    for suffix in ("", "&format=csv"):
        text = full.get(shown["href"] + suffix).text.replace(shown["fingerprint"], "")
        assert "96" not in text
    assert full.get(shown["href"]).json["n"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=1.0", "limit"),
        ("limit=", "limit"),
        ("limit=%D9%A2", "limit"),
        ("limit=1&limit=2", "limit"),
        ("metric=Theme", "metric"),
        ("metric=..%2Ftheme", "metric"),
        ("metric=theme%0A", "metric"),
        ("status=published", "status"),
        ("since=2026-02-30", "since"),
        ("since=20261130", "since"),
        ("until=2026-W49-1", "until"),
        ("until=", "until"),
        ("fingerprint=0123", "fingerprint"),
        ("cursor=", "cursor"),
        ("cursor=a", "cursor"),
        ("cursor=bnVsbA", "cursor"),
        ("cursor=W10", "cursor"),
        ("cursor=" + "W" * 400, "cursor"),
        ("page=2", "page"),
        ("since%00=2026-11-30", "since\0"),
    ],
)
def test_a_parameter_that_breaks_a_rule_is_named(desk: Desk, query: str, field: str) -> None:
    answer = desk.get(f"/v1/releases?{query}")
    assert answer.status_code == 400 and answer.json["field"] == field


# One release


def test_a_release_is_the_file_byte_for_byte(full: Desk) -> None:
    for each in full.get("/v1/releases").json["releases"]:
        path = full.releases / each["metric"] / f"{each['epoch']}.{each['fingerprint']}.json"
        for kind, media in (("json", "application/json"), ("csv", "text/csv; charset=utf-8")):
            answer = full.get(f"{each['href']}&format={kind}")
            assert answer.data == path.with_suffix(f".{kind}").read_bytes()
            assert answer.content_type == media


def test_a_release_that_is_read_here_can_be_verified(desk: Desk, tmp_path: Path) -> None:
    signing = desk.world.keys.signing
    release, _ = write(released(desk.world.metric("theme"), "2026-W49"), desk.releases, signing)
    address = f"/v1/releases/theme/2026-W49?fingerprint={release.fingerprint}"
    path = tmp_path / "fetched.json"
    path.write_bytes(desk.get(address).data)
    assert fault_of(path, signing.public) is not None
    signature = desk.get(f"{address}&format=sig")
    assert signature.headers["Cache-Control"] == "private, no-cache"
    signature_of(path).write_bytes(signature.data)
    assert fault_of(path, signing.public) is None
    path.write_bytes(path.read_bytes() + b" ")
    assert fault_of(path, signing.public) is not None


def test_without_a_version_the_pooled_one_is_meant_or_the_only_one(full: Desk) -> None:
    assert full.get("/v1/releases/theme/2026-W49").json["fingerprint"] == "pooled"
    only = full.get("/v1/releases/theme/2026-W50")
    assert only.json["fingerprint"] == full.world.metric("theme").fingerprint
    assert full.get("/v1/releases/smokes/once").json["epoch"] == "once"


def test_where_several_versions_are_meant_all_are_named(
    full: Desk, metrics: dict[str, Metric]
) -> None:
    theme = metrics["theme"]
    versions = sorted([theme.fingerprint, other_version(theme, "2").fingerprint])
    answer = full.get("/v1/releases/theme/2026-W51")
    assert answer.status_code == 409 and answer.json["fingerprints"] == versions
    for version in versions:
        chosen = full.get(f"/v1/releases/theme/2026-W51?fingerprint={version}")
        assert chosen.json["fingerprint"] == version


def test_a_page_is_shown_under_a_policy_that_lets_it_load_nothing(full: Desk) -> None:
    theme = full.world.metric("theme").fingerprint
    address = f"/v1/releases/theme/2026-W49?fingerprint={theme}&format=html"
    answer = full.get(address)
    assert answer.content_type == "text/html; charset=utf-8" and b"<svg" in answer.data
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "private, no-cache"
    missing = full.get("/v1/releases/theme/2026-W50?format=html")
    assert missing.status_code == 404 and missing.json["field"] == "format"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("unheard_of/2026-W49", "metric"),
        ("Theme/2026-W49", "metric"),
        ("theme/2026-W48", "epoch"),
        ("theme/2026-W49.pooled", "epoch"),
        ("theme/..", "epoch"),
        ("../theme", "metric"),
        ("theme/2026-W49%00", "epoch"),
        ("%2e%2e/keys", "metric"),
        ("theme/2026-W50?fingerprint=pooled", "fingerprint"),
    ],
)
def test_what_was_not_released_is_not_found_and_the_wrong_part_is_named(
    full: Desk, path: str, field: str
) -> None:
    answer = full.get(f"/v1/releases/{path}")
    assert answer.status_code == 404 and answer.json["field"] == field


@pytest.mark.parametrize(
    "path",
    [
        "/v1/releases/../../keys.json",
        "/v1/releases/theme/..%2f..%2fkeys",
        "/v1/releases/%2e%2e%2fkeys/2026-W49",
        "/v1/releases/theme/2026-W49/",
        "//v1/releases",
        "/v1/releases/",
    ],
)
def test_no_path_leads_out_of_the_releases(full: Desk, path: str) -> None:
    assert full.get(path).status_code == 404


# Keeping answers


def test_who_has_an_answer_is_told_so(full: Desk) -> None:
    theme = full.world.metric("theme").fingerprint
    for path in (
        "/v1/releases",
        "/v1/releases/theme/2026-W49",
        f"/v1/releases/theme/2026-W49?fingerprint={theme}&format=csv",
        "/v1/metrics",
        "/openapi.yaml",
    ):
        first = full.get(path)
        etag = first.headers["ETag"]
        assert re.fullmatch('"[0-9a-f]{32}"', etag)
        for shown in (etag, f'"other", {etag}', f"W/{etag}", "*"):
            again = full.get(path, If_None_Match=shown)
            assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", etag)
            assert again.headers["Cache-Control"] == first.headers["Cache-Control"]
        assert full.get(path, If_None_Match='"0"').status_code == 200


def test_the_etag_is_of_the_content(full: Desk, metrics: dict[str, Metric]) -> None:
    before = full.get("/v1/releases").headers["ETag"]
    assert full.get("/v1/releases").headers["ETag"] == before
    full.put(released(metrics["theme"], "2026-W52"))
    assert full.get("/v1/releases", If_None_Match=before).status_code == 200


def test_only_what_never_changes_may_be_kept_for_good(full: Desk) -> None:
    """Without a version, today's answer may be another one once versions are pooled."""
    theme = full.world.metric("theme").fingerprint
    one = "/v1/releases/theme/2026-W50"
    good = "private, max-age=31536000, immutable"
    assert full.get(f"{one}?fingerprint={theme}").headers["Cache-Control"] == good
    for path in (one, "/v1/releases", "/v1/metrics"):
        assert full.get(path).headers["Cache-Control"] == "private, no-cache"
    for path in ("/livez", "/nowhere", "/v1/releases?limit=0"):
        assert full.get(path).headers["Cache-Control"] == "no-store"


def test_every_answer_forbids_guessing_its_type(full: Desk) -> None:
    for path in ("/v1/releases", "/v1/releases/theme/2026-W49?format=csv", "/livez", "/nowhere"):
        headers = full.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
    answer = full.get("/v1/releases/theme/2026-W49?format=csv")
    assert "attachment" in answer.headers["Content-Disposition"]


# Metrics and ledgers


def test_every_metric_of_the_newest_registry_is_described(desk: Desk) -> None:
    newer = REGISTRY.replace('epsilon = 1.0\nepoch = "week"', 'epsilon = 2.0\nepoch = "week"')
    old = desk.world.metric("theme").fingerprint
    now = desk.world.catalogue.register(newer)
    document = desk.get("/v1/metrics").json
    assert (document["project"], document["lifetime_epsilon"]) == ("shop-app", 1000)
    found = {each["metric"]: each for each in document["metrics"]}
    assert list(found) == list(now.metrics)
    theme, metric = found["theme"], now.metrics["theme"]
    assert theme["fingerprints"] == [old, metric.fingerprint]
    assert theme["fingerprint"] == metric.fingerprint
    assert theme["privacy"] == {"epsilon_per_report": float(metric.mechanism.epsilon)}
    assert theme["share_epsilon"] == metric.share(metric.starts) / 1e6
    assert theme["share_of_lifetime"] == pytest.approx(theme["share_epsilon"] / 1000)
    assert (theme["starts"], theme["expires"], theme["every"]) == ("2026-11-30", "2027-12-31", 1)
    assert found["home_page"]["privacy"]["epsilon_same_changes"] == pytest.approx(16)
    assert found["smokes"]["sensitivity"] == "health"


def test_a_device_is_told_what_it_has_spent(desk: Desk) -> None:
    device = desk.world.device()
    assert desk.get(f"/v1/devices/{device.id}/ledger").status_code == 404
    told = desk.world.charged(device, desk.world.report("theme"), desk.world.report("home_page"))
    assert told == ["accepted", "accepted"]
    answer = desk.get(f"/v1/devices/{device.id}/ledger")
    assert answer.json["spent_epsilon"] == 17
    assert (answer.json["left_epsilon"], answer.json["batches"]) == (983, 1)
    assert answer.json["remembered"] == ["home_page"]
    assert answer.json["composition"]["epsilon"] <= 17
    assert answer.headers["Cache-Control"] == "no-store" and "ETag" not in answer.headers


@pytest.mark.parametrize("device", ["0" * 32, "0" * 31, "F" * 32, "..", "%00"])
def test_an_unknown_device_is_not_found_and_its_id_not_repeated(desk: Desk, device: str) -> None:
    answer = desk.get(f"/v1/devices/{device}/ledger")
    assert answer.status_code == 404 and answer.json["field"] == "device"
    assert device not in answer.text


# Who may ask


def test_from_elsewhere_only_a_read_key_in_use_opens(full: Desk) -> None:
    number, text = full.read_key()
    _, other = full.read_key("a report")
    client = full.app(open_here=False).test_client()

    def asked(path: str, shown: str | None) -> int:
        headers = {} if shown is None else {"Authorization": shown}
        status: int = client.get(path, headers=headers).status_code
        return status

    paths = ("/v1/releases", "/v1/releases/theme/2026-W49", "/v1/metrics")
    for path in paths:
        assert asked(path, f"Bearer {text}") == asked(path, f"bearer  {other} ") == 200
        wrong = [None, "", text, f"Basic {text}", f"Bearer {text}x", "Bearer", "Bearer \xff"]
        for shown in (*wrong, f"Bearer {full.world.keys.write_key}"):
            assert asked(path, shown) == 401, shown
    answer = client.get(f"/v1/devices/{'0' * 32}/ledger")
    assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    # Without a restart.
    retire(full.world.settings.keys_file, KINDS["read"], number, date(2026, 12, 1))
    assert asked(paths[0], f"Bearer {text}") == 401
    assert asked(paths[0], f"Bearer {other}") == 200
    for path in ("/livez", "/readyz", "/openapi.yaml"):
        assert asked(path, None) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8090"}, 200),
        ({"Host": "127.0.0.1:8090"}, 200),
        ({"Host": "[::1]:8090"}, 200),
        ({"Host": "rebound.example:8090"}, 401),
        ({"Host": "localhost.example"}, 401),
        ({"Host": "telemetry.example.org"}, 401),
        ({"Host": "localhost", "X-Forwarded-For": "192.0.2.1"}, 401),
        ({"Host": "localhost", "Forwarded": "for=192.0.2.1"}, 401),
        ({"Host": "localhost", "Via": "1.1 proxy"}, 401),
    ],
)
def test_on_this_machine_only_who_comes_from_it_needs_no_key(
    full: Desk, headers: dict[str, str], status: int
) -> None:
    client = full.app().test_client()
    assert client.get("/v1/releases", headers=headers).status_code == status
    _, text = full.read_key()
    given = headers | {"Authorization": f"Bearer {text}"}
    assert client.get("/v1/releases", headers=given).status_code == 200


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.0.1", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.1", "example.org", "")))


# When something is missing


def test_without_the_store_releases_are_shown_all_the_same(full: Desk) -> None:
    client = full.app(source=full.away()).test_client()
    assert client.get("/v1/releases").status_code == 200
    assert client.get("/livez").status_code == 200
    for path in ("/v1/metrics", f"/v1/devices/{'0' * 32}/ledger", "/readyz"):
        answer = client.get(path)
        assert answer.status_code == 503 and answer.headers["Retry-After"]
        assert "0" * 32 not in answer.text


def test_without_a_directory_of_releases_there_are_none_and_it_is_not_ready(desk: Desk) -> None:
    assert desk.get("/readyz").status_code == 200
    desk.releases.rmdir()
    assert desk.get("/v1/releases").json == {"releases": [], "next": None}
    answer = desk.get("/readyz")
    assert answer.status_code == 503 and "SOTTOVOCE_RELEASES" in answer.json["detail"]


def test_a_file_that_is_no_release_is_our_failure_and_says_nothing_of_itself(full: Desk) -> None:
    path = next(full.releases.glob("theme/2026-W50.*.json"))
    path.write_text('{"schema": 1, "secret": 96}')
    answer = full.get("/v1/releases")
    assert answer.status_code == 500
    assert "96" not in answer.text and str(full.releases) not in answer.text


# As it runs


def test_under_gunicorn_it_serves_and_writes_nobody_down(
    full: Desk, serve: Callable[..., str], tmp_path: Path
) -> None:
    device = full.world.device()
    full.world.charged(device, full.world.report("theme"))
    _, text = full.read_key()
    url = serve(full, SOTTOVOCE_DASHBOARD_HOST="0.0.0.0", SOTTOVOCE_LOG_LEVEL="debug")
    shown = {"Authorization": f"Bearer {text}"}
    ledger = f"{url}/v1/devices/{device.id}/ledger"
    assert requests.get(ledger, timeout=30).status_code == 401
    assert requests.get(ledger, headers=shown, timeout=30).json()["spent_epsilon"] == 1
    release = requests.get(f"{url}/v1/releases/theme/2026-W49", headers=shown, timeout=30)
    assert release.content == (full.releases / "theme/2026-W49.pooled.json").read_bytes()
    given = shown | {"If-None-Match": release.headers["ETag"]}
    again = requests.get(release.url, headers=given, timeout=30)
    assert (again.status_code, again.content) == (304, b"")
    head = requests.head(release.url, headers=shown, timeout=30)
    assert head.headers["ETag"] == release.headers["ETag"] and head.content == b""
    assert head.headers["Content-Length"] == str(len(release.content))
    assert head.headers["X-Content-Type-Options"] == "nosniff"
    # What fails is logged, but not for whom.
    place = full.world.store._layout.place(device.id)
    ledger_key = full.world.store._shards[place.shard].in_bucket("ledger", place.bucket)
    with redis.Redis.from_url(full.world.redis_url) as client:
        client.hset(ledger_key, place.pseudonym, b"no record")
    assert requests.get(ledger, headers=shown, timeout=30).status_code == 500
    assert requests.get(f"{ledger}/%ff?{device.id}", headers=shown, timeout=30).status_code == 404
    log = (tmp_path / "dashboard.log").read_text()
    assert "a request failed" in log
    for secret in (device.id, text, "127.0.0.1", "/v1/devices"):
        assert secret not in log


def test_the_analyst_in_the_docs_speaks_the_contract(full: Desk, serve: Callable[..., str]) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "api.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (snippet,) = [text for text in snippets if "/v1/releases" in text]
    _, text = full.read_key()
    names: dict[str, Any] = {"SERVER": serve(full), "READ_KEY": text}
    exec(compile(snippet, "api.md", "exec"), names)
    assert len(names["found"]) == 6 and {each["metric"] for each in names["found"]} == {"theme"}
    assert names["document"]["metric"] == "theme"

"""The operations page over a system with everything in it, and over one that is not well."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.administration.admin_log import FILE_NAME, AdminLog, Entry
from aggregator.canary import PREFIX
from aggregator.keyring.kinds import KINDS
from aggregator.keyring.rotation import new, retire
from aggregator.problems import REFUSALS
from aggregator.store.history import Note, steps
from aggregator.store.layout import HISTORY
from client_sdk.epochs import end_of, parse
from client_sdk.registry import loads
from client_sdk.report import REFUSAL_REASONS
from estimator.canary import truth
from estimator.canary.truth import Truth
from estimator.dashboard.pages.closings import Closing, closings
from estimator.dashboard.pages.ingest import Day, ingest_chart, refusals_chart
from estimator.dashboard.pages.reasons import OF_SERVERS, OF_THE_STORE
from estimator.dashboard.pages.words import NOTHING
from estimator.drawing import DAYLIGHT
from estimator.due import due_at
from estimator.releases.files import read, write
from tests.aggregator.conftest import NOW
from tests.estimator.dashboard.conftest import Desk, released
from tests.estimator.dashboard.reading import Element
from tests.estimator.dashboard.showcase import HOSTILE, PROJECT, RETIRED, THEME, metric
from tests.estimator.dashboard.test_servers import Serve, figures, hangs, serve, telling

__all__ = ["serve"]  # a fixture


def ops(desk: Desk, **changes: Any) -> Element:
    return desk.page("/operations", **changes)


def log_of(desk: Desk) -> AdminLog:
    keys_file = desk.world.settings.keys_file
    return AdminLog.beside(keys_file, desk.world.keys.pseudonym_key)


def table(part: Element, place: int = 0) -> dict[str, list[str]]:
    """Rows of a table by the first words of their headings."""
    return {row[0]: row[1:] for row in part.all("table")[place].rows[1:]}


def notes_of(desk: Desk) -> list[Note]:
    """What the store keeps, read without the code that the page reads it with."""
    with redis.Redis.from_url(desk.world.redis_url) as client:
        kept = [json.loads(text) for text in client.hvals(HISTORY)]
    return [Note(**each) for each in sorted(kept, key=lambda each: each["at"])]


def grown(notes: list[Note], counter: str, seconds: float) -> int:
    total = 0
    for before, after in pairwise(notes):
        if before.at < NOW - seconds or after.at - before.at > 180:
            continue
        if any(after.counters[name] < before.counters[name] for name in before.counters):
            continue
        total += after.counters.get(counter, 0) - before.counters.get(counter, 0)
    return total


def test_the_order_is_that_of_an_operators_questions(shop: Desk) -> None:
    page = ops(shop)
    assert [each for each in page.headings() if each] == [
        "Operations",
        "Not publishing",
        "Now",
        "What arrives",
        "What is refused",
        "Servers",
        "Folding",
        "Publishing",
        "Failed, and tried again every minute",
        "Next",
        "What looks odd",
        "Keys",
        "Store",
        "Who did what",
    ]
    links = page.one("nav").all("a")
    assert [each.text for each in links if "aria-current" in each.given] == ["Operations"]


def test_totals_are_what_the_store_has_noted(shop: Desk) -> None:
    notes, page = notes_of(shop), ops(shop)
    arrived = {
        row.split(" After")[0]: cells for row, cells in table(page.part("What arrives")).items()
    }
    counters = shop.world.store.figures.counters()
    for name, words in (
        ("accepted", "reports accepted charged and kept"),
        ("duplicates", "uploads sent again"),
    ):
        assert arrived[words] == [
            f"{grown(notes, name, seconds):,}" if seconds else f"{counters[name]:,}"
            for seconds in (3600, 86_400, 0)
        ]
    refused = {row.split()[0]: cells for row, cells in table(page.part("What is refused")).items()}
    assert refused.keys() == OF_THE_STORE.keys()
    for reason, cells in refused.items():
        name = "clones" if reason == "clone_suspected" else reason
        assert cells[:2] == [f"{grown(notes, name, seconds):,}" for seconds in (3600, 86_400)]
        assert cells[2] == f"{counters[name]:,}"
    assert next(iter(refused)) == "epoch_closed"  # the most frequent of the day


def test_tiles_say_what_is_now(shop: Desk) -> None:
    page = ops(shop, free_share=lambda: 0.42)
    notes = notes_of(shop)
    tiles = {tile.one("dt").text: tile.one("dd").text for tile in page.all("div", class_="tile")}
    hour, day = grown(notes, "accepted", 3600), grown(notes[-2:], "accepted", 86_400)
    assert tiles["Reports accepted in the last hour"] == f"{hour:,} {day / 60:,.4g} a second now"
    assert tiles["Free on the store\N{RIGHT SINGLE QUOTATION MARK}s disk"].startswith("42 %")
    assert tiles["Reports waiting to be counted"] == "0 none waits"
    assert tiles["Memory of the store"].endswith("of 1.0 GiB")


def test_reports_that_wait_are_told_with_their_age(shop: Desk) -> None:
    device = shop.world.device()
    assert shop.world.charged(device, shop.world.report("theme")) == ["accepted"]
    tiles = {t.one("dt").text: t.one("dd").text for t in ops(shop).all("div", class_="tile")}
    assert tiles["Reports waiting to be counted"].startswith("1 the oldest for ")


# Charts


def values(chart: Any, layer: int) -> list[dict[str, float]]:
    found: list[dict[str, float]] = chart["layer"][layer]["data"]["values"]
    return found


@pytest.mark.parametrize("name", ["ingest", "refusals"])
def test_a_chart_is_drawn_once_while_nothing_new_is_noted(shop: Desk, name: str) -> None:
    now = [NOW // 60 * 60 + 1.0]
    client = shop.plain_app(clock=lambda: now[0]).test_client()
    first = client.get(f"/operations/{name}.svg")
    now[0] += 50
    again = client.get(f"/operations/{name}.svg", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)


def test_charts_hold_the_rates_and_mark_what_is_unknown(shop: Desk) -> None:
    notes = [note for note in notes_of(shop) if note.at >= NOW - 86_580]
    known = Day(NOW, notes, list(steps(notes)))
    bars = {row["begin"]: row for row in values(ingest_chart(known, DAYLIGHT), 1)}
    begin = (NOW // 600 - 3) * 600
    added = [
        (b.counters["accepted"] - a.counters["accepted"]) / 60
        for a, b in pairwise(notes)
        if begin <= a.at < begin + 600
    ]
    assert bars[begin * 1000]["high"] == pytest.approx(sum(added) / 10, rel=1e-6)
    unknown = {row["begin"] for row in values(ingest_chart(known, DAYLIGHT), 0)}
    assert not unknown & bars.keys() and len(unknown) + len(bars) == 145
    assert (NOW - 660 * 60) // 600 * 600_000 in unknown  # nobody noted
    assert (NOW - 300.5 * 60) // 600 * 600_000 in unknown  # the store was put back
    stacked = [
        row for row in values(refusals_chart(known, DAYLIGHT), 1) if row["begin"] == begin * 1000
    ]
    assert [row["low"] for row in stacked[1:]] == [row["high"] for row in stacked[:-1]]
    assert stacked[0]["low"] == 0


def test_a_counter_that_goes_down_is_no_rate_and_in_no_total() -> None:
    counters = (100, 160, 30, 90)
    notes = [Note(NOW - 600 + 60 * i, {"accepted": c}, 0, 0, 0, 0) for i, c in enumerate(counters)]
    known = Day(NOW, notes, list(steps(notes)))
    assert known.total("accepted") == 120 and known.known_seconds() == 120
    assert [slot.accepted for slot in known.slots if slot.accepted is not None] == []
    assert ingest_chart(known, DAYLIGHT) is None
    assert known.rate is None  # seven minutes old


@pytest.mark.parametrize("name", ["ingest", "refusals"])
def test_pictures_are_drawn_for_light_and_dark(shop: Desk, name: str) -> None:
    client = shop.plain_app().test_client()
    light, dark = (client.get(f"/operations/{name}.svg{q}") for q in ("", "?theme=dark"))
    assert light.mimetype == dark.mimetype == "image/svg+xml" and light.data != dark.data
    assert client.get(f"/operations/{name}.svg?theme=pink").status_code == 400
    sources = {each.given["src"] for each in ops(shop).all("img")}
    assert f"/operations/{name}.svg" in sources


def test_without_history_there_are_words_and_no_picture(shop: Desk) -> None:
    with redis.Redis.from_url(shop.world.redis_url) as client:
        client.delete(HISTORY)
    page = ops(shop)
    assert "the fold worker notes one figure a minute; there is none yet" in page.text
    assert not page.all("img")
    assert table(page.part("What arrives"))["reports accepted charged and kept"][:2] == [
        NOTHING,
        NOTHING,
    ]
    client = shop.plain_app().test_client()
    assert client.get("/operations/ingest.svg").status_code == 404


# Servers


def test_servers_own_refusals_are_summed_and_explained(shop: Desk, serve: Serve) -> None:
    urls = [serve(telling(figures(3, 100))), serve(telling(figures(4, 100)))]
    part = ops(shop, metrics_urls=urls).part("Servers")
    told = part.figures
    assert told["Servers read"] == "2 of 2" and told["Processes that run"] == "2"
    assert told["Half of the uploads answered within"].endswith(" ms")
    assert told["Reports that no mechanism makes"].startswith("7 uploads")
    (row,) = part.one("table").rows[1:]
    assert row[0].startswith("bad_mac") and OF_SERVERS["bad_mac"][1] in row[0] and row[1] == "7"
    assert "rate_limited" in part.text


def test_a_server_that_hangs_does_not_hold_up_the_page(shop: Desk, serve: Serve) -> None:
    urls = [serve(hangs), serve(telling(b"<script>alert(1)</script>")), serve(telling(figures(1)))]
    began = time.monotonic()
    part = ops(shop, metrics_urls=urls).part("Servers")
    assert time.monotonic() - began < 6
    assert part.figures["Servers read"] == "1 of 3"
    assert len(part.all("p", class_="finding")) == 2
    assert urls[0].split("/")[2] in part.text and "alert" not in part.text


def test_without_their_addresses_the_page_says_where_those_figures_are(shop: Desk) -> None:
    assert "SOTTOVOCE_METRICS_URLS" in ops(shop).part("Servers").text


def test_every_reason_is_explained() -> None:
    assert OF_THE_STORE.keys() == {*REFUSAL_REASONS, "clone_suspected"}
    assert OF_SERVERS.keys() == set(REFUSALS)


# Folding and publishing


def test_late_reports_are_explained_loudly(shop: Desk) -> None:
    assert "No accepted report came after" in ops(shop).part("Folding").text
    shard = shop.world.store._layout.all_shards[0]
    with redis.Redis.from_url(shop.world.redis_url) as client:
        client.hincrby(shard.key("counters"), "late", 3)
    told = ops(shop).part("Folding").one("p", class_="finding bad").text
    assert told.startswith("3 accepted reports came after their epoch was final.")


def test_publishing_says_what_failed_and_what_comes_next(shop: Desk) -> None:
    part = ops(shop).part("Publishing")
    assert "theme 2026-W47: no active signing key" in part.text and "1 try" in part.text
    rows = [row[:2] for row in part.one("table").rows[1:]]
    expected = [[each.metric, each.epoch] for each in closings(shop.source.metrics(), NOW)]
    assert rows == expected[:10] and ["crashed", "2026-11-27"] == rows[0]


def test_the_next_closing_is_the_first_that_has_not_passed() -> None:
    (theme,) = loads(PROJECT + THEME).metrics.values()
    for hour in range(0, 24 * 21, 5):
        now = NOW + 3600 * hour
        (found,) = closings([theme], now)
        epoch = parse("week", found.epoch)
        assert due_at([theme], epoch) == found.at > now >= due_at([theme], epoch - 1)
        assert found.at == end_of("week", epoch) + 3 * 86_400


def test_a_metric_that_has_ended_closes_no_more_and_one_that_begins_later_does() -> None:
    (ended,) = loads(PROJECT + RETIRED).metrics.values()  # until before 31 December 2026
    last = closings([ended], NOW + 33 * 86_400)
    assert [each.epoch for each in last] == ["2026-W53"]
    assert closings([ended], NOW + 45 * 86_400) == []
    later = metric("later", '"?"', "boolean", starts="2027-02-01")
    assert [each.epoch for each in closings(loads(PROJECT + later).metrics.values(), NOW)] == [
        "2027-W05"
    ]
    once = metric("once", '"?"', "boolean", epoch="once", expires="2026-12-20")
    (at,) = closings(loads(PROJECT + once).metrics.values(), NOW)
    assert at == Closing("once", "once", 1_797_724_800.0)
    assert closings(loads(PROJECT + once).metrics.values(), at.at) == []


# What looks odd


def test_newest_releases_are_told_with_what_fakes_could_do(shop: Desk) -> None:
    part = ops(shop).part("What looks odd")
    assert part.all("li")[0].text.startswith("home_page , 2026-W47.")
    release = read(next((shop.releases / "home_page").glob("2026-W47.*.json")))
    assert release.estimates is not None and release.estimates.worst_shift is not None
    row = next(row for row in part.one("table").rows if row[0].startswith("home_page"))
    assert row[1:5] == ["2026-W47", f"{release.estimates.n:,}", "9.3", "1e-12"]
    assert row[-1] == f"{100 * release.estimates.worst_shift:.2f} points"
    rows = [row[0].split()[0] for row in part.one("table").rows[1:]]
    assert rows.count("theme") == 2 and "beta" not in rows and "crashed" not in rows
    assert "crashed 2026-11-26" in part.text


def test_a_file_that_is_no_release_is_told_and_hides_no_other(shop: Desk) -> None:
    path = next((shop.releases / "start_hour").glob("2026-W47.*.json"))
    path.write_text("{}")
    client = shop.plain_app().test_client()
    page = Element.read(client.get("/operations").text)
    assert path.name in page.part("What looks odd").text
    assert len(page.part("What looks odd").one("table").rows) > 5


@pytest.fixture
def watched(shop: Desk) -> Iterator[tuple[Desk, Path]]:
    """A canary with one epoch, of which the truth is known."""
    name = f"{PREFIX}theme"
    text = THEME.replace('[metrics."theme"]', f'[metrics."{name}"]')
    (theme,) = loads(PROJECT + text).metrics.values()
    release = released(theme, "2026-W47")
    write(release, shop.releases)
    about = Truth(
        name,
        "2026-W47",
        theme.fingerprint,
        tuple(zip(("light", "dark", "system", "other"), (0.5, 0.3, 0.2, 0.0), strict=True)),
        begun=1000,
        delivered=1000,
    )
    truth.write(about, shop.releases)
    yield shop, truth.path_of(shop.releases, name, "2026-W47", theme.fingerprint)


def test_a_canary_is_held_against_its_truth(watched: tuple[Desk, Path]) -> None:
    desk, path = watched
    assert "agrees with its known truth over 1 epoch" in ops(desk).part("What looks odd").text
    truth.write(replace(truth.read(path), begun=1100, delivered=1100), desk.releases)
    told = ops(desk).part("What looks odd").one("div", class_="finding bad").text
    assert "100 of 1100 acknowledged reports are missing" in told


# Keys


def test_keys_are_told_without_a_secret(shop: Desk) -> None:
    path = shop.world.settings.keys_file
    first = new(path, KINDS["read"], date(2025, 11, 1), "ann@example.org")
    second = new(path, KINDS["read"], date(2026, 11, 1), "an old one")
    retire(path, KINDS["read"], second.key.id, date(2026, 11, 2))
    answer = shop.plain_app().test_client().get("/operations").text
    rows = table(Element.read(answer).part("Keys"))
    assert rows["read ann@example.org"] == ["1", "active since 2025-11-01", "394 days over a year"]
    assert not any("an old one" in row for row in rows) and "1 retired key is" in answer
    secrets = [
        str(key[name])
        for ring in json.loads(path.read_text()).values()
        if isinstance(ring, list)
        for key in ring
        for name in ("secret",)
        if key[name]
    ]
    secrets += [str(json.loads(path.read_text())["pseudonym_key"]), str(first.text)]
    assert len(secrets) >= 5 and not any(secret in answer for secret in secrets)


# The administrators' log


def test_the_log_shows_its_last_entries_newest_first(shop: Desk) -> None:
    part = ops(shop).part("Who did what")
    entries = log_of(shop).findings().entries
    assert f"All {len(entries)} entries follow one another unchanged." in part.text
    rows = part.one("table").rows[1:]
    assert len(rows) == 20
    assert rows[0][:3] == [entries[-1].time, "root@server-1", "device erased"]


@pytest.mark.parametrize("how", ["changed", "removed", "cut", "gone", "garbage"])
def test_a_log_that_was_tampered_with_is_told_loudly(shop: Desk, how: str) -> None:
    log = log_of(shop)
    log = AdminLog(log.path, log._key, "root", "server-1")  # whose log it is
    lines = log.path.read_bytes().splitlines(keepends=True)
    if how == "gone":
        log.path.unlink()
    else:
        lines = {
            "changed": [*lines[:3], lines[3].replace(b"analyst", b"visitor"), *lines[4:]],
            "removed": lines[:5] + lines[6:],
            "cut": lines[:-2],
            "garbage": [*lines, b"<script>alert(1)</script>\n"],
        }[how]
        log.path.write_bytes(b"".join(lines))
    alert = ops(shop, log=log).part("Who did what").one("div", role="alert")
    assert "Somebody may have changed" in alert.text and alert.all("li")


@pytest.mark.parametrize(
    "change",
    [
        {"details": []},
        {"details": None},
        {"details": {"\ud800": 1}},
        {"who": "\ud800"},
        {"act": "\ud800\u202e"},
        {"act": "x" * 100_000},
        {"time": {}},
        {"sequence": 10**400},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whoever_can_write_to_the_log_cannot_take_the_page_away(
    shop: Desk, change: dict[str, object]
) -> None:
    path = shop.world.settings.keys_file.with_name(FILE_NAME)
    *before, last = path.read_text().splitlines()
    path.write_text("\n".join([*before, json.dumps(json.loads(last) | change), ""]))
    part = ops(shop).part("Who did what")
    assert "Somebody may have changed" in part.text
    assert "\u202e" not in part.text and len(part.text) < 10_000


def test_a_log_is_checked_again_as_soon_as_it_changes(shop: Desk) -> None:
    log = log_of(shop)
    client = shop.plain_app(log=log).test_client()
    assert "unchanged" in Element.read(client.get("/operations").text).part("Who did what").text
    content, seen = log.path.read_bytes(), log.path.stat()
    log.path.write_bytes(content.replace(b"analyst 3", b"analyst 4"))
    os.utime(log.path, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # as somebody might
    assert client.get("/operations").text.count("Somebody may have changed") == 1


def test_hostile_details_are_texts_and_device_ids_are_not_shown(shop: Desk) -> None:
    log = log_of(shop)
    device = shop.world.device().id
    log.record("x", y=HOSTILE, device=device, list=[device], long="a" * 10_000)
    answer = shop.plain_app().test_client().get("/operations").text
    assert "<script" not in answer and device not in answer and "a" * 400 not in answer
    details = Element.read(answer).part("Who did what").one("table").rows[1][3]
    assert details.startswith('device: (hidden); list: ["(hidden)"]; long: aaa')
    assert "\u202e" not in answer and "\\u202e" in answer
    assert HOSTILE.replace('"', '\\"') in Element.read(answer).text


def test_a_log_of_ten_thousand_entries_is_read_once(
    shop: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, previous, text = log_of(shop), "0" * 64, b""
    for number in range(1, 10_001):
        act = "log_begun" if number == 1 else "key_made"
        entry = Entry(number, "2026-11-30T12:00:00Z", act, "root", "a", {"id": number}, previous)
        signed = entry.signed(log._key)
        previous, text = signed.mac, text + signed.line()
    log.path.write_bytes(text)
    reads = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (reads.append(path), real(path))[1])
    client = shop.plain_app(log=log).test_client()
    page = Element.read(client.get("/operations").text)
    assert reads.count(log.path) == 1
    assert "10,000" in page.part("Who did what").text


# A store that is away, and ourselves


def test_without_its_store_the_page_shows_what_does_not_need_it(shop: Desk) -> None:
    page = ops(shop, source=shop.away())
    headings = page.headings()
    assert "The store cannot be reached" in page.part("Not publishing").text
    for needed in ("Servers", "Publishing", "What looks odd", "Keys", "Who did what"):
        assert needed in headings
    for gone in ("Now", "What arrives", "What is refused", "Folding", "Store"):
        assert gone not in headings
    assert "no active signing key" in page.part("Publishing").text
    assert "home_page" in page.part("What looks odd").text
    assert "only the store can tell" in page.part("Who did what").text
    client = shop.plain_app(source=shop.away()).test_client()
    assert client.get("/operations/ingest.svg").status_code == 503


def test_no_device_stands_on_the_page(shop: Desk) -> None:
    device = shop.world.device()
    shop.world.charged(device, shop.world.report("theme"))
    pseudonym = shop.world.store._layout.place(device.id).pseudonym
    answer = shop.plain_app().test_client().get("/operations").data
    assert device.id.encode() not in answer and pseudonym not in answer
    assert pseudonym.hex().encode() not in answer


def test_the_page_is_sound_for_screen_readers(shop: Desk) -> None:
    page = ops(shop)
    ids = [
        e.given["id"]
        for name in ("h2", "section", "p", "main")
        for e in page.all(name)
        if "id" in e.given
    ]
    assert len(ids) == len(set(ids))
    for section in page.all("section"):
        assert section.given["aria-labelledby"] in ids
    for each in page.all("table"):
        assert all(cell.given.get("scope") in ("col", "row") for cell in each.all("th"))
    for each in page.all("img"):
        assert len(each.given["alt"]) > 20


def test_an_empty_system_has_a_page_too(desk: Desk) -> None:
    text = ops(desk).text
    assert "there is none yet" in text and "Nothing in the newest releases" in text
    assert "there is no log yet" in text.lower() and "No canary runs" in text

"""/metrics as it runs: what it tells, and where, and that it loses and doubles nothing."""

import itertools
import json
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import redis
import requests
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.app import create_app
from aggregator.keyring.kinds import OpeningKey, ReadKey
from aggregator.machine.embedded import EmbeddedServer
from aggregator.problems import REFUSALS
from aggregator.recovery.erasure import erase
from aggregator.store.accounts import Account
from aggregator.store.ledger_sample import LedgerSample, Spender
from aggregator.store.newest_releases import NewestRelease
from aggregator.watching.exposition import MOST_METRIC_LABELS, Figures, noise_stddev
from aggregator.watching.metering import Meter, watch
from client_sdk.authentication import MAC_HEADER
from client_sdk.mechanisms import Rappor
from client_sdk.report import DEVICES_PATH, REFUSAL_REASONS, REPORTS_PATH
from estimator.debias import Channel
from estimator.publish import Outcome
from estimator.publish_figures import note
from estimator.uncertainty import variance_reporters
from tests.aggregator.conftest import NOW, Gunicorn, World, free_port

ROOT = Path(__file__).parents[2]
REJECTED = "ldp_reports_rejected_total"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Series:
    """Return every sample of a scrape, each of which may occur once."""
    found: Series = {}
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(series: Series, name: str, **labels: str) -> float:
    return series[name, frozenset(labels.items())]


class Watched:
    """A server with /metrics."""

    def __init__(self, serve: Callable[..., Gunicorn], world: World, **environment: str) -> None:
        port = free_port()
        self.server = serve(world, SOTTOVOCE_METRICS_PORT=str(port), **environment)
        self.world = world
        self.metrics = f"http://127.0.0.1:{port}"

    def scrape(self) -> Series:
        answer = requests.get(self.metrics + "/metrics", timeout=30)
        assert answer.status_code == 200, answer.text
        return parsed(answer.text)

    def upload(self, *reports: str) -> Any:
        device = self.world.device()
        answer = self.server.post(device, device.batch(*reports))
        assert answer.status_code == 200, answer.text
        return device

    def workers(self) -> list[psutil.Process]:
        children: list[psutil.Process] = psutil.Process(self.server.process.pid).children()
        return children


@pytest.fixture
def watched(world: World, serve: Callable[..., Gunicorn]) -> Watched:
    watched = Watched(serve, world)
    until = time.monotonic() + 60
    while value(watched.scrape(), "ldp_server_workers") < 2:  # also while they start, no error
        assert time.monotonic() < until, "the second worker does not start"
        time.sleep(0.05)
    return watched


def figures_of(world: World, **changes: Any) -> Figures:
    """The collector of a world, in this process."""
    return Figures(
        **{
            "store": world.store,
            "catalogue": world.catalogue,
            "keys": world.keys,
            "processes": list,
            "clock": lambda: world.now,
        }
        | changes
    )


def collected(figures: Figures) -> Series:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(figures)
    return parsed(generate_latest(registry).decode())


def with_sealing_key(world: World) -> World:
    day = datetime.fromtimestamp(NOW, UTC).date()
    key = OpeningKey(1, "active", day - timedelta(days=3), day, b"s" * 32)
    (master,) = world.keys.master_keys
    world.keys = replace(
        world.keys,
        master_keys=(replace(master, created=day - timedelta(days=10)),),
        sealing_keys=(key,),
        read_keys=tuple(
            ReadKey(number, "active", day - timedelta(days=days), day, b"r" * 32, "ana")
            for number, days in ((1, 4), (2, 40), (3, 1))
        ),
    )
    return world


def test_every_series_in_the_docs_exists_and_every_series_is_in_the_docs(world: World) -> None:
    with_sealing_key(world)
    device = world.device()
    world.charged(device, world.report("theme"))
    world.folder.fold_once()
    world.store.figures.note_published({"ok": 1}, NOW)
    world.store.figures.sample_ledger(cap=10**9, cheapest=1, now=NOW, sample=random.sample)
    meter = Meter(CollectorRegistry())
    everything = figures_of(world, processes=meter.collect, free_share=lambda: 0.5)
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in everything.collect()
    }
    text = (ROOT / "docs" / "operations.md").read_text()
    documented = set(re.findall(r"^\| `((?:ldp|dp)_\w+)[`{]", text, re.MULTILINE))
    assert documented == families


def test_metrics_are_on_their_own_port_and_nowhere_else(watched: Watched) -> None:
    port = urlsplit(watched.metrics).port
    forged = {"Host": f"127.0.0.1:{port}", "X-Forwarded-Port": str(port)}
    for headers in ({}, forged):
        answer = requests.get(watched.server.url + "/metrics", headers=headers, timeout=10)
        assert answer.status_code == 404
    for path in ("/", "/readyz", REPORTS_PATH, "/metrics/x"):
        assert requests.get(watched.metrics + path, timeout=10).status_code == 404
    assert requests.get(watched.metrics + "/metrics", timeout=10).status_code == 200


def test_without_a_port_nothing_is_metered(world: World, serve: Callable[..., Gunicorn]) -> None:
    server = serve(world)
    (master,) = (psutil.Process(server.process.pid),)
    listening = [c for c in master.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert len(listening) == 1
    assert requests.get(server.url + "/metrics", timeout=10).status_code == 404


def test_every_reason_is_there_from_the_start(watched: Watched) -> None:
    series = watched.scrape()
    reasons = {
        dict(labels)["reason"]: count
        for (name, labels), count in series.items()
        if name == REJECTED
    }
    assert set(reasons) == {*REFUSALS, *REFUSAL_REASONS, "clone_suspected"}
    assert not any(reasons.values())
    assert value(series, "ldp_reports_accepted_total", metric="theme") == 0
    assert value(series, "dp_sensitivity_violation_total") == 0
    assert value(series, "ldp_server_workers") == 2


def test_refusals_of_all_processes_add_up(watched: Watched) -> None:
    device, url = watched.world.device(), watched.server.url
    good = device.batch(watched.world.report("theme"))
    headers = device.headers(good)
    misfit = device.batch(watched.world.report("theme", 3).replace(":3}", ":9}"))
    assert misfit != device.batch(watched.world.report("theme", 3), sequence=2)

    def post(data: bytes, path: str = REPORTS_PATH, **changes: str) -> int:
        sent = headers | {name.replace("_", "-"): text for name, text in changes.items()}
        return requests.post(url + path, data=data, headers=sent, timeout=10).status_code

    for _ in range(20):  # a connection each, so that both processes get some
        assert post(good[:-1]) == 400
        assert post(good, **{MAC_HEADER: "0" * 64}) == 401
        assert post(b" " * 70_000) == 413
        assert post(good, Content_Type="text/plain") == 415
        assert post(b"", DEVICES_PATH) == 401
        assert requests.post(url + REPORTS_PATH, data=iter([good]), timeout=10).status_code == 411
        assert requests.get(url + REPORTS_PATH, timeout=10).status_code == 405
        assert post(misfit, **{MAC_HEADER: device.headers(misfit)[MAC_HEADER]}) == 400
    series = watched.scrape()
    counted = {
        "malformed": 40,
        "bad_mac": 20,
        "too_large": 20,
        "unsupported_media": 20,
        "bad_write_key": 20,
        "length_required": 20,
    }
    for reason in REFUSALS:
        assert value(series, REJECTED, reason=reason) == counted.get(reason, 0), reason
    assert value(series, "dp_sensitivity_violation_total") == 20
    assert value(series, "ldp_upload_duration_seconds_count") == 120
    assert value(series, "ldp_upload_batch_reports_count") == 20


def test_uploads_are_counted_by_outcome_metric_and_reason(watched: Watched) -> None:
    world = watched.world
    device = watched.upload(world.report("theme", 1), world.report("home_page", 5))
    duplicate = device.batch(world.report("theme", 1), world.report("home_page", 5), sequence=1)
    assert watched.server.post(device, duplicate).json()["verdict"] == "duplicate"
    clone = device.batch(world.report("theme", 2), sequence=1)
    assert watched.server.post(device, clone).status_code == 409
    again = watched.server.post(device, device.batch(world.report("theme", 2), sequence=3))
    assert again.json()["reports"] == ["already_reported"]
    before = watched.scrape()
    assert value(before, "ldp_fold_lag_reports") == 2
    assert value(before, "ldp_stream_bytes") > 0
    world.folder.fold_once()
    series = watched.scrape()
    assert value(series, "ldp_batches_total", outcome="accepted") == 2
    assert value(series, "ldp_batches_total", outcome="duplicate") == 1
    assert value(series, "ldp_sequence_gaps_total") == 1
    assert value(series, "ldp_erasures_total") == 0
    assert erase(world.store, world.catalogue.load(), device.id, world.now)
    assert value(watched.scrape(), "ldp_erasures_total") == 1
    assert value(series, REJECTED, reason="clone_suspected") == 1
    assert value(series, REJECTED, reason="already_reported") == 1
    assert value(series, "ldp_reports_accepted_total", metric="theme") == 1
    assert value(series, "ldp_reports_accepted_total", metric="home_page") == 1
    assert value(series, "ldp_reports_accepted_total", metric="plan") == 0
    assert value(series, "ldp_fold_reports_total") == 2
    assert value(series, "ldp_fold_lag_reports") == value(series, "ldp_fold_lag_seconds") == 0
    assert value(series, "ldp_fold_duration_seconds_count") == 1
    assert 0 < value(series, "ldp_fold_duration_seconds_sum") < 60
    assert value(series, "ldp_redis_up") == 1 and value(series, "ldp_redis_used_memory_bytes") > 0
    assert value(series, "ldp_store_restored") == 0 < value(series, "ldp_store_generation")


def test_the_age_of_the_oldest_unfolded_report_grows_until_it_is_folded(world: World) -> None:
    world.charged(world.device(), world.report("theme"))
    time.sleep(0.05)
    world.charged(world.device(), world.report("theme"))
    assert 0.05 <= world.store.figures.oldest_seconds() < 60
    world.folder.fold_once()
    assert world.store.figures.oldest_seconds() == 0
    world.charged(world.device(), world.report("theme"))
    assert world.store.figures.oldest_seconds() < 60


def test_a_commit_that_lost_the_race_is_counted_and_adds_nothing(world: World) -> None:
    world.charged(world.device(), world.report("theme"))
    shard = next(s for s in world.store.shards if world.store.tallies.unfolded(s, 9).entries)
    read = world.store.tallies.unfolded(shard, 9)
    world.folder.fold_once()
    assert not world.store.tallies.commit(shard, read, {}, {}, {}, 0, 0.0)
    counters = world.store.figures.counters()
    assert (counters["lost"], counters["commits"], counters["folded"]) == (1, 1, 1)
    assert world.store.figures.folded() == {("theme", world.metric("theme").fingerprint): 1}


def test_nothing_in_a_scrape_names_a_device_or_an_address(watched: Watched) -> None:
    planted = "agent-of-one-device"
    world, device = watched.world, watched.world.device()
    body = device.batch(world.report("theme"))
    headers = device.headers(body) | {"User-Agent": planted, "X-Forwarded-For": "203.0.113.77"}
    assert requests.post(watched.server.url + REPORTS_PATH, data=body, headers=headers, timeout=9)
    text = requests.get(watched.metrics + "/metrics", timeout=10).text
    pseudonym = world.store._layout.place(device.id).pseudonym.hex()
    for secret in (
        device.id,
        pseudonym,
        planted,
        "203.0.113.77",
        "127.0.0.1",
        world.keys.write_key,
    ):
        assert secret not in text
    labels = {name for _, pairs in parsed(text) for name, _ in pairs}
    assert labels == {"reason", "metric", "outcome", "le", "result", "version", "schema"}


@pytest.fixture
def own_store() -> Iterator[tuple[Path, Callable[[], EmbeddedServer]]]:
    """A store that can be stopped and started on its data, at a path that stays."""
    directory = Path(tempfile.mkdtemp(prefix="sv-"))
    directory.chmod(0o700)
    running: list[EmbeddedServer] = []

    def start() -> EmbeddedServer:
        running.append(EmbeddedServer.start(directory, appendfsync="no"))
        return running[-1]

    yield directory, start
    for server in running:
        server.stop()
    shutil.rmtree(directory)


def test_restarts_of_workers_and_store_lose_and_double_nothing(
    own_store: tuple[Path, Callable[[], EmbeddedServer]],
    new_world: Callable[..., World],
    serve: Callable[..., Gunicorn],
) -> None:
    _, start = own_store
    store = start()
    world = new_world(store.url)
    watched = Watched(serve, world)
    authorization = {"Authorization": f"Bearer {world.keys.write_key}"}
    enrol = watched.server.url + DEVICES_PATH
    assert requests.post(enrol, headers=authorization, timeout=10).status_code == 201
    sent = itertools.count(1)

    def totals(series: Series) -> Series:
        return {
            key: count
            for key, count in series.items()
            if key[0].endswith(("_total", "_count", "_bucket")) and "budget" not in key[0]
        }

    before = totals(watched.scrape())

    def one_more() -> None:
        nonlocal before
        watched.upload(world.report("theme"))
        world.folder.fold_once()
        after = totals(watched.scrape())
        assert all(after[key] >= count for key, count in before.items())  # rate() sees no reset
        n = next(sent)
        assert value(after, "ldp_reports_accepted_total", metric="theme") == n
        assert value(after, "ldp_fold_reports_total") == n
        assert value(after, "ldp_batches_total", outcome="accepted") == n
        assert value(after, "ldp_upload_batch_reports_count") == n
        assert value(after, "ldp_devices_enrolled_total") == 1
        before = after

    one_more()
    for worker in watched.workers():
        worker.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not (len(watched.workers()) == 2 and value(watched.scrape(), "ldp_server_workers") == 2):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    one_more()
    store.stop()
    away = watched.scrape()
    assert value(away, "ldp_redis_up") == 0
    assert requests.post(enrol, headers=authorization, timeout=10).status_code == 503
    assert value(watched.scrape(), REJECTED, reason="unavailable") == 1
    assert not any(name.startswith("ldp_fold") for name, _ in away)
    start()
    before |= {("ldp_redis_up", frozenset()): 1}
    assert value(watched.scrape(), "ldp_redis_up") == 1
    before = totals(before)
    one_more()


def test_the_folder_of_process_figures_goes_with_the_server(
    world: World, serve: Callable[..., Gunicorn], tmp_path: Path
) -> None:
    watched = Watched(serve, world, TMPDIR=str(tmp_path))
    watched.scrape()
    assert list(tmp_path.glob("sottovoce-metrics-*/*.db"))
    watched.server.process.terminate()
    watched.server.process.wait(30)
    assert not list(tmp_path.glob("sottovoce-metrics-*"))


def metrics_toml(number: int) -> str:
    head = 'schema = 1\n[project]\nname = "many"\nlifetime_epsilon = 1000\n'
    body = """
[metrics.m{0}]
question = "Is it on?"
type = "boolean"
sensitivity = "product"
epsilon = 0.005
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31
"""
    return head + 'contact = "t@example.org"\n' + "".join(body.format(n) for n in range(number))


def test_a_thousand_metrics_stay_within_five_thousand_series(world: World) -> None:
    # server.md, section 5, row 23.
    world.catalogue.register(metrics_toml(MOST_METRIC_LABELS - 5))
    assert len(world.catalogue.current().names) == MOST_METRIC_LABELS
    with redis.Redis.from_url(world.redis_url) as client:
        for shard in world.store._layout.all_shards:
            client.hset(shard.key("reports"), mapping={f"m{n}": 7 for n in range(900)})
    meter = Meter(CollectorRegistry())
    world.store.figures.newest_releases.note(
        NewestRelease(f"m{n}", "2026-W48", "2026-11-29", 10, 0.1, 1.0, True) for n in range(1000)
    )
    series = collected(figures_of(with_sealing_key(world), processes=meter.collect))
    assert 3.9 * MOST_METRIC_LABELS < len(series) <= 5000
    assert value(series, "ldp_reports_accepted_total", metric="m899") == 7 * 64
    assert value(series, "ldp_reports_accepted_total", metric="m900") == 0


def test_more_than_a_thousand_metrics_share_one_series(world: World) -> None:
    world.catalogue.register(metrics_toml(MOST_METRIC_LABELS))
    world.charged(world.device(), world.report("theme"), world.report("plan"))
    world.folder.fold_once()
    world.store.figures.newest_releases.note(
        [NewestRelease("theme", "2026-W48", "2026-11-29", 10, 0.1, 1.0, True)]
    )
    series = collected(figures_of(world))
    assert len(series) < 200
    assert value(series, "ldp_releases_alarmed") == 1
    assert {dict(labels).get("metric") for _, labels in series} == {None, ""}
    assert value(series, "ldp_reports_accepted_total", metric="") == 2


def test_an_alarm_of_a_metric_that_has_long_ended_is_not_told_for_ever(world: World) -> None:
    world.store.figures.newest_releases.note(
        [NewestRelease("plan", "once", "2026-12-31", 10, 0.1, None, True)]
    )
    for days, told in ((31, 1), (70, 0)):  # it ends in 31 days
        series = collected(figures_of(world, clock=lambda at=NOW + days * 86_400: at))
        assert value(series, "ldp_releases_alarmed") == told
        assert (("ldp_estimate_ci_halfwidth_ratio", frozenset({("metric", "plan")})) in series) == (
            told == 1
        )


def test_noise_is_that_of_the_estimator(world: World) -> None:
    for metric in world.registry.metrics.values():
        mechanism = metric.mechanism
        variance = float(variance_reporters(0.0, 1, Channel.of_values(mechanism)))
        # Each of the bits that a string sets gives an estimate of its own.
        bits = mechanism.hashes if isinstance(mechanism, Rappor) else 1
        expected = (variance / bits) ** 0.5
        assert noise_stddev(mechanism) == pytest.approx(expected, rel=1e-12)
    # Warner's coin for epsilon = ln 3, p = 3/4: sqrt(3/16) / (1/2).
    series = collected(figures_of(world))
    theme = noise_stddev(world.metric("theme").mechanism)
    assert value(series, "dp_noise_stddev", metric="theme") == theme


def test_key_ages_are_those_of_the_keys_in_use(world: World) -> None:
    series = collected(figures_of(world))
    assert not any(
        name == "ldp_key_age_seconds" for name, _ in series
    )  # made before ages were kept
    series = collected(figures_of(with_sealing_key(world)))
    noon = 12 * 3600
    assert value(series, "ldp_key_age_seconds", kind="master") == 10 * 86400 + noon
    assert value(series, "ldp_key_age_seconds", kind="sealing") == 3 * 86400 + noon
    assert value(series, "ldp_key_age_seconds", kind="read") == 40 * 86400 + noon


def test_a_sample_of_all_buckets_tells_what_the_ledger_holds(world: World) -> None:
    for _ in range(8):  # theme costs 1 epsilon, crashed 0.5
        world.charged(world.device(), world.report("theme"))
    for _ in range(2):
        world.charged(world.device(), world.report("theme"), world.report("crashed"))
    world.store.figures.sample_ledger(
        cap=2_000_000, cheapest=600_000, now=NOW, sample=random.sample, most_buckets=10**6
    )
    series = collected(figures_of(world))
    assert value(series, "ldp_devices_active") == 10
    assert value(series, "ldp_budget_exhausted_devices") == 2
    assert value(series, "ldp_budget_spent_ratio_bucket", le="0.25") == 0
    assert value(series, "ldp_budget_spent_ratio_bucket", le="0.5") == 8
    assert value(series, "ldp_budget_spent_ratio_bucket", le="0.75") == 10
    assert value(series, "ldp_budget_spent_ratio_bucket", le="+Inf") == 10
    assert value(series, "ldp_budget_spent_ratio_sum") == pytest.approx(8 * 0.5 + 2 * 0.75)
    assert value(series, "dp_budget_remaining", statistic="mean") == pytest.approx(0.9)
    assert value(series, "dp_budget_remaining", statistic="p10") == 0.5
    assert value(series, "dp_budget_remaining", statistic="p50") == 1.0
    assert value(series, "ldp_ledger_scan_timestamp_seconds") == NOW


def test_a_sample_of_some_buckets_is_scaled_up(world: World) -> None:
    for _ in range(40):
        world.charged(world.device(), world.report("theme"))
    drawn: list[int] = []

    def half(population: Any, k: int) -> list[int]:
        drawn.append(k)
        return [*population][::2][:k]

    buckets = 64 * world.settings.buckets
    found, scale = world.store.accounts.sampled(buckets // 2, half, ())
    assert drawn == [buckets // 2] and scale == 2
    assert 0 < len(found) <= 40 and {account.spent for account in found} == {1_000_000}
    accounts = [Account(spent, 1, ()) for spent in (1, 2)]
    sample = LedgerSample.of(accounts, cap=2, cheapest=1, scale=5.0, now=0.0)
    assert (sample.devices, sample.exhausted, sample.within[-1]) == (10, 5, 10)
    assert LedgerSample.read(sample.text()) == sample


def test_a_sample_keeps_the_shape_of_spending_and_who_has_paid() -> None:
    spent = [0, 4, 5, 99, 100, 130, 30, 30]
    paid = [(), ("c",), ("c",), (), ("c", "d"), (), ("c",), ("d",)]
    accounts = [Account(each, 1, channels) for each, channels in zip(spent, paid, strict=True)]
    memos = {"c": 8, "d": 20}
    sample = LedgerSample.of(accounts, cap=100, cheapest=1, scale=2.0, now=0.0, memos=memos)
    # Classes of 5 each: 0 and 4, then 5, then 30 twice; the last holds 99, the cap and beyond.
    assert dict(enumerate(sample.histogram)) == dict.fromkeys(range(20), 0) | {
        0: 4,
        1: 2,
        6: 4,
        19: 6,
    }
    assert sample.payers == {"c": 8, "d": 4}
    assert sample.highest == Spender(130, 0)
    assert sample.median == Spender(30, 20)  # of two with that figure, the one that pays more
    assert LedgerSample.read(sample.text()) == sample


def test_what_another_version_has_sampled_is_no_sample() -> None:
    sample = LedgerSample.of([], cap=1, cheapest=1, scale=1.0, now=0.0)
    kept = json.loads(sample.text())
    for name in kept:
        assert LedgerSample.read(json.dumps({k: v for k, v in kept.items() if k != name})) is None
    assert LedgerSample.read(json.dumps(kept | {"more": 1})) is None


def test_a_sample_asks_who_has_paid_for_what_is_remembered(world: World) -> None:
    channel = world.metric("home_page").channel_hash
    for number in range(6):
        world.charged(world.device(), world.report("home_page" if number < 4 else "theme"))
    sample = world.store.figures.sample_ledger(
        cap=10**8,
        cheapest=1,
        now=NOW,
        sample=random.sample,
        memos={channel: 8_000_000},
        most_buckets=10**6,
    )
    assert sample.payers == {channel: 4} and sample.highest == Spender(8_000_000, 8_000_000)
    assert world.store.figures.ledger_sample() == sample


def test_accounts_are_the_same_however_they_are_read(world: World) -> None:
    devices = [world.device() for _ in range(6)]
    for number, device in enumerate(devices):
        names = ["theme", "home_page", "wide"][: 1 + number % 3]
        world.charged(device, *(world.report(name) for name in names))
    channels = [world.metric(name).channel_hash for name in ("wide", "home_page")]
    each = [world.store.accounts.of(device.id, channels) for device in devices]
    found, scale = world.store.accounts.sampled(10**6, random.sample, channels)
    assert sorted(world.store.accounts.all(channels), key=str) == sorted(each, key=str)
    assert (sorted(found, key=str), scale) == (sorted(each, key=str), 1)


def test_an_empty_ledger_is_sampled_too(world: World) -> None:
    world.store.figures.sample_ledger(cap=1, cheapest=1, now=NOW, sample=random.sample)
    series = collected(figures_of(world))
    assert value(series, "ldp_devices_active") == 0
    assert not any(name == "dp_budget_remaining" for name, _ in series)


def outcome(status: Any) -> Outcome:
    return Outcome("theme", "2026-W48", "f", status)


def test_publishing_is_counted_and_a_failure_does_not_pass_for_success(world: World) -> None:
    figures = world.store.figures
    note(figures, [outcome("OK"), outcome("WITHHELD")], NOW)
    note(figures, [outcome("OK"), outcome("FAILED")], NOW + 60)
    series = collected(figures_of(world))
    results = {result: value(series, "ldp_publish_total", result=result) for result in RESULTS}
    assert results == {"ok": 2, "withheld": 1, "failed": 1}
    assert value(series, "ldp_publish_suppressed_total", reason="min_n") == 1
    assert value(series, "ldp_publish_last_success_timestamp_seconds") == NOW
    note(figures, [], NOW + 120)  # nothing was due, and that went well
    series = collected(figures_of(world))
    assert value(series, "ldp_publish_last_success_timestamp_seconds") == NOW + 120


RESULTS = ("ok", "withheld", "failed")


def test_an_answer_of_503_is_counted_as_unavailable(world: World) -> None:
    meter = Meter(CollectorRegistry())
    app = create_app(store=world.store, keys=world.keys, catalogue=world.catalogue)
    watch(app, meter, timer=iter([1.0, 1.5]).__next__)
    device = world.device()
    body = device.batch(world.report("theme"))
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("maxmemory", 1)
        try:
            answer = app.test_client().post(REPORTS_PATH, data=body, headers=device.headers(body))
        finally:
            admin.config_set("maxmemory", 0)
    assert answer.status_code == 503
    series = parsed(generate_latest(meter.registry).decode())
    assert value(series, REJECTED, reason="unavailable") == 1
    assert value(series, "ldp_upload_duration_seconds_sum") == 0.5

"""A system that has run for half a year, with everything in it that a page may have to show."""

import json
import math
import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import redis

from aggregator.administration.admin_log import FILE_NAME, AdminLog
from aggregator.ledger import Record
from aggregator.store.history import MINUTES, Note
from aggregator.store.layout import HISTORY
from aggregator.store.verdicts import in_words
from aggregator.tally import Tally
from client_sdk.epochs import day_of, epoch_of, first_day, label
from client_sdk.metric import Metric
from client_sdk.registry import loads
from estimator.due import due_at
from estimator.estimate import estimate
from estimator.ledger.lifetime import lifetime
from estimator.ledger.spending import Prices
from estimator.plausibility import Plausibility, judge
from estimator.previews import renew
from estimator.publish_figures import note
from estimator.releases import failures
from estimator.releases.files import write
from estimator.releases.release import Release, compose, compose_pooled
from estimator.source import StoreSource
from tests.aggregator.conftest import NOW, World, make_world
from tests.estimator.conftest import expected_tally, other_version

LONG_AGO = {"a": 2_400_000, "folded": 2_400_000, "batches": 800_000, "duplicates": 9_000} | {
    "commits": 50_000,
    "microseconds": 190_000_000,
    "r": 21_000,
    "c": 14_000,
    "m": 6_000,
    "clones": 40,
}
"""What shard 0 has counted before; as shards name it."""
HOSTILE = '<script>alert("1")</script>'
METRIC = """
[metrics."{name}"]
question = {question}
type = "{type}"
{more}
sensitivity = "product"
epsilon = {epsilon}
epoch = "{epoch}"
owners = ["{name}@example.org"]
starts = {starts}
expires = {expires}
"""
PROJECT = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 400
contact = "telemetry@example.org"
"""


def metric(
    name: str,
    question: str,
    type: str,
    more: str = "",
    *,
    epsilon: float = 1.0,
    epoch: str = "week",
    starts: str = "2026-06-01",
    expires: str = "2027-06-01",
) -> str:
    """One metric of metrics.toml; a question is written as TOML has it, quotes included."""
    return METRIC.format(**locals())


THEME = metric(
    "theme",
    '"Which theme is active? To decide what to polish; the UI team looks."',
    "category",
    'values = ["light", "dark", "system", "other"]\ncatch_all = "other"',
)
RETIRED = metric("old_flag", '"Was the old flag on?"', "boolean", expires="2026-12-31")
HOURS = ", ".join(map(str, range(24)))
ASKED = [
    THEME,
    metric("crashed", '"Did the app crash?"', "boolean", epoch="day", epsilon=0.5),
    metric(
        "start_hour",
        '"At which hour was it opened first?"',
        "ordinal",
        f"values = [{HOURS}]\nmissing = 12",
    ),
    metric(
        "home_page",
        '"Which site is the start page?"',
        "string",
        "min_reports = 20\n"
        "memoize = { epsilon_permanent = 4.0, distinct_values = 2 }\n"
        "rappor = { bits = 64, hashes = 2, cohorts = 16 }\n"
        'candidates = ["example.org", "example.com", "example.net", "intranet"]',
    ),
    metric(
        "hostile.names",
        "'Is <b>this</b> & \"that\" <script>alert(1)</script> safe?'",
        "category",
        f"values = ['{HOSTILE}', '\" onload=\"x', '=1+1', 'javascript:alert(1)', 'other']\n"
        'catch_all = "other"',
    ),
    metric(
        "gestures",
        '"Which gestures are used?"',
        "multi_select",
        'values = ["swipe", "pinch", "long press", "shake", "double tap"]\nmost = 3',
        epsilon=1.2,
        epoch="month",
        expires="2027-01-01",
    ),
    metric(
        "session_minutes",
        '"For how many minutes was it used?"',
        "number",
        'range = [0, 120]\nmissing = 0\nmechanism = "one_bit_mean"',
        epsilon=0.8,
        epoch="month",
        expires="2027-01-01",
    ),
    metric(
        "load_seconds",
        '"How many seconds did it load?"',
        "number",
        "range = [0, 12]\nbuckets = 12\nmissing = 0",
        epsilon=0.9,
        epoch="month",
        expires="2027-01-01",
    ),
    metric("smokes", '"Do you smoke?"', "boolean", epoch="once", expires="2026-12-20"),
    metric("beta", '"Is the beta in use?"', "boolean", starts="2026-11-23"),
]
REGISTRIES = [PROJECT + THEME + RETIRED, PROJECT + "".join(ASKED)]
SHARES = {
    "theme": [0.46, 0.31, 0.21, 0.02],
    "crashed": [0.97, 0.03],
    "start_hour": [0.0] * 6 + [0.02, 0.05, 0.1, 0.13, 0.1, 0.08, 0.07] + [0.05] * 9 + [0.0, 0.0],
    "hostile.names": [0.5, 0.3, 0.15, 0.05, 0.0],
    "smokes": [0.8, 0.2],
    "old_flag": [0.4, 0.6],
    "load_seconds": [0.02, 0.31, 0.26, 0.17, 0.1, 0.06, 0.03, 0.02, 0.01, 0.01, 0.0, 0.01],
    "gestures": [0.93, 0.61, 0.34, 0.02, 0.17],
}


def showcase(redis_url: str, directory: Path, releases: Path) -> World:
    """Make a system with two registries, open epochs with reports, and releases.

    Args:
        releases: Where `write_releases` has put them; copied to DIRECTORY/releases.
    """
    world = make_world(redis_url, directory, REGISTRIES[0])
    world.registry = world.catalogue.register(REGISTRIES[1])
    shutil.copytree(releases, directory / "releases")
    _report(world)
    _note_a_day(world)
    _keep_a_log(world)
    renew(StoreSource(world.store, world.catalogue), directory / "releases", NOW - 300)
    return world


def write_releases(directory: Path) -> None:
    """Write half a year of releases.

    theme: weeks in two versions from W45 on, W40 without a release, W43 withheld; crashed: 60 days,
    the last withheld; home_page: an alarm, unlisted strings; hostile.names: what must be escaped;
    smokes: asked once; beta: no release yet; old_flag: asked no more.
    """
    rng = np.random.default_rng(20261130)
    for release in _releases(rng):
        write(release, directory)
    failures.note(directory, "theme", "2026-W47", [("", "no active signing key")], NOW - 300)


def _releases(rng: np.random.Generator) -> Iterator[Release]:
    before, metrics = (loads(text).metrics for text in REGISTRIES)
    for each in (*metrics.values(), before["old_flag"]):
        for epoch in _epochs(each):
            name = label(each.epoch, epoch)
            n = int(rng.integers(9_000, 12_000))
            if (each.name, name) in (("theme", "2026-W43"), ("crashed", "2026-11-26")):
                n = 60
            release = _release(each, epoch, n, rng)
            if each.name == "theme" and name >= "2026-W45":
                old = _release(other_version(each, "2"), epoch, n // 3, rng)
                yield from (old, compose_pooled(each, [old, release]))
            yield release


def _epochs(metric: Metric) -> Iterator[int]:
    if metric.name == "beta":
        return
    if metric.epoch == "once":
        yield 0
        return
    today = day_of(NOW)
    first = max(metric.starts, today - timedelta(days=60 if metric.epoch == "day" else 365))
    for epoch in range(epoch_of(metric.epoch, first), epoch_of(metric.epoch, today)):
        gone = metric.name == "old_flag" and first_day(metric.epoch, epoch) > date(2026, 9, 1)
        missing = metric.name == "theme" and label("week", epoch) == "2026-W40"
        if due_at([metric], epoch) <= NOW and not gone and not missing:
            yield epoch


def _release(metric: Metric, epoch: int, n: int, rng: np.random.Generator) -> Release:
    tally = _tally(metric, n, rng)
    seen: Plausibility = judge(metric.mechanism, tally, ())
    if metric.name == "home_page" and epoch == max(_epochs(metric)):
        seen = replace(seen, popcount_z=9.3, popcount_p=1e-12)
    spent = lifetime(rng.integers(0, 300, 24_000) * 1_000_000, 400_000_000)
    return compose(
        metric, "shop-app", epoch, estimate(metric, tally), seen, spent, now=NOW - 86_400
    )


def _tally(metric: Metric, n: int, rng: np.random.Generator) -> Tally:
    """Draw what n honest devices report, cell by cell; a simulated tally, so numpy may draw it."""
    mechanism = metric.mechanism
    if metric.type == "string":
        sizes = rng.multinomial(n, [1 / mechanism.cohorts] * mechanism.cohorts)
        held = np.array([0.5, 0.25, 0.1, 0.0])
        counts = []
        for cohort, size in enumerate(sizes):
            chance = np.full(mechanism.cells, float(mechanism.p_false))
            gap = float(mechanism.p_true - mechanism.p_false)
            for share, value in zip(held, metric.candidates, strict=True):
                chance[list(mechanism.cells_for(value, cohort))] += gap * share
            counts.append(rng.binomial(size, chance))
        return Tally(sizes, np.array(counts))
    if mechanism.encodes == "number":
        numbers = np.clip(rng.gamma(1.6, 18 + rng.normal(), 300), 0, 120)
        places = (metric.encode(float(number))[0] for number in numbers)
        law = np.mean([[float(part) for part in mechanism.channel(p, 0)] for p in places], axis=0)
        return Tally(np.array([n]), rng.binomial(n, law)[None, :])
    expected = expected_tally(metric, n, SHARES[metric.name])
    if mechanism.kind == "cell" and mechanism.cells > 1:
        drawn = rng.multinomial(n, expected.counts[0] / expected.counts[0].sum())
    else:
        drawn = rng.binomial(n, expected.counts[0] / n)
    return Tally(expected.reports, drawn[None, :])


def _note_a_day(world: World) -> None:
    """Leave the notes of a day: more by day than by night, two hours without any, a wave of
    reports that came too late, and a restored store five hours ago."""
    now, before = world.store.figures.counters(), Counter(LONG_AGO)
    with redis.Redis.from_url(world.redis_url) as client:
        for name, number in LONG_AGO.items():
            client.hincrby(world.store._layout.all_shards[0].key("counters"), name, number)
        told = in_words([[(name.encode(), number) for name, number in before.items()]])
        enrolled, used = world.store.figures.enrolled(), world.store.figures.memory().used_bytes
        at, counters = NOW, Counter({name: now[name] + told[name] for name in now | told})
        kept: dict[int, str] = {}
        for minute in range(MINUTES - 1):
            if not 600 < minute < 720:
                note = Note(at, dict(counters), 1.5, 4096, used, enrolled - minute // 10)
                kept[int(at // 60) % MINUTES] = json.dumps(asdict(note))
            accepted = round(300 + 250 * math.sin((at % 86_400) / 13_751) - 20 * (minute % 3))
            counters.subtract(accepted=accepted, folded=accepted, batches=accepted // 3)
            counters.subtract(duplicates=minute % 4, already_reported=4, clones=minute % 97 == 0)
            counters.subtract(epoch_closed=60 if 200 < minute < 260 else 2, unknown_metric=1)
            if minute == 300:
                counters.update(accepted=50_000)
            at -= 60
        client.hset(HISTORY, mapping=kept)


def _keep_a_log(world: World) -> None:
    log = AdminLog(
        world.settings.keys_file.with_name(FILE_NAME),
        AdminLog.beside(world.settings.keys_file, world.keys.pseudonym_key)._key,
        "root",
        "server-1",
        lambda: NOW - 86_400,
    )
    log.record("settings_changed", SOTTOVOCE_PLAIN_UPLOADS="accept", SOTTOVOCE_ENROL_LIMIT=100_000)
    for number in range(24):
        log.record("key_made", kind="read", id=number, label=f"analyst {number}")
    log.record("registry_registered", project=HOSTILE, metrics={"theme": 1.0})
    log.record("epoch_closed", metric="theme", epoch="2026-W47", turned="\u202egnp.exe")
    log.record("device_erased")
    log.anchor(world.store.log_heads)


def _report(world: World, devices: int = 240) -> None:
    """Let devices report the open epochs, fold, look at the ledger, and note a pass."""
    chance = random.Random(20261130)
    for number in range(devices):
        device = world.device()
        reports = [world.report("theme", chance.randrange(4))]
        if number % 2:
            reports.append(world.report("crashed", chance.randrange(2)))
        if number % 3 == 0:
            reports.append(world.report("home_page", chance.getrandbits(64), chance.randrange(16)))
        assert set(world.charged(device, *reports)) == {"accepted"}
        world.store.figures.note_enrolment()
        if number % 20 == 0:
            world.charged(device, world.report("theme", 0))
    world.folder.fold_once()
    look(world)
    note(world.store.figures, [], NOW - 20)


def look(world: World) -> None:
    """Look at the ledger, as `sottovoce schedule` does."""
    versions = world.catalogue.load()
    world.store.figures.sample_ledger(
        cap=versions.cap,
        cheapest=versions.cheapest,
        now=NOW - 60,
        sample=random.sample,
        memos=Prices.of(versions.metrics.values()).memos,
    )


def age(world: World) -> None:
    """Let devices have lived: reports of epochs long closed in ledger and counters, no tallies.

    Four devices have almost spent their lives, as after recoveries from old backups.
    """
    chance = random.Random(20261130)
    layout, most = world.store._layout, {"theme": 25, "crashed": 180, "start_hour": 26}
    lives = 0
    with redis.Redis.from_url(world.redis_url) as client:
        for shard in layout.all_shards:
            for bucket in range(layout.buckets):
                key = shard.in_bucket("ledger", bucket)
                for pseudonym, packed in client.hgetall(key).items():
                    record = Record.unpack(packed)
                    spent, part = record.spent, chance.random()
                    for name, reports in most.items():
                        version = world.metric(name)
                        count = round(part * reports)
                        spent += count * version.charge
                        field = f"{name}:{version.fingerprint}"
                        client.hincrby(shard.key("reports"), field, count)
                    lives += 1
                    if lives % 60 == 0:
                        spent = world.registry.lifetime_micro - lives * 1000
                    words = (spent >> 32, spent & 0xFFFFFFFF, record.sequence, record.digest)
                    client.hset(key, pseudonym, struct.pack(">HII16s", *words))
    look(world)

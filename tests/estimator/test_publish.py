"""Publishing: when, what, each version by itself, and that failures stay small."""

import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk.epochs import day_of, parse
from estimator.due import close_due, due_at
from estimator.errors import NotPublishable
from estimator.publish import publish_due, publish_epoch
from estimator.releases.failures import failures, note
from estimator.releases.files import read, releases

WEEK = parse("week", "2026-W49")  # 30 November to 6 December 2026
SHARES = [0.5, 0.3, 0.2, 0.0]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


AFTER = at("2026-12-10")  # 7 December 00:00 UTC and three days of grace


@pytest.fixture
def source(metrics, tally_of, make_source):
    theme = metrics["theme"]
    made = make_source(theme)
    made.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    return made


def test_an_epoch_is_published_when_end_and_grace_have_passed(source, tmp_path):
    assert publish_due(source, tmp_path, AFTER - 1) == []
    assert source.closed == []
    (outcome,) = publish_due(source, tmp_path, AFTER)
    assert (outcome.status, outcome.metric, outcome.epoch) == ("OK", "theme", "2026-W49")
    assert source.closed == [("theme", WEEK)]
    assert read(outcome.path).estimates.n == 1000


def test_an_epoch_without_reports_is_closed_too_when_its_grace_has_passed(source):
    close_due(source, AFTER - 1)
    assert source.closed == []
    close_due(source, AFTER)
    assert source.closed == [("theme", WEEK)]
    # Two weeks later two further epochs are over; closing one closes those before it.
    close_due(source, AFTER + 14 * 86_400)
    assert source.closed[-1] == ("theme", WEEK + 2)


def test_what_is_released_is_not_published_again(source, tmp_path, metrics, tally_of):
    """Case C42: late reports change no published number, and the rerun says nothing is due."""
    publish_due(source, tmp_path, AFTER)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    source.add(metrics["theme"], WEEK, tally_of(metrics["theme"], 5, SHARES))
    assert publish_due(source, tmp_path, AFTER) == []
    (outcome,) = publish_epoch(source, tmp_path, AFTER, "theme", "2026-W49", early=False)
    assert outcome.status == "OK"
    assert read(outcome.path).estimates.n == 1000
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_too_few_reports_are_withheld_and_said_so(metrics, tally_of, make_source, tmp_path):
    source = make_source(metrics["theme"])
    source.add(metrics["theme"], WEEK, tally_of(metrics["theme"], 96, SHARES))
    (outcome,) = publish_due(source, tmp_path, AFTER)
    assert (outcome.status, outcome.reason) == ("WITHHELD", "fewer than 100 reports")
    assert publish_due(source, tmp_path, AFTER) == []


def test_an_open_epoch_is_closed_early_only_on_demand(source, tmp_path):
    now = at("2026-12-01T12:00")
    with pytest.raises(NotPublishable, match=r"until 2026-12-10 00:00 UTC; --close"):
        publish_epoch(source, tmp_path, now, "theme", "2026-W49", early=False)
    assert source.closed == []

    def refusing(act, **details):
        raise OSError("the administrators' log cannot be written")

    with pytest.raises(OSError, match="log"):
        publish_epoch(source, tmp_path, now, "theme", "2026-W49", early=True, record=refusing)
    assert source.closed == []
    told = []

    def record(act, **details):
        told.append((act, details, list(source.closed)))

    (outcome,) = publish_epoch(
        source, tmp_path, now, "theme", "2026-W49", early=True, record=record
    )
    # Before it is done.
    assert told == [("epoch_closed_early", {"metric": "theme", "epoch": "2026-W49"}, [])]
    assert outcome.status == "OK"
    assert source.closed[0] == ("theme", WEEK)


@pytest.mark.parametrize(
    ("name", "epoch", "message"),
    [
        ("thema", "2026-W49", "thema is not a registered metric"),
        ("theme", "2026-12", "an epoch of length week is written like"),
        ("theme", "2026-W51", "has not begun"),
        ("theme", "2026-W48", "holds no reports"),
    ],
)
def test_what_cannot_be_published_is_refused_with_the_reason(
    source, tmp_path, name, epoch, message
):
    with pytest.raises(NotPublishable, match=message):
        publish_epoch(source, tmp_path, at("2026-12-01"), name, epoch, early=True)
    assert releases(tmp_path) == []


def test_a_once_metric_closes_at_its_expiry(metrics, tally_of, make_source, tmp_path):
    smokes = metrics["smokes"]
    source = make_source(smokes)
    source.add(smokes, 0, tally_of(smokes, 1000, [0.9, 0.1]))
    assert publish_due(source, tmp_path, at("2026-12-01") - 1) == []
    (outcome,) = publish_due(source, tmp_path, at("2026-12-01"))
    assert (outcome.status, outcome.epoch) == ("OK", "once")


def test_versions_are_estimated_apart_and_pooled(
    metrics, tally_of, make_source, version_of, tmp_path
):
    old, new = metrics["theme"], version_of(metrics["theme"], "2")
    source = make_source(old, new)
    source.add(old, WEEK, tally_of(old, 3000, SHARES))
    source.add(new, WEEK, tally_of(new, 1000, SHARES))
    outcomes = publish_due(source, tmp_path, AFTER)
    assert [o.fingerprint for o in outcomes] == [old.fingerprint, new.fingerprint, "pooled"]
    first, second, both = (read(o.path) for o in outcomes)
    assert both.channels.pooled_from == ((old.fingerprint, 3000), (new.fingerprint, 1000))
    assert both.estimates.n == 4000
    for pooled, a, b in zip(*(r.estimates.entries for r in (both, first, second)), strict=True):
        assert pooled.share == pytest.approx(0.75 * a.share + 0.25 * b.share)
    # A hundredth of all reports, all of them fakes of one version: the worse of the two.
    assert both.estimates.worst_shift == pytest.approx(
        max(first.estimates.worst_shift, second.estimates.worst_shift)
    )
    # Adding the counts and inverting one of the two channels would be off by 6 points.
    wrong = (tally_of(old, 3000, SHARES) + tally_of(new, 1000, SHARES)).counts[0, 0] / 4000
    p, q = float(old.mechanism.p_true), float(old.mechanism.p_false)
    assert abs((wrong - q) / (p - q) - both.estimates.entries[0].share) > 0.06
    assert publish_due(source, tmp_path, AFTER) == []


def test_a_withheld_version_cannot_be_had_by_subtraction(
    metrics, tally_of, make_source, version_of, tmp_path
):
    """Case C55: 404 and 96 reports, and 300 more; no document may show 500 or 800."""
    theme = metrics["theme"]
    versions = [theme, version_of(theme, "2"), version_of(theme, "0.5")]
    source = make_source(*versions)
    for version, n in zip(versions, (404, 96, 300), strict=True):
        source.add(version, WEEK, tally_of(version, n, SHARES))
    statuses = [outcome.status for outcome in publish_due(source, tmp_path, AFTER)]
    assert statuses == ["OK", "WITHHELD", "OK", "OK"]
    shown = [r.estimates.n for r in releases(tmp_path) if r.estimates is not None]
    assert sorted(shown) == [300, 404, 704]


def test_a_failure_is_reported_kept_to_its_metric_and_tried_again(
    metrics, tally_of, make_source, tmp_path, caplog
):
    """A decode that is refused, beside a metric that is fine."""
    theme, home = metrics["theme"], metrics["home_page"]
    day = parse("day", "2026-12-01")
    source = make_source(home, theme)
    source.add(home, day, Tally(np.array([1000, 0, 0, 0]), np.zeros((4, 31), np.int64)))
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    with caplog.at_level(logging.CRITICAL):
        failed, good = publish_due(source, tmp_path, AFTER)
    assert (failed.status, good.status) == ("FAILED", "OK")
    assert "must have shape" in failed.reason
    source.kept[home.name, home.fingerprint, day] = Tally(np.full(4, 300), np.full((4, 32), 150))
    (mended,) = publish_due(source, tmp_path, AFTER)
    assert (mended.status, mended.metric) == ("OK", "home_page")


def test_an_epoch_that_cannot_be_closed_is_not_read(source, tmp_path, caplog):
    source.down = True
    with caplog.at_level(logging.CRITICAL):
        (outcome,) = publish_due(source, tmp_path, AFTER)
    assert outcome.status == "FAILED"
    assert "shard 3 is away" in outcome.reason
    assert releases(tmp_path) == []
    source.down = False
    assert [o.status for o in publish_due(source, tmp_path, AFTER)] == ["OK"]


def test_one_publisher_at_a_time(source, tmp_path):
    tmp_path.mkdir(exist_ok=True)
    outcomes = []
    worker = threading.Thread(target=lambda: outcomes.extend(publish_due(source, tmp_path, AFTER)))
    with open(tmp_path / ".publishing.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker.start()
        worker.join(0.3)
        assert worker.is_alive()
        assert source.closed == []
    worker.join(10)
    assert [outcome.status for outcome in outcomes] == ["OK"]


def test_a_failure_stays_listed_until_it_succeeds(source, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    source.down = True
    for minute in range(3):
        publish_due(source, tmp_path, AFTER + 60 * minute)
    (failure,) = failures(tmp_path)
    assert (failure.metric, failure.epoch, failure.tries) == ("theme", "2026-W49", 3)
    assert (failure.first, failure.last) == (AFTER, AFTER + 120)
    assert failure.reason == "could not be closed: shard 3 is away"
    source.down = False
    publish_due(source, tmp_path, AFTER + 180)
    assert failures(tmp_path) == []


def test_a_list_of_failures_that_cannot_be_read_keeps_nothing_back(source, tmp_path, caplog):
    (tmp_path / "failures.json").write_text("[{")
    assert [o.status for o in publish_due(source, tmp_path, AFTER)] == ["OK"]
    assert "is no list of failures" in caplog.text
    note(tmp_path, "theme", "2026-W50", [("", "shard 3 is away")], AFTER)
    assert [failure.epoch for failure in failures(tmp_path)] == ["2026-W50"]


@pytest.fixture
def two_versions(metrics, tally_of, make_source, version_of):
    old, new = metrics["theme"], version_of(metrics["theme"], "2")
    made = make_source(old, new)
    made.add(old, WEEK, tally_of(old, 3000, SHARES))
    made.add(new, WEEK, tally_of(new, 1000, SHARES))
    return made


def test_a_pooled_release_that_failed_is_tried_again(two_versions, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    with monkeypatch.context() as broken:
        broken.setattr("estimator.publish.compose_pooled", lambda *parts: 1 / 0)
        outcomes = publish_due(two_versions, tmp_path, AFTER)
    assert [o.status for o in outcomes] == ["OK", "OK", "FAILED"]
    assert [failure.fingerprint for failure in failures(tmp_path)] == ["pooled"]
    assert [o.status for o in publish_due(two_versions, tmp_path, AFTER)] == ["OK", "OK", "OK"]
    assert failures(tmp_path) == []
    assert publish_due(two_versions, tmp_path, AFTER) == []


def test_a_publisher_that_dies_before_the_pooled_release_leaves_the_epoch_due(
    two_versions, tmp_path, monkeypatch
):
    class Killed(BaseException):
        pass

    def die(*parts):
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr("estimator.publish.compose_pooled", die)
        with pytest.raises(Killed):
            publish_due(two_versions, tmp_path, AFTER)
    outcomes = publish_due(two_versions, tmp_path, AFTER)
    assert outcomes[-1].fingerprint == "pooled"


PUBLISHER = """
import sys
from pathlib import Path
from client_sdk.registry import loads
from estimator.publish import publish_due
from tests.estimator.conftest import REGISTRY, Tallies, expected_tally

theme = loads(REGISTRY).metrics["theme"]
source = Tallies(theme)
for week in range(4):
    source.add(theme, int(sys.argv[2]) + week, expected_tally(theme, 1000, [0.5, 0.3, 0.2, 0]))
print("ready", flush=True)
sys.stdin.readline()
for outcome in publish_due(source, Path(sys.argv[1]), float(sys.argv[3])):
    print(outcome.epoch)
"""


def test_two_processes_at_once_publish_each_epoch_once(tmp_path):
    """Four weeks are due to both; the second one to come waits, and then finds nothing."""
    words = [str(tmp_path), str(WEEK), str(AFTER + 20 * 7 * 86_400)]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        for _ in range(2)
    ]
    try:
        for each in both:
            assert each.stdout.readline() == "ready\n"
        for each in both:
            each.stdin.write("\n")
            each.stdin.flush()
        said = [each.communicate(timeout=100)[0].split() for each in both]
    finally:
        for each in both:
            each.kill()
            each.communicate()
    assert sorted(len(epochs) for epochs in said) == [0, 4]


class Closings:
    """A source without reports that keeps which epochs were closed."""

    def __init__(self, *metrics) -> None:
        self.versions = metrics
        self.closed: list[int] = []

    def metrics(self):
        return self.versions

    def close(self, metric, epoch: int) -> None:
        self.closed.append(epoch)


# Switches on different days, by half an hour, by two hours; and zones that have none.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll")


@pytest.mark.parametrize("zone", ZONES)
def test_no_clock_change_skips_or_doubles_an_epoch(zone, metrics, monkeypatch):
    """Looks at every half hour of a year, with both of its switches."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        home = metrics["home_page"]
        closed = []
        for half_hour in range(48 * 365):
            now = at("2026-12-05") + 1800 * half_hour
            source = Closings(home)
            close_due(source, now)
            (epoch,) = source.closed
            assert due_at([home], epoch) <= now < due_at([home], epoch + 1)
            assert day_of(now).timetuple()[:3] == time.gmtime(now)[:3]
            if not closed or epoch != closed[-1]:
                assert now % 86_400 == 0
                closed.append(epoch)
        assert closed == list(range(closed[0], closed[0] + 365))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_epoch_closed_early_is_said_to_be(source, tmp_path):
    now = at("2026-12-01T12:00")
    (outcome,) = publish_epoch(source, tmp_path, now, "theme", "2026-W49", early=True)
    release = read(outcome.path)
    assert (release.closed_early, release.published_on) == (True, "2026-12-01")
    assert "closed early" in outcome.path.with_suffix(".html").read_text()


def test_an_epoch_of_which_no_report_can_have_come_is_not_closed(metrics, make_source, tmp_path):
    theme = metrics["theme"]._replace(when_absent="other")
    source = make_source(theme)
    with pytest.raises(NotPublishable, match="closed before 2026-12-07 it would lose them all"):
        publish_epoch(source, tmp_path, at("2026-12-01"), "theme", "2026-W49", early=True)
    assert source.closed == []
    with pytest.raises(NotPublishable, match="is closed, irrevocably; it holds no reports"):
        publish_epoch(source, tmp_path, at("2026-12-08"), "theme", "2026-W49", early=True)
    assert source.closed == [("theme", WEEK)]

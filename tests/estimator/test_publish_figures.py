"""What publishing leaves in the store: of each metric what its newest release says."""

import json
import threading
from dataclasses import replace

import pytest
import redis
from prometheus_client import CollectorRegistry

from aggregator.connection import StoreUnavailable
from aggregator.store.layout import NEWEST_RELEASES
from aggregator.store.newest_releases import NewestRelease
from aggregator.watching.exposition import Figures
from client_sdk.epochs import parse
from estimator.misfit import Misfit
from estimator.plausibility import Plausibility
from estimator.publish import Outcome, publish_due
from estimator.publish_figures import note, note_newest, summary
from estimator.releases.files import path_of, read, write
from tests.aggregator.conftest import NOW, make_world

WEEK = parse("week", "2026-W49")
SHARES = [0.5, 0.3, 0.2, 0.0]
DAY = 86_400
DUE = 1_796_860_800.0  # 10 December 2026, when the week's grace has passed


@pytest.fixture
def world(redis_url, tmp_path):
    made = make_world(redis_url, tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def kept(world):
    return world.store.figures.newest_releases


@pytest.fixture
def published(metrics, tally_of, make_source, world, tmp_path):
    """Publish and note weeks of theme, with so many reports each."""
    source = make_source(metrics["theme"])

    def publish(*numbers, first=WEEK):
        for week, n in enumerate(numbers, start=first):
            source.add(metrics["theme"], week, tally_of(metrics["theme"], n, SHARES))
        now = DUE + 7 * DAY * (first + len(numbers) - 1 - WEEK)
        outcomes = publish_due(source, tmp_path / "releases", now)
        note(world.store.figures, outcomes, now)
        return outcomes

    return publish


def exposed(world):
    """The samples of a scrape that come from releases: (name, metric) -> value."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(world.store, world.catalogue, world.keys, list))
    names = (
        "ldp_estimate_ci_halfwidth_ratio",
        "ldp_report_popcount_zscore",
        "ldp_releases_alarmed",
    )
    return {
        (sample.name, sample.labels.get("metric")): sample.value
        for family in registry.collect()
        if family.name in names
        for sample in family.samples
    }


def newest(metric="theme", day="2026-12-06", **changes):
    told = NewestRelease(metric, "2026-W49", day, 1000, 0.05, None, False)
    return replace(told, **changes)


def test_the_newest_release_is_told_and_scraped(published, kept, world):
    (outcome,) = published(1000)
    (told,) = kept.all().values()
    estimates = read(outcome.path).estimates
    widest = max(entry.interval[1] - entry.interval[0] for entry in estimates.entries) / 2
    assert told == newest(halfwidth=widest)
    assert exposed(world) == {
        ("ldp_estimate_ci_halfwidth_ratio", "theme"): widest,
        ("ldp_releases_alarmed", None): 0,
    }


def test_of_several_epochs_in_one_pass_the_newest_is_told(published, kept):
    assert len(published(1000, 2000, 500)) == 3
    assert (kept.all()["theme"].epoch, kept.all()["theme"].n) == ("2026-W51", 500)


def test_an_older_epoch_that_comes_late_changes_nothing(published, kept):
    published(2000, first=WEEK + 1)
    published(1000, first=WEEK)
    assert (kept.all()["theme"].epoch, kept.all()["theme"].n) == ("2026-W50", 2000)
    published(3000, first=WEEK + 2)
    assert (kept.all()["theme"].epoch, kept.all()["theme"].n) == ("2026-W51", 3000)


def test_a_withheld_release_takes_the_numbers_away(published, kept, world):
    published(1000)
    assert ("ldp_estimate_ci_halfwidth_ratio", "theme") in exposed(world)
    (outcome,) = published(3, first=WEEK + 1)
    assert outcome.status == "WITHHELD"
    told = kept.all()["theme"]
    assert (told.epoch, told.n, told.halfwidth, told.popcount_z) == ("2026-W50", None, None, None)
    assert exposed(world) == {("ldp_releases_alarmed", None): 0}  # not a width of 0


def test_a_failed_release_leaves_what_is_there(published, kept, world):
    published(1000)
    before = kept.all()
    note(world.store.figures, [Outcome("theme", "2026-W50", "", "FAILED", "no")], DUE)
    assert kept.all() == before


def test_several_passes_at_once_keep_the_newest(kept):
    days = [f"2026-12-{day:02d}" for day in range(1, 29)]
    passes = [threading.Thread(target=kept.note, args=([newest(day=day)],)) for day in days[::-1]]
    for each in passes:
        each.start()
    for each in passes:
        each.join()
    assert kept.all()["theme"].last_day == days[-1]


def test_versions_tell_pooled_numbers_and_the_oddest_popcount(
    metrics, tally_of, make_source, version_of, tmp_path
):
    theme = metrics["theme"]
    older = version_of(theme, "0.5")
    source = make_source(older, theme)
    source.add(older, WEEK, tally_of(older, 4000, SHARES))
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    releases = [read(outcome.path) for outcome in publish_due(source, tmp_path, DUE)]
    (pooled,) = (release for release in releases if release.fingerprint == "pooled")
    told = summary(releases)
    assert (told.n, told.halfwidth) == (5000, pooled.estimates.half_width)
    assert told.popcount_z is None and not told.alarmed
    parts = [release for release in releases if release is not pooled]
    parts = [
        replace(release, plausibility=Plausibility(z, p, None))
        for release, z, p in zip(parts, (2.0, -7.5), (0.5, 1e-9), strict=True)
    ]
    told = summary([pooled, *parts])
    assert told.popcount_z == -7.5 and told.alarmed
    larger = max(parts, key=lambda release: release.estimates.n)
    assert (summary(parts).n, summary(parts).halfwidth) == (4000, larger.estimates.half_width)
    withheld = replace(parts[1], estimates=None, plausibility=None, status="WITHHELD")
    assert summary([parts[0], withheld]).n == parts[0].estimates.n


def test_one_version_made_up_for_alone_is_told_with_the_others(
    metrics, tally_of, make_source, version_of, world, kept, tmp_path
):
    theme = metrics["theme"]
    older = version_of(theme, "0.5")
    source = make_source(older, theme)
    source.add(older, WEEK, tally_of(older, 4000, SHARES))
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    outcomes = publish_due(source, tmp_path, DUE)
    alone = [outcome for outcome in outcomes if outcome.fingerprint == theme.fingerprint]
    note_newest(world.store.figures, alone)
    assert kept.all()["theme"].n == 5000


def test_alarms_are_counted_and_popcounts_shown_where_there_is_one(kept, world):
    kept.note(
        [
            newest("theme", popcount_z=-6.5, alarmed=True),
            newest("home_page", popcount_z=0.5, alarmed=True),
            newest("crashed", halfwidth=None),
        ]
    )
    assert exposed(world) == {
        ("ldp_estimate_ci_halfwidth_ratio", "theme"): 0.05,
        ("ldp_estimate_ci_halfwidth_ratio", "home_page"): 0.05,
        ("ldp_report_popcount_zscore", "theme"): -6.5,
        ("ldp_report_popcount_zscore", "home_page"): 0.5,
        ("ldp_releases_alarmed", None): 2,
    }
    kept.note([newest("theme", day="2026-12-13")])
    assert exposed(world)["ldp_releases_alarmed", None] == 1


def test_a_misfit_is_an_alarm(published):
    (outcome,) = published(1000)
    release = read(outcome.path)
    assert not summary([release]).alarmed
    misfit = Misfit(100.0, 10.0, 1e-9, (), True, 0.0)
    odd = replace(release, estimates=replace(release.estimates, misfit=misfit))
    assert summary([odd]).alarmed


def test_a_release_that_cannot_be_read_keeps_others_noted(published, kept, world, caplog):
    (outcome,) = published(1000)
    strange = path_of(outcome.path.parents[1], "plan", "once", "f" * 16)
    strange.parent.mkdir()
    strange.write_text("{}")
    later = write(
        replace(read(outcome.path), epoch="2026-W50", last_day="2026-12-13"),
        outcome.path.parents[1],
    )[0]
    place = path_of(outcome.path.parents[1], later.metric, later.epoch, later.fingerprint)
    both = [
        Outcome("plan", "once", "f" * 16, "OK", path=strange),
        Outcome("theme", "2026-W50", later.fingerprint, "OK", path=place),
    ]
    note_newest(world.store.figures, both)
    assert kept.all().keys() == {"theme"} and kept.all()["theme"].epoch == "2026-W50"
    assert "newest release of plan" in caplog.text


def test_a_store_that_is_away_is_logged(published, world, caplog, monkeypatch):
    (outcome,) = published(1000)

    def away(releases):
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store.figures.newest_releases, "note", away)
    note(world.store.figures, [outcome], NOW)
    assert "what the newest releases say was not noted: away" in caplog.text


def test_what_another_version_has_noted_is_ignored_and_written_over(kept, world):
    text = json.dumps({"metric": "theme", "more": 1})
    with redis.Redis.from_url(world.redis_url) as client:
        client.hset(NEWEST_RELEASES, "theme", f"2026-12-06 {text}")
    assert kept.all() == {}
    kept.note([newest()])
    assert kept.all() == {"theme": newest()}

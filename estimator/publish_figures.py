"""Tells the store what became of publishing, for whoever watches the servers."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from aggregator.connection import StoreUnavailable
from aggregator.store.figures import Figures
from aggregator.store.newest_releases import NewestRelease
from estimator.errors import DocumentError
from estimator.publish import Outcome
from estimator.releases.alarms import alarms
from estimator.releases.files import read
from estimator.releases.release import POOLED, Release
from estimator.releases.width import half_width

log = logging.getLogger(__name__)


def note(figures: Figures, outcomes: Iterable[Outcome], now: float) -> None:
    """Count what became of releases in one pass over everything that was due, and note them.

    A store that is away is logged: what was published stays published.

    Args:
        outcomes: Of the pass; none if nothing was due.
        now: Unix time in seconds.
    """
    outcomes = list(outcomes)
    results = Counter(outcome.status.lower() for outcome in outcomes)
    try:
        figures.note_published(results, None if results["failed"] else now)
    except StoreUnavailable as error:
        log.warning("the figures of publishing were not noted: %s", error)
    note_newest(figures, outcomes)


def note_newest(figures: Figures, outcomes: Iterable[Outcome]) -> None:
    """Note what releases say, for each metric of its newest one; what fails is logged."""
    epochs: defaultdict[str, set[tuple[Path, str]]] = defaultdict(set)
    for outcome in outcomes:
        if outcome.path is not None:
            epochs[outcome.metric].add((outcome.path.parent, outcome.epoch))
    newest = []
    for metric, places in epochs.items():
        try:
            found = [summary(_beside(directory, epoch)) for directory, epoch in sorted(places)]
        except (OSError, DocumentError) as error:
            log.warning("what the newest release of %s says was not noted: %s", metric, error)
            continue
        newest.append(max(found, key=lambda each: each.last_day))
    try:
        figures.newest_releases.note(newest)
    except StoreUnavailable as error:
        log.warning("what the newest releases say was not noted: %s", error)


def _beside(directory: Path, epoch: str) -> list[Release]:
    """Read all releases of an epoch: a pass may have made up for one of several versions."""
    return [read(path) for path in sorted(directory.glob(f"{epoch}.*.json"))]


def summary(releases: Sequence[Release]) -> NewestRelease:
    """Say what releases of one metric and epoch say together.

    Numbers are those of the pooled release, or without one of the version with most reports; the
    popcount is the oddest of any version, since pooling has none, and so is the alarm.

    Args:
        releases: Of each version, and the pooled one; at least one.
    """
    first = releases[0]
    told = [(release, release.estimates) for release in releases if release.estimates is not None]
    odd = [r.plausibility.popcount_z for r in releases if r.plausibility is not None]
    n = halfwidth = None
    if told:
        release, main = max(told, key=lambda pair: (pair[0].fingerprint == POOLED, pair[1].n))
        n, halfwidth = main.n, half_width(release)
    return NewestRelease(
        metric=first.metric,
        epoch=first.epoch,
        last_day=first.last_day,
        n=n,
        halfwidth=halfwidth,
        popcount_z=max((z for z in odd if z is not None), key=abs, default=None),
        alarmed=any(alarms(release) for release in releases),
    )

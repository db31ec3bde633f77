"""Publishing: close an epoch, estimate each version of the metric, write the releases.

Tallies of different fingerprints are never added. Each gets a release of its own, and if several
are published and name the same values, one more over all of them, pooled.
"""

import fcntl
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from aggregator.tally import Tally
from client_sdk.epochs import (
    DAY_SECONDS,
    EpochLength,
    day_of,
    end_of,
    epoch_of,
    first_day,
    label,
    parse,
)
from client_sdk.metric import Metric
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.lifetime import Lifetime
from estimator.pages import page_of, write_index, write_pages
from estimator.plausibility import judge
from estimator.pool import poolable
from estimator.release import POOLED, Release, compose, compose_pooled
from estimator.release_files import path_of, write

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where tallies come from; `estimator.source.StoreSource` is the real one."""

    def project(self) -> str:
        """Return the project's name."""

    def metrics(self) -> Iterable[Metric]:
        """Return every version of every metric that was ever registered, oldest first."""

    def epochs_with_reports(self, metric: Metric) -> list[int]:
        """Return the epochs in which this version has a tally."""

    def close(self, metric: Metric, epoch: int) -> None:
        """Make tallies final: this epoch and earlier ones, all versions with this epoch length."""

    def tally(self, metric: Metric, epoch: int) -> Tally:
        """Return the tally of one version."""

    def popcounts(self, metric: Metric, epoch: int) -> Sequence[int]:
        """Return how many of its reports set 0, 1, ... bits; empty without bit vectors."""

    def lifetime(self) -> Lifetime:
        """Return what devices have spent; reads the whole ledger."""


@dataclass(frozen=True)
class Outcome:
    """What became of one release.

    Attributes:
        metric: Name.
        epoch: ISO 8601 name.
        fingerprint: Version, "pooled", or "" if the epoch could not even be closed.
        status: OK: published. WITHHELD: released without numbers. FAILED: not released.
        reason: Why not OK.
        path: The release file, None if failed.
    """

    metric: str
    epoch: str
    fingerprint: str
    status: Literal["OK", "WITHHELD", "FAILED"]
    reason: str = ""
    path: Path | None = None


def publish_due(source: Source, directory: Path, now: float) -> list[Outcome]:
    """Publish every epoch whose end and grace have passed and that is not released yet.

    One failure does not keep other releases back; calling again tries it again.

    Args:
        source: Tallies and metrics.
        directory: Of the releases; one publisher at a time works in it, others wait.
        now: Unix time in seconds.

    Returns:
        What was done; nothing for what had been released before.
    """
    outcomes = []
    lifetime = cache(source.lifetime)
    with _only_publisher(directory):
        for versions in _series(source.metrics()):
            found = [(version, source.epochs_with_reports(version)) for version in versions]
            for epoch in sorted({epoch for _, epochs in found for epoch in epochs}):
                if due_at(versions, epoch) > now:
                    continue
                reporting = [version for version, epochs in found if epoch in epochs]
                if not _is_released(reporting, epoch, directory):
                    outcomes += _publish(source, directory, reporting, epoch, lifetime)
        if any(outcome.path for outcome in outcomes):
            write_index(directory, source.project())
    return outcomes


def close_due(source: Source, now: float) -> None:
    """Close every epoch whose end and grace have passed, also those without any report yet.

    Intake knows an epoch as closed by its watermark alone; without this a first report that comes
    after the grace would still be taken.
    """
    for versions in _series(source.metrics()):
        length = versions[0].epoch
        first = epoch_of(length, min(version.starts for version in versions))
        epoch = epoch_of(length, day_of(now))
        while epoch >= first and due_at(versions, epoch) > now:
            epoch -= 1
        if epoch >= first:
            source.close(versions[0], epoch)


def publish_epoch(
    source: Source, directory: Path, now: float, name: str, epoch_label: str, *, early: bool
) -> list[Outcome]:
    """Publish one epoch of one metric, also if it was released before.

    Args:
        source: Tallies and metrics.
        directory: Of the releases.
        now: Unix time in seconds.
        name: Of the metric.
        epoch_label: ISO 8601 name of the epoch, or "once".
        early: Close an epoch that is still open. Irrevocable: reports that are under way will
            be refused, also those of earlier epochs.

    Raises:
        NotPublishable: No such metric or epoch, it has not begun, is still open, or is empty.
    """
    with _only_publisher(directory):
        versions, epoch = _find(source.metrics(), name, epoch_label)
        begins = min(v.starts for v in versions)
        if versions[0].epoch != "once":
            begins = first_day(versions[0].epoch, epoch)
        if begins > day_of(now):
            raise NotPublishable(f"{name}: epoch {epoch_label} has not begun")
        due = due_at(versions, epoch)
        if due > now and not early:
            raise NotPublishable(
                f"{name}: epoch {epoch_label} takes reports until {day_of(due)} 00:00 UTC; "
                "--close ends it now, irrevocably"
            )
        # Reports may wait in streams, so whether there are any is known only after closing.
        source.close(versions[0], epoch)
        reporting = [v for v in versions if epoch in source.epochs_with_reports(v)]
        if not reporting:
            raise NotPublishable(f"{name}: epoch {epoch_label} holds no reports")
        outcomes = _publish(source, directory, reporting, epoch, cache(source.lifetime))
        write_index(directory, source.project())
        return outcomes


def due_at(versions: Sequence[Metric], epoch: int) -> float:
    """Return the Unix time at which an epoch of these versions closes by itself."""
    if versions[0].epoch == "once":
        last = max(version.expires for version in versions)
        return end_of("day", epoch_of("day", last) - 1)
    grace = max(version.grace_days for version in versions)
    return end_of(versions[0].epoch, epoch) + grace * DAY_SECONDS


def _series(metrics: Iterable[Metric]) -> list[list[Metric]]:
    """Group versions by what is closed together: name and epoch length."""
    series: dict[tuple[str, EpochLength], list[Metric]] = defaultdict(list)
    for metric in metrics:
        series[metric.name, metric.epoch].append(metric)
    return list(series.values())


def _find(metrics: Iterable[Metric], name: str, text: str) -> tuple[list[Metric], int]:
    known = [versions for versions in _series(metrics) if versions[0].name == name]
    if not known:
        raise NotPublishable(f"{name} is not a registered metric")
    reason = ""
    for versions in known:
        try:
            return versions, parse(versions[0].epoch, text)
        except ValueError as error:
            reason = str(error)
    raise NotPublishable(f"{name}: {reason}")


def _is_released(versions: Sequence[Metric], epoch: int, directory: Path) -> bool:
    # The page is written last: without it, a publisher has died on the way.
    pages = [
        page_of(directory, version.name, label(version.epoch, epoch), version.fingerprint)
        for version in versions
    ]
    return all(page.exists() for page in pages)


def _publish(
    source: Source,
    directory: Path,
    versions: Sequence[Metric],
    epoch: int,
    lifetime: Callable[[], Lifetime],
) -> list[Outcome]:
    name, text = versions[0].name, label(versions[0].epoch, epoch)
    try:
        project = source.project()
        source.close(versions[0], epoch)
    except Exception as error:  # One metric's trouble must not hold the others back.
        log.exception("%s %s could not be closed", name, text)
        return [Outcome(name, text, "", "FAILED", f"could not be closed: {error}")]
    outcomes, standing = [], []
    for version in versions:
        try:
            release, _ = write(_composed(source, version, project, epoch, lifetime), directory)
            write_pages(release, directory)
        except Exception as error:  # The same: the next version may well be fine.
            log.exception("%s %s %s could not be published", name, text, version.fingerprint)
            outcomes.append(Outcome(name, text, version.fingerprint, "FAILED", str(error)))
            continue
        standing.append(release)
        outcomes.append(_outcome(release, directory))
    return outcomes + _pooled(versions, standing, directory)


def _composed(
    source: Source, version: Metric, project: str, epoch: int, lifetime: Callable[[], Lifetime]
) -> Release:
    tally = source.tally(version, epoch)
    plausibility = judge(version.mechanism, tally, source.popcounts(version, epoch))
    return compose(version, project, epoch, estimate(version, tally), plausibility, lifetime())


def _pooled(
    versions: Sequence[Metric], standing: Sequence[Release], directory: Path
) -> list[Outcome]:
    """Publish the release over all versions, once every one of them has its own."""
    published = [release for release in standing if release.estimates is not None]
    parts = [release.estimates for release in published if release.estimates is not None]
    if len(standing) < len(versions) or not poolable(parts):
        return []
    try:
        release, _ = write(compose_pooled(versions[-1], published), directory)
        write_pages(release, directory)
    except Exception as error:
        first = published[0]
        log.exception("%s %s could not be pooled", first.metric, first.epoch)
        return [Outcome(first.metric, first.epoch, POOLED, "FAILED", str(error))]
    return [_outcome(release, directory)]


def _outcome(release: Release, directory: Path) -> Outcome:
    path = path_of(directory, release.metric, release.epoch, release.fingerprint)
    withheld = release.status == "WITHHELD"
    return Outcome(
        release.metric,
        release.epoch,
        release.fingerprint,
        "WITHHELD" if withheld else "OK",
        f"fewer than {release.min_reports} reports" if withheld else "",
        path,
    )


@contextmanager
def _only_publisher(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".publishing.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

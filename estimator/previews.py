"""Renews the previews of open epochs: what people may see of an epoch before it is released.

Reads tallies only; nothing is closed, and nothing is written but the previews. A preview shows no
fewer reports than a release may, and gives way to a newer one only when at least as many reports
again have come: two previews never differ by few devices.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aggregator.tally import Tally
from client_sdk.epochs import label
from client_sdk.metric import Metric
from estimator.due import Source, due_at, series
from estimator.errors import DocumentError
from estimator.estimate import estimate
from estimator.plausibility import judge
from estimator.releases import previews
from estimator.releases.previews import Preview
from estimator.releases.release import Release, can_pool, compose, compose_pooled
from estimator.turns import turn

log = logging.getLogger(__name__)

MOST_SECONDS = 120.0
"""Of one pass; what it has not reached comes first in the next one."""


@dataclass(frozen=True)
class _Open:
    """An open epoch of one metric, the versions that have reports in it, and their previews."""

    versions: tuple[Metric, ...]
    epoch: int
    before: tuple[Preview | None, ...]

    @property
    def taken_at(self) -> float:
        """When its newest preview was taken; 0 without any."""
        return max((each.taken_at for each in self.before if each), default=0.0)


def renew(
    source: Source,
    directory: Path,
    now: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Renew what may be renewed and remove what was released since; return how many were shown.

    One failure does not keep the others back.

    Args:
        source: Tallies and metrics.
        directory: Of the releases; one at a time renews in it, others wait.
        now: Unix time in seconds.
        monotonic: A clock that never jumps, in seconds.
    """
    with turn(directory, ".previewing.lock"):
        return _renew(source, directory, now, monotonic)


def _renew(source: Source, directory: Path, now: float, monotonic: Callable[[], float]) -> int:
    began, count = monotonic(), 0
    waiting = sorted(_tidied(source, directory, now), key=lambda each: each.taken_at)
    project = source.project() if waiting else ""
    for done, each in enumerate(waiting):
        if monotonic() - began > MOST_SECONDS:
            log.warning("previews: %d of %d in time; the others come next", done, len(waiting))
            break
        try:
            count += _renewed(each, source, directory, project, now)
        except Exception:  # One metric's trouble must not hold the others back.
            log.exception("%s could not be previewed", each.versions[0].name)
    return count


def _tidied(source: Source, directory: Path, now: float) -> Iterator[_Open]:
    """Yield the open epochs; remove previews of all that waits for no release any more."""
    kept: set[tuple[str, str]] = set()
    failed: set[str] = set()
    for versions in series(source.metrics()):
        name, length = versions[0].name, versions[0].epoch
        try:
            found = [(version, source.epochs_with_reports(version)) for version in versions]
        except Exception:
            failed.add(name)
            log.exception("%s could not be previewed", name)
            continue
        for epoch in sorted({epoch for _, epochs in found for epoch in epochs}):
            reporting = tuple(version for version, epochs in found if epoch in epochs)
            if any((directory / name).glob(f"{label(length, epoch)}.*.json")):
                continue
            kept.add((name, label(length, epoch)))
            if due_at(versions, epoch) > now:
                last = (_last(directory, version, epoch) for version in reporting)
                yield _Open(reporting, epoch, tuple(last))
    for path in previews.places(directory):
        name, epoch_name = path.parent.name, path.name.partition(".")[0]
        if name not in failed and (name, epoch_name) not in kept:
            path.unlink(missing_ok=True)


def _last(directory: Path, version: Metric, epoch: int) -> Preview | None:
    path = previews.place(directory, version.name, label(version.epoch, epoch), version.fingerprint)
    try:
        return previews.read(path)
    except FileNotFoundError:
        return None
    except DocumentError as error:
        log.warning("%s; it is taken anew", error)
        return None


def _renewed(each: _Open, source: Source, directory: Path, project: str, now: float) -> int:
    """Renew the previews of one epoch; return how many were written."""
    standing: list[Release] = []
    written = 0
    for version, before in zip(each.versions, each.before, strict=True):
        tally = source.tally(version, each.epoch)
        if not _may_follow(before, tally, version):
            if before is not None:
                standing.append(before.release)
            continue
        release = compose(
            version,
            project,
            each.epoch,
            estimate(version, tally),
            judge(version.mechanism, tally, source.popcounts(version, each.epoch)),
            now=now,
        )
        previews.put(Preview(release, now), directory)
        standing.append(release)
        written += 1
    return written + (_pooled(each, standing, directory, now) if written else 0)


def _may_follow(before: Preview | None, tally: Tally, version: Metric) -> bool:
    if before is None:
        return True
    estimates = before.release.estimates
    shown = 0 if estimates is None else estimates.n
    return tally.n >= shown + version.min_reports


def _pooled(each: _Open, standing: Sequence[Release], directory: Path, now: float) -> int:
    """Show the versions together, from nothing but what their previews show."""
    published = [release for release in standing if release.estimates is not None]
    if not can_pool(published):
        return 0
    previews.put(Preview(compose_pooled(each.versions[-1], published), now), directory)
    return 1

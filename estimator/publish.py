"""Publishing: close an epoch, estimate each version of the metric, write the releases.

Tallies of different fingerprints are never added. Each gets a release of its own, and if several
are published and name the same values, one more over all of them, pooled.
"""

import fcntl
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from aggregator.administration.record import Record, unrecorded
from aggregator.keyring.signing import Signing
from client_sdk.epochs import day_of, first_day, parse
from client_sdk.metric import Metric
from estimator.due import Due, Source, due, due_at, series
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.ledger.lifetime import Lifetime
from estimator.plausibility import judge
from estimator.pool import poolable
from estimator.releases import failures
from estimator.releases.files import path_of, write
from estimator.releases.pages import write_index, write_pages
from estimator.releases.release import POOLED, Release, compose, compose_pooled
from estimator.releases.signatures import write_public_keys

log = logging.getLogger(__name__)


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


def publish_due(
    source: Source,
    directory: Path,
    now: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
    signing: Signing | None = None,
) -> list[Outcome]:
    """Publish every epoch whose end and grace have passed and that is not released yet.

    One failure does not keep other releases back; calling again tries it again.

    Args:
        source: Tallies and metrics.
        directory: Of the releases; one publisher at a time works in it, others wait.
        now: Unix time in seconds.
        progress: Told, after each epoch, how many are done and how many were due.
        signing: The keys that releases are signed with; None leaves them unsigned.

    Returns:
        What was done; nothing for what had been released before.
    """
    outcomes: list[Outcome] = []
    lifetime = cache(source.lifetime)
    with only_publisher(directory):
        waiting = list(due(source, directory, now))
        for done, each in enumerate(waiting, start=1):
            outcomes += _publish(source, directory, each, lifetime, signing, now)
            progress(done, len(waiting))
        if any(outcome.path for outcome in outcomes):
            _finish(directory, source, signing)
    return outcomes


def publish_epoch(
    source: Source,
    directory: Path,
    now: float,
    name: str,
    epoch_label: str,
    *,
    early: bool,
    record: Record = unrecorded,
    signing: Signing | None = None,
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
        record: Told before an epoch is closed early.
        signing: The keys that releases are signed with; None leaves them unsigned.

    Raises:
        NotPublishable: No such metric or epoch, it has not begun, is still open, or is empty.
    """
    with only_publisher(directory):
        versions, epoch = _find(source.metrics(), name, epoch_label)
        begins = min(v.starts for v in versions)
        if versions[0].epoch != "once":
            begins = first_day(versions[0].epoch, epoch)
        if begins > day_of(now):
            raise NotPublishable(f"{name}: epoch {epoch_label} has not begun")
        closes = due_at(versions, epoch)
        if closes > now and not early:
            raise NotPublishable(
                f"{name}: epoch {epoch_label} takes reports until {day_of(closes)} 00:00 UTC; "
                "--close ends it now, irrevocably"
            )
        if closes > now:
            record("epoch_closed_early", metric=name, epoch=epoch_label)
        # Reports may wait in streams, so whether there are any is known only after closing.
        source.close(versions[0], epoch)
        reporting = tuple(v for v in versions if epoch in source.epochs_with_reports(v))
        if not reporting:
            raise NotPublishable(f"{name}: epoch {epoch_label} holds no reports")
        outcomes = _publish(
            source, directory, Due(reporting, epoch), cache(source.lifetime), signing, now
        )
        _finish(directory, source, signing)
        return outcomes


def _finish(directory: Path, source: Source, signing: Signing | None) -> None:
    write_index(directory, source.project())
    if signing is not None:
        write_public_keys(directory, signing.public)


def _find(metrics: Iterable[Metric], name: str, text: str) -> tuple[list[Metric], int]:
    known = [versions for versions in series(metrics) if versions[0].name == name]
    if not known:
        raise NotPublishable(f"{name} is not a registered metric")
    reason = ""
    for versions in known:
        try:
            return versions, parse(versions[0].epoch, text)
        except ValueError as error:
            reason = str(error)
    raise NotPublishable(f"{name}: {reason}")


def _publish(
    source: Source,
    directory: Path,
    each: Due,
    lifetime: Callable[[], Lifetime],
    signing: Signing | None,
    now: float,
) -> list[Outcome]:
    outcomes = _tried(source, directory, each, lifetime, signing)
    failed = [(o.fingerprint, o.reason) for o in outcomes if o.status == "FAILED"]
    try:
        failures.note(directory, each.metric, each.label, failed, now)
    except OSError:
        log.exception("what failed of %s %s could not be noted", each.metric, each.label)
    return outcomes


def _tried(
    source: Source,
    directory: Path,
    each: Due,
    lifetime: Callable[[], Lifetime],
    signing: Signing | None,
) -> list[Outcome]:
    versions, epoch, name, text = each.versions, each.epoch, each.metric, each.label
    try:
        project = source.project()
        source.close(versions[0], epoch)
    except Exception as error:  # One metric's trouble must not hold the others back.
        log.exception("%s %s could not be closed", name, text)
        return [Outcome(name, text, "", "FAILED", f"could not be closed: {error}")]
    failed, standing = [], []
    for version in versions:
        try:
            composed = _composed(source, version, project, epoch, lifetime)
            release, _ = write(composed, directory, signing)
        except Exception as error:  # The same: the next version may well be fine.
            failed.append(_failed(name, text, version.fingerprint, error))
            continue
        standing.append(release)
    # Before the pages of its parts, which say that nothing of this epoch is due any more.
    pooled = _pooled(versions, standing, directory, signing)
    return [*failed, *(_shown(release, directory) for release in standing), *pooled]


def _shown(release: Release, directory: Path) -> Outcome:
    try:
        write_pages(release, directory)
    except Exception as error:
        return _failed(release.metric, release.epoch, release.fingerprint, error)
    return _outcome(release, directory)


def _failed(metric: str, epoch: str, fingerprint: str, error: Exception) -> Outcome:
    log.exception("%s %s %s could not be published", metric, epoch, fingerprint)
    return Outcome(metric, epoch, fingerprint, "FAILED", str(error) or type(error).__name__)


def _composed(
    source: Source, version: Metric, project: str, epoch: int, lifetime: Callable[[], Lifetime]
) -> Release:
    tally = source.tally(version, epoch)
    plausibility = judge(version.mechanism, tally, source.popcounts(version, epoch))
    return compose(version, project, epoch, estimate(version, tally), plausibility, lifetime())


def _pooled(
    versions: Sequence[Metric],
    standing: Sequence[Release],
    directory: Path,
    signing: Signing | None,
) -> list[Outcome]:
    """Publish the release over all versions, once every one of them has its own."""
    published = [release for release in standing if release.estimates is not None]
    parts = [release.estimates for release in published if release.estimates is not None]
    if len(standing) < len(versions) or not poolable(parts):
        return []
    try:
        release, _ = write(compose_pooled(versions[-1], published), directory, signing)
        write_pages(release, directory)
    except Exception as error:
        return [_failed(published[0].metric, published[0].epoch, POOLED, error)]
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
def only_publisher(directory: Path) -> Iterator[None]:
    """Keep other publishers, in this process or another, out of a directory; wait for them."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".publishing.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""Publishing: close an epoch, estimate each version of the metric, write the releases.

Tallies of different fingerprints are never added. Each gets a release of its own, and if several
are published and name the same values, one more over all of them, pooled.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from aggregator.administration.record import Record, unrecorded
from aggregator.keyring.signing import Signing
from client_sdk.epochs import day_of, end_of, first_day, parse
from client_sdk.metric import Metric
from estimator.due import Due, Source, due, due_at, series
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.ledger.lifetime import Lifetime
from estimator.plausibility import judge
from estimator.releases import failures
from estimator.releases.files import path_of, write
from estimator.releases.pages import write_index, write_pages
from estimator.releases.release import POOLED, Release, can_pool, compose, compose_pooled
from estimator.releases.signatures import write_public_keys
from estimator.turns import turn

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
    run = _Run(source, directory, now, signing)
    with only_publisher(directory):
        waiting = list(due(source, directory, now))
        for done, each in enumerate(waiting, start=1):
            outcomes += run.publish(each)
            progress(done, len(waiting))
        if any(outcome.path for outcome in outcomes):
            run.finish()
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
            _check_absences(versions, epoch, now)
            record("epoch_closed_early", metric=name, epoch=epoch_label)
        # Reports may wait in streams, so whether there are any is known only after closing.
        source.close(versions[0], epoch)
        reporting = tuple(v for v in versions if epoch in source.epochs_with_reports(v))
        if not reporting:
            raise NotPublishable(
                f"{name}: epoch {epoch_label} is closed, irrevocably; it holds no reports, so "
                "there is no release"
            )
        run = _Run(source, directory, now, signing, closed_early=closes > now)
        outcomes = run.publish(Due(reporting, epoch))
        run.finish()
        return outcomes


def _check_absences(versions: Sequence[Metric], epoch: int, now: float) -> None:
    """Refuse to close an epoch of which no report can have come yet."""
    length = versions[0].epoch
    ends = due_at(versions, epoch) if length == "once" else end_of(length, epoch)
    if ends > now and any(version.when_absent is not None for version in versions):
        raise NotPublishable(
            f"{versions[0].name}: reports of a metric with when_absent leave devices only after "
            f"the epoch has ended; closed before {day_of(ends)} it would lose them all"
        )


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


@dataclass(frozen=True)
class _Run:
    """One publication: where tallies come from, where releases go, and when.

    Attributes:
        source: Tallies and metrics.
        directory: Of the releases.
        now: Unix time in seconds.
        signing: The keys that releases are signed with; None leaves them unsigned.
        closed_early: Whether epochs are published before their end and grace.
    """

    source: Source
    directory: Path
    now: float
    signing: Signing | None
    closed_early: bool = False

    @cached_property
    def lifetime(self) -> Lifetime:
        """What devices have spent, read once."""
        return self.source.lifetime()

    @property
    def public(self) -> Mapping[int, bytes] | None:
        """The keys that releases must be signed with."""
        return None if self.signing is None else self.signing.public

    def publish(self, each: Due) -> list[Outcome]:
        """Publish an epoch, and note what failed."""
        outcomes = self._tried(each)
        failed = [(o.fingerprint, o.reason) for o in outcomes if o.status == "FAILED"]
        try:
            failures.note(self.directory, each.metric, each.label, failed, self.now)
        except OSError:
            log.exception("what failed of %s %s could not be noted", each.metric, each.label)
        return outcomes

    def finish(self) -> None:
        """Write what lies beside all releases."""
        write_index(self.directory, self.source.project(), self.public)
        if self.public is not None:
            write_public_keys(self.directory, self.public)

    def _tried(self, each: Due) -> list[Outcome]:
        name, text = each.metric, each.label
        try:
            project = self.source.project()
            self.source.close(each.versions[0], each.epoch)
        except Exception as error:  # One metric's trouble must not hold the others back.
            log.exception("%s %s could not be closed", name, text)
            return [Outcome(name, text, "", "FAILED", f"could not be closed: {error}")]
        failed, standing = [], []
        for version in each.versions:
            try:
                composed = self._composed(version, project, each.epoch)
                release, _ = write(composed, self.directory, self.signing)
            except Exception as error:  # The same: the next version may well be fine.
                failed.append(_failed(name, text, version.fingerprint, error))
                continue
            standing.append(release)
        # Before the pages of its parts, which say that nothing of this epoch is due any more.
        pooled = self._pooled(each.versions, standing)
        return [*failed, *(self._shown(release) for release in standing), *pooled]

    def _composed(self, version: Metric, project: str, epoch: int) -> Release:
        tally = self.source.tally(version, epoch)
        return compose(
            version,
            project,
            epoch,
            estimate(version, tally),
            judge(version.mechanism, tally, self.source.popcounts(version, epoch)),
            self.lifetime,
            now=self.now,
            closed_early=self.closed_early,
        )

    def _pooled(self, versions: Sequence[Metric], standing: Sequence[Release]) -> list[Outcome]:
        """Publish the release over all versions, once every one of them has its own."""
        published = [release for release in standing if release.estimates is not None]
        if len(standing) < len(versions) or not can_pool(published):
            return []
        try:
            composed = compose_pooled(versions[-1], published)
            release, _ = write(composed, self.directory, self.signing)
        except Exception as error:
            return [_failed(published[0].metric, published[0].epoch, POOLED, error)]
        return [self._shown(release)]

    def _shown(self, release: Release) -> Outcome:
        try:
            write_pages(release, self.directory, self.public)
        except Exception as error:
            return _failed(release.metric, release.epoch, release.fingerprint, error)
        path = path_of(self.directory, release.metric, release.epoch, release.fingerprint)
        withheld = release.status == "WITHHELD"
        return Outcome(
            release.metric,
            release.epoch,
            release.fingerprint,
            "WITHHELD" if withheld else "OK",
            f"fewer than {release.min_reports} reports" if withheld else "",
            path,
        )


def _failed(metric: str, epoch: str, fingerprint: str, error: Exception) -> Outcome:
    log.exception("%s %s %s could not be published", metric, epoch, fingerprint)
    return Outcome(metric, epoch, fingerprint, "FAILED", str(error) or type(error).__name__)


def only_publisher(directory: Path) -> AbstractContextManager[None]:
    """Keep other publishers, in this process or another, out of a directory; wait for them."""
    return turn(directory, ".publishing.lock")

"""Which epochs are due: those whose end and grace have passed and that are not released yet.

Epochs are UTC, so no clock change skips or doubles one. Whatever fell due while nothing ran is due
still.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aggregator.tally import Tally
from client_sdk.epochs import DAY_SECONDS, EpochLength, day_of, end_of, epoch_of, label
from client_sdk.metric import Metric
from estimator.ledger.lifetime import Lifetime
from estimator.releases.failures import failures
from estimator.releases.pages import page_of


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
class Due:
    """One epoch of one metric.

    Attributes:
        versions: Those that have reports in it; what is closed together.
        epoch: Its number.
    """

    versions: tuple[Metric, ...]
    epoch: int

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.versions[0].name

    @property
    def label(self) -> str:
        """ISO 8601 name of the epoch."""
        return label(self.versions[0].epoch, self.epoch)


def due(source: Source, directory: Path, now: float) -> Iterator[Due]:
    """Yield what is due, metric by metric, oldest epochs first.

    Args:
        source: Tallies and metrics.
        directory: Of the releases.
        now: Unix time in seconds.
    """
    failed = {(each.metric, each.epoch) for each in failures(directory)}
    for versions in series(source.metrics()):
        found = [(version, source.epochs_with_reports(version)) for version in versions]
        for epoch in sorted({epoch for _, epochs in found for epoch in epochs}):
            reporting = tuple(version for version, epochs in found if epoch in epochs)
            each = Due(reporting, epoch)
            released = (each.metric, each.label) not in failed and _is_released(each, directory)
            if due_at(versions, epoch) <= now and not released:
                yield each


def close_due(source: Source, now: float) -> None:
    """Close every epoch whose end and grace have passed, also those without any report yet.

    Intake knows an epoch as closed by its watermark alone; without this a first report that comes
    after the grace would still be taken.
    """
    for versions in series(source.metrics()):
        length = versions[0].epoch
        first = epoch_of(length, min(version.starts for version in versions))
        epoch = epoch_of(length, day_of(now))
        while epoch >= first and due_at(versions, epoch) > now:
            epoch -= 1
        if epoch >= first:
            source.close(versions[0], epoch)


def due_at(versions: Sequence[Metric], epoch: int) -> float:
    """Return the Unix time at which an epoch of these versions closes by itself."""
    if versions[0].epoch == "once":
        last = max(version.expires for version in versions)
        return end_of("day", epoch_of("day", last) - 1)
    grace = max(version.grace_days for version in versions)
    return end_of(versions[0].epoch, epoch) + grace * DAY_SECONDS


def series(metrics: Iterable[Metric]) -> list[list[Metric]]:
    """Group versions by what is closed together: name and epoch length."""
    found: dict[tuple[str, EpochLength], list[Metric]] = defaultdict(list)
    for metric in metrics:
        found[metric.name, metric.epoch].append(metric)
    return list(found.values())


def _is_released(each: Due, directory: Path) -> bool:
    # The page is written last: without it, a publisher has died on the way.
    pages = [
        page_of(directory, each.metric, each.label, version.fingerprint)
        for version in each.versions
    ]
    # With its document: else anybody's page would keep a release back.
    return all(page.exists() and page.with_suffix(".json").exists() for page in pages)

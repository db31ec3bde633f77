"""How a metric has developed: its epochs one after another, gaps included and named."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from client_sdk.epochs import epoch_of, label
from client_sdk.metric import Label
from estimator.dashboard.shelf import length_of
from estimator.releases.charts import (
    MOST_TRENDS,
    days_and_gaps,
    entry_of,
    in_percent,
    in_points,
    largest,
    names_of,
)
from estimator.releases.number import figure_in_unit, figures, foremost
from estimator.releases.release import Release
from estimator.releases.width import half_width


@dataclass(frozen=True)
class Epoch:
    """One line of the history.

    Attributes:
        name: Of the epoch, or of a run of epochs without a release.
        fingerprint: Of its release; None: there is none.
        n: Reports; None if there is no release or it is withheld.
        shares: Of the history's values, in percent, after a mean or median in the metric's unit;
            empty without n.
        width: Half of the widest interval, in percentage points, of a mean in percent of the
            range; "" without n.
    """

    name: str
    fingerprint: str | None
    n: int | None
    shares: tuple[str, ...] = ()
    width: str = ""


@dataclass(frozen=True)
class History:
    """Some epochs of a metric.

    Attributes:
        values: Names of those with the largest shares in the last one, after "mean" or "median"
            of numbers that have one.
        epochs: Newest first.
    """

    values: tuple[str, ...]
    epochs: tuple[Epoch, ...]

    @property
    def withheld(self) -> list[str]:
        """Epochs whose release says nothing, oldest first."""
        silent = (each for each in self.epochs if each.fingerprint and each.n is None)
        return [each.name for each in silent][::-1]

    @property
    def missing(self) -> list[str]:
        """Epochs, or runs of them, without a release, oldest first."""
        return [each.name for each in self.epochs if each.fingerprint is None][::-1]


def history(releases: Sequence[Release]) -> History:
    """Return the history of releases that are comparable, oldest first, at most one per epoch."""
    published = [release for release in releases if release.estimates is not None]
    if not published:
        return History((), tuple(_epochs(releases, []))[::-1])
    names = names_of(published[-1])
    values = [entry.value for entry in largest(published[-1], MOST_TRENDS)]
    number = foremost(published[-1].estimates)
    called = None if number is None else number.name
    epochs = tuple(_epochs(releases, values, called))
    first = () if called is None else (called,)
    return History((*first, *(names[type(value), value] for value in values)), epochs[::-1])


def _epochs(
    releases: Sequence[Release], values: Sequence[Label | None], number: str | None = None
) -> Iterator[Epoch]:
    for day, place in days_and_gaps(releases):
        if place is None:
            following = next(release for release in releases if release.first_day > day)
            yield Epoch(_run(releases[0].epoch, day, following.first_day), None, None)
        else:
            yield _epoch(releases[place], values, number)


def _epoch(release: Release, values: Sequence[Label | None], number: str | None) -> Epoch:
    estimates = release.estimates
    if estimates is None:
        return Epoch(release.epoch, release.fingerprint, None)
    entries = [entry_of(release, value) for value in values]
    shares = tuple(in_percent(None if entry is None else entry.share) for entry in entries)
    if number is not None:
        found = next((each for each in figures(estimates) if each.name == number), None)
        shares = ("\N{EN DASH}" if found is None else figure_in_unit(found), *shares)
    half = half_width(release)
    width = "" if half is None else f"\N{PLUS-MINUS SIGN} {in_points(half)}"
    return Epoch(release.epoch, release.fingerprint, estimates.n, shares, width)


def _run(like: str, day: str, following: str) -> str:
    """Return the names of the first and last epoch from one day to before another."""
    length = length_of(like)
    if length is None:
        return day
    ends = (date.fromisoformat(day), date.fromisoformat(following) - timedelta(days=1))
    first, last = (label(length, epoch_of(length, end)) for end in ends)
    return first if first == last else f"{first} to {last}"

"""What of the newest file a device's life has no room for: worked out, and seen in the ledger.

A device reserves shares as client_sdk/ledger.py does: whole, in file order, against what its life
has left; a metric that a file no longer has gives back what it did not spend. Here a life is
lived through without a device: one that has loaded every file, and has reported whatever it could.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from client_sdk.epochs import epoch_of, first_day
from client_sdk.metric import Metric
from client_sdk.registry import Registry

ALWAYS = first_day("day", 0)
"""When a metric starts that names no start."""


@dataclass(frozen=True)
class Fit:
    """Whether one metric's share fits into a life.

    Attributes:
        metric: Its name.
        needed: Micro-epsilon to reserve for it beyond what it holds from an older file.
        free: Micro-epsilon that nothing had reserved when it was this metric's turn.
        fits: Whether that is enough; if not, the metric is off.
    """

    metric: str
    needed: int
    free: int
    fits: bool


@dataclass(frozen=True)
class Life:
    """A life at the moment when it takes up the newest file.

    Attributes:
        since: The day on which it took up the first file.
        day: The day on which it takes up the newest.
        spent: Micro-epsilon spent before.
        fits: Metrics of the newest file, in its order.
    """

    since: date
    day: date
    spent: int
    fits: tuple[Fit, ...]

    @property
    def off(self) -> tuple[Fit, ...]:
        """Metrics that do not fit."""
        return tuple(fit for fit in self.fits if not fit.fits)


def fullest_life(registries: Sequence[Registry], today: date) -> Life:
    """Live with all files in turn, in every sample, reporting all that each allows.

    Args:
        registries: Oldest first, at least one.
        today: UTC date; a file that begins nothing new is taken up as late as can be.
    """
    days = taken_up(registries, today)
    book = _Book()
    for number, registry in enumerate(registries[:-1]):
        book.reserve(registry, days[number])
        book.spend(registry, days[number], days[number + 1])
    return Life(days[0], days[-1], book.spent, tuple(book.reserve(registries[-1], days[-1])))


def taken_up(registries: Sequence[Registry], today: date) -> list[date]:
    """Return the day on which each file is taken up: when the first of what is new in it starts.

    One with nothing new that has a start is taken up together with the next, or today: so what it
    no longer has was spent for longest. No file is taken up before an older one.
    """
    known: set[str] = set()
    begins: list[date | None] = []
    for registry in registries:
        new = [each for each in registry.metrics.values() if each.fingerprint not in known]
        starts = [each.starts for each in new if each.starts > ALWAYS]
        begins.append(min(starts, default=None))
        known |= {each.fingerprint for each in new}
    following = today
    filled = []
    for day in reversed(begins):
        following = following if day is None else day
        filled.append(following)
    days: list[date] = []
    for day in reversed(filled):
        days.append(max(day, days[-1]) if days else day)
    return days


def without_a_report(histogram: Sequence[int], cap: int, charge: int) -> tuple[int, int]:
    """Return how many devices have less left than a report costs: at least, and at most.

    Args:
        histogram: Devices in equal classes of spent / cap, as `LedgerSample` has them: with their
            lower ends, without their upper ones but for the last. Those in the class that the limit
            goes through may be on either side of it.
        cap: Lifetime cap in micro-epsilon.
        charge: Micro-epsilon of the report, at least 1.
    """
    classes, limit = len(histogram), cap - charge  # who has spent more than the limit is short
    least = sum(n for i, n in enumerate(histogram) if i * cap > classes * limit)
    some = (n for i, n in enumerate(histogram[:-1], 1) if i * cap > classes * (limit + 1))
    return least, sum(some) + histogram[-1]


@dataclass
class _Share:
    reserved: int = 0
    spent: int = 0
    fits: bool = False


@dataclass
class _Book:
    """What client_sdk.ledger.Ledger keeps in a device's state."""

    shares: dict[str, _Share] = field(default_factory=lambda: defaultdict(_Share))
    marks: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    paid: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    spent: int = 0

    def reserve(self, registry: Registry, day: date) -> list[Fit]:
        for name, share in self.shares.items():
            if name not in registry.metrics:
                share.reserved = share.spent
        return [self._fit(metric, registry.lifetime_micro, day) for metric in _each(registry)]

    def spend(self, registry: Registry, since: date, until: date) -> None:
        """Report as early and as often as the file allows from one day on until before another."""
        chances = []
        for place, metric in enumerate(_each(registry)):
            first, end = max(metric.starts, since), min(metric.expires, until)
            if first >= end:
                continue
            last = end.toordinal() - 1
            for epoch in range(
                epoch_of(metric.epoch, first), epoch_of(metric.epoch, date.fromordinal(last)) + 1
            ):
                chances.append((max(first, first_day(metric.epoch, epoch)), place, epoch, metric))
        for _, _, epoch, metric in sorted(chances, key=lambda chance: chance[:2]):
            self._charge(metric, epoch, registry.lifetime_micro)

    def _fit(self, metric: Metric, lifetime: int, day: date) -> Fit:
        share = self.shares[metric.name]
        free = lifetime - sum(other.reserved for other in self.shares.values())
        wanted = share.spent + self._future(metric, day)
        needed = max(0, wanted - share.reserved)
        share.fits = needed == 0 or needed <= free
        if share.fits:
            share.reserved += needed
        return Fit(metric.name, needed, max(0, free), share.fits)

    def _future(self, metric: Metric, day: date) -> int:
        today = max(metric.starts, day)
        if metric.memoize is not None:
            return min(metric.share(today), self._due(metric))
        first = metric.block_of(epoch_of(metric.epoch, today)) * metric.every
        last = epoch_of(metric.epoch, metric.expires)
        marks = self.marks[metric.name, metric.epoch]
        reported = {metric.block_of(mark) for mark in marks if first <= mark <= last}
        return max(0, metric.share(today) - len(reported) * metric.charge)

    def _due(self, metric: Metric) -> int:
        if metric.memoize is None:
            return metric.charge
        return max(0, metric.charge - self.paid[metric.name, metric.channel_hash])

    def _charge(self, metric: Metric, epoch: int, lifetime: int) -> None:
        marks = self.marks[metric.name, metric.epoch]
        block = metric.block_of(epoch) * metric.every
        if any(mark in marks for mark in range(block, block + metric.every)):
            return
        share, charge = self.shares[metric.name], self._due(metric)
        if (
            not share.fits
            or share.spent + charge > share.reserved
            or self.spent + charge > lifetime
        ):
            return
        share.spent += charge
        self.spent += charge
        marks.add(epoch)
        if metric.memoize is not None:
            self.paid[metric.name, metric.channel_hash] += charge


def _each(registry: Registry) -> Iterator[Metric]:
    yield from registry.metrics.values()

"""How exact n reports are: error, decision level and detection limit of a share or of a mean.

The variance of an unbiased estimate of a share is a quadratic in the share wherever the noise is
linear in it, and that is every mechanism here: n times it is (a + b f - f^2) / part. A channel with
q (1 - q) / gap^2 = a and (1 - 2 q) / gap = b has the same variance at every share, so whatever
`uncertainty` says of a channel holds for all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

from scipy import stats

from estimator import uncertainty
from estimator.debias import Channel

POWER = 0.95
"""Probability with which a share at the detection limit is called present."""
MOST_REPORTS = 10**12
"""More are never to be had: where more would be needed there is no answer."""


@dataclass(frozen=True)
class Law(ABC):
    """What is estimated from n reports, and how well.

    Shares, errors and levels are parts of 1; of a mean they are parts of its range.

    Attributes:
        worst_shift: The most by which one percent of fake reports can move an estimate.
    """

    worst_shift: float

    @property
    @abstractmethod
    def of(self) -> Literal["share", "mean"]:
        """What is estimated."""

    @abstractmethod
    def variance(self, share: float, n: float) -> float:
        """Return the population variance at a true share; of a mean, with all numbers there."""

    @abstractmethod
    def worst_error(self, n: float) -> float:
        """Return the largest standard error, whatever is true."""

    @abstractmethod
    def decision_level(self, n: float, level: float, cells: int) -> float:
        """Return the estimate above which a value is called present (Currie 1968, L_C).

        Of a mean: how far it must lie above a known one to be called higher.
        """

    @abstractmethod
    def detection_limit(self, n: float, level: float, cells: int) -> float | None:
        """Return the least truth that is called so with probability POWER; None if none is."""

    @abstractmethod
    def interval_width(self, share: float, n: float, level: float, cells: int) -> float:
        """Return the whole width of the interval that is published, at its expected place."""

    @abstractmethod
    def reports_for_error(self, target: float, share: float) -> int | None:
        """Return the least n with a standard error of at most `target`; None: no number does."""

    @abstractmethod
    def reports_for_detection(self, target: float, level: float, cells: int) -> int | None:
        """Return the least n with a detection limit of at most `target`."""

    def error(self, share: float, n: float) -> float:
        """Return the population standard error at a true share."""
        return math.sqrt(self.variance(share, n))


@dataclass(frozen=True)
class ShareLaw(Law):
    """Of the share of devices that hold a value.

    Attributes:
        channel: One with the same variance.
        part: Of the reports, so many tell about a value.
        counted: Whether the channel is the real one: a release counts supports, and decides by
            their binomial law. Others are taken for normal.
        floor: Variance that no number of reports averages out: strings that nobody listed.
    """

    channel: Channel
    part: float = 1.0
    counted: bool = True
    floor: float = 0.0

    @classmethod
    def of_variances(
        cls, scaled: Callable[[float], float], worst_shift: float, floor: float = 0.0
    ) -> Self:
        """The law with these variances.

        Args:
            scaled: n times the variance at a share: a quadratic that opens downwards.
            worst_shift: As above.
            floor: As above; not in `scaled`.
        """
        none, half, all_ = scaled(0.0), scaled(0.5), scaled(1.0)
        square = 2 * (none + all_ - 2 * half)  # of the share, negative
        a, b = none / -square, (all_ - none - square) / -square
        gap = 1 / math.sqrt(b * b + 4 * a)
        # The smaller root of q (1 - q) = a gap^2, in the form that keeps a tiny one's digits.
        q = 2 * a * gap * gap / (1 + b * gap) if b > 0 else (1 - b * gap) / 2
        q = min(max(q, 0.0), 1 - gap)
        return cls(worst_shift, Channel(q + gap, q, gap), -1 / square, False, floor)

    @property
    def of(self) -> Literal["share", "mean"]:
        return "share"

    def counting(self, n: float) -> float:
        """Return how many reports through `channel`, without a floor, are as good as n."""
        through = n * self.part
        if not self.floor:
            return through
        rare = self.variance_through(0.0)
        return through / (1 + through * self.floor / rare)

    def rare_supports(self, n: float) -> float:
        """Return how many reports speak, or how many do not, for a value that nobody holds."""
        q = self.channel.p_false
        return self.counting(n) * min(q, 1 - q)

    def variance(self, share: float, n: float) -> float:
        return float(uncertainty.variance_population(share, self.counting(n), self.channel))

    def worst_error(self, n: float) -> float:
        return uncertainty.worst_standard_error(self.counting(n), self.channel)

    def decision_level(self, n: float, level: float, cells: int) -> float:
        of_kind = uncertainty.decision_level
        if self.counted:
            of_kind = uncertainty.counted_decision_level
        return of_kind(self.counting(n), self.channel, level=level, cells=cells)

    def detection_limit(self, n: float, level: float, cells: int) -> float | None:
        of_kind = uncertainty.detection_limit
        if self.counted:
            of_kind = uncertainty.counted_detection_limit
        limit = of_kind(self.counting(n), self.channel, level=level, cells=cells, power=POWER)
        # What nobody of those who report holds is seen through no channel.
        return None if limit is None else max(limit, -math.expm1(math.log1p(-POWER) / n))

    def interval_width(self, share: float, n: float, level: float, cells: int) -> float:
        reports = self.counting(n)
        expected = reports * self.channel.support(share)
        of_kind = uncertainty.simultaneous_interval if self.counted else uncertainty.interval
        low, high = of_kind(expected, reports, self.channel, level=level, cells=cells)
        return float(high - low)

    def reports_for_error(self, target: float, share: float) -> int | None:
        return self._sent(self.variance_through(share) / target**2)

    def reports_for_detection(self, target: float, level: float, cells: int) -> int | None:
        # Both ends of the limit's definition are proportional to 1/sqrt(n).
        error = math.sqrt(self.variance_through(target))
        length = uncertainty.decision_level(1, self.channel, level=level, cells=cells)
        length += float(stats.norm.ppf(POWER)) * error
        held = math.log1p(-POWER) / math.log1p(-target)
        n = self._sent((length / target) ** 2)
        if n is None:
            return None
        n = max(n, math.ceil(held * (1 - 1e-12)))
        return self._counted_from(n, target, level, cells) if self.counted else n

    def _counted_from(self, normal: int, target: float, level: float, cells: int) -> int | None:
        """Return the n that is just enough by the binomial law, from that by the normal one."""

        def enough(n: int) -> bool:
            limit = self.detection_limit(n, level, cells)
            return limit is not None and limit <= target

        low, high = 0, normal
        while not enough(high):
            if high >= MOST_REPORTS:
                return None
            low, high = high, min(2 * high, MOST_REPORTS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def variance_through(self, share: float) -> float:
        """Return the variance of one report through `channel`."""
        return float(uncertainty.variance_population(share, 1, self.channel))

    def _sent(self, counting: float) -> int | None:
        """Return the least n with `counting(n)` of at least so many."""
        # A target met exactly (two coins, 0.01 at 1/2: n = 10000) must not cost one report more.
        counting *= 1 - 1e-12
        if self.floor:
            rare = self.variance_through(0.0)
            left = 1 - counting * self.floor / rare
            if left <= 0:
                return None
            counting /= left
        n = max(1, math.ceil(counting / self.part))
        return n if n <= MOST_REPORTS else None


@dataclass(frozen=True)
class MeanLaw(Law):
    """Of the mean of numbers, as a part of their range.

    Attributes:
        worst: n times the largest variance.
        at: n times the variance where all numbers lie at one part of the range.
    """

    worst: float
    at: Callable[[float], float]

    @property
    def of(self) -> Literal["share", "mean"]:
        return "mean"

    def variance(self, share: float, n: float) -> float:
        return self.at(share) / n

    def worst_error(self, n: float) -> float:
        return math.sqrt(self.worst / n)

    def decision_level(self, n: float, level: float, cells: int) -> float:
        return float(stats.norm.isf((1 - level) / cells)) * self.worst_error(n)

    def detection_limit(self, n: float, level: float, cells: int) -> float | None:
        length = self._length(level, cells) / math.sqrt(n)
        return length if length <= 1 else None

    def interval_width(self, share: float, n: float, level: float, cells: int) -> float:
        return 2 * uncertainty.normal_quantile(level, cells) * self.error(share, n)

    def reports_for_error(self, target: float, share: float) -> int | None:
        n = max(1, math.ceil(self.at(share) / target**2 * (1 - 1e-12)))
        return n if n <= MOST_REPORTS else None

    def reports_for_detection(self, target: float, level: float, cells: int) -> int | None:
        n = math.ceil((self._length(level, cells) / target) ** 2 * (1 - 1e-12))
        return n if n <= MOST_REPORTS else None

    def _length(self, level: float, cells: int) -> float:
        quantiles = stats.norm.isf((1 - level) / cells) + stats.norm.ppf(POWER)
        return float(quantiles) * math.sqrt(self.worst)

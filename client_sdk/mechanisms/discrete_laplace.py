"""Discrete Laplace noise on a number, clamped to the range: the truncated geometric mechanism.

Channel: a number on the point i of 0..steps is sent as min(max(i + Z, 0), steps) with
P(Z = z) = (1 - a)/(1 + a) a^|z|, a = e^{-eps/steps}. Ghosh, Roughgarden, Sundararajan, "Universally
Utility-Maximizing Privacy Mechanisms" (SIAM J. Computing 2012). Numbers are rounded to the grid by
chance. Clamping a report is post-processing: it costs no privacy and, here, no bias either. A
geometric tail forgets where it began, so that what was cut off at an end is on average
a/(1 - a) long whatever i was, and an end counts as that much beyond itself. The estimate is the
conditional mean of i + Z and so never worse than with the whole noise, of variance 2a/(1 - a)^2.
The probabilities are integers out of 2**64: the estimate is unbiased but for their rounding.

From epsilon 1/2 on `piecewise` has less noise for numbers in the middle of the range.

Numbers outside the range are clamped to its ends before. That is a bias no estimate can remove:
choose the range so that few are.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate, chain
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import POSITIONS, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.number_grid import NumberGrid
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    checked_epsilon,
    exponential,
    log_ratio,
    part,
    probability,
)
from client_sdk.randomness import ONE, Coin

MOST_STEPS = 1024
_STEPS = 64
_FINE = 1 << 128  # powers of the decay are kept as integers out of it, rounded up


class DiscreteLaplace(NumberGrid):
    """Geometric noise of both signs on the points of a grid.

    Args:
        steps: Of the range, at least 1.
        decay: a = decay / 2**64, in (0, 1).
    """

    name = "discrete_laplace"

    def __init__(self, steps: int, decay: int) -> None:
        if steps < 1 or not 0 < decay < ONE:
            raise ParameterError(
                f"need at least one step and a decay in (0, 1), got {steps} and "
                f"{float(probability(decay))}"
            )
        self.steps, self.decay = steps, decay
        self.cells = steps + 1
        self._inner, self._outer = _tails(steps, decay)
        self._within = list(accumulate(self._inner, initial=0))
        self.p_true = probability(self._own(0))
        self.p_false = probability(self._outer[steps])
        if any(self._own(point) <= self._nearest(point) for point in range(self.cells)):
            raise ParameterError(
                f"epsilon is too small to tell anything on so many steps, got steps={steps}"
            )
        self.epsilon = log_ratio(*max(map(self._loss, range(self.cells)), key=_ratio))

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("steps")
        steps = declared.integer("steps", 1, MOST_STEPS, _STEPS)
        return cls.from_epsilon(declared.once(), steps)

    @classmethod
    def from_epsilon(cls, epsilon: Real, steps: int) -> Self:
        """The channel with a loss of at most `epsilon`."""
        each = exponential(part(checked_epsilon(epsilon), steps))
        return cls(steps, min(ceil_threshold(1 / Fraction(each)), ONE - 1))

    @property
    def rare_variance(self) -> float:
        """Largest variance of the estimated mean, times n, in squared ranges: half of the numbers
        at some point, the others as far from the other end."""
        centre = Fraction(self.steps, 2)
        points = range(self.steps // 2 + 1)
        return max(float(self.noise(i) + (i - centre) ** 2) for i in points) / self.steps**2

    @property
    def quietest(self) -> int:
        return 0

    @property
    def overshoot(self) -> Fraction:
        """How far beyond an end its cell counts, in steps: a/(1 - a)."""
        return Fraction(self.decay, ONE - self.decay)

    def noise(self, point: int) -> Fraction:
        a = probability(self.decay)
        cut = (a**point + a ** (self.steps - point)) / (1 + a)
        return a / (1 - a) ** 2 * (2 - cut)

    def scores(self) -> list[Fraction]:
        beyond = self.overshoot
        middle = [Fraction(cell) for cell in range(1, self.steps)]
        return [-beyond, *middle, self.steps + beyond]

    def squares(self) -> list[Fraction]:
        beyond, spread = self.overshoot, 2 * self.overshoot * (1 + self.overshoot)
        middle = [cell**2 - spread for cell in range(1, self.steps)]
        return [-beyond, *middle, self.steps**2 + 2 * self.steps * beyond - beyond]

    def law(self, point: int) -> list[Fraction]:
        return [probability(weight) for weight in self._weights(point)]

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        """Return the nearest point."""
        return (round(Fraction(int(value) * self.steps, POSITIONS)),)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.pick(list(accumulate(self._weights(permanent))))

    def parameters(self) -> Mapping[str, int]:
        return {"steps": self.steps, "decay": self.decay}

    def _weights(self, point: int) -> list[int]:
        """Return the integers out of 2**64 that a point's cells have, the point's own the rest."""
        left, right = point, self.steps - point
        below = chain(self._outer[left : left + 1], reversed(self._inner[: left - 1]))
        above = chain(self._inner[: right - 1], self._outer[right : right + 1])
        return [
            *(below if left else ()),
            self._own(point),
            *(above if right else ()),
        ]

    def _own(self, point: int) -> int:
        taken = 0
        for reach in (point, self.steps - point):
            if reach:
                taken += self._outer[reach] + self._within[reach - 1]
        return ONE - taken

    def _nearest(self, cell: int) -> int:
        """Return the weight that the points next to a cell's own give it."""
        return self._outer[1] if cell in (0, self.steps) else self._inner[0]

    def _loss(self, cell: int) -> tuple[Fraction, Fraction]:
        """Return the largest and the least probability that points give to a cell."""
        if cell in (0, self.steps):
            return probability(self._own(cell)), probability(self._outer[self.steps])
        farthest = max(cell, self.steps - cell)
        return probability(self._own(cell)), probability(self._inner[farthest - 1])


def _tails(steps: int, decay: int) -> tuple[list[int], list[int]]:
    """Return integers out of 2**64 for cells that do not belong to the point.

    Rounded up: what belongs to a point is then less likely than it ought to be, and all else at
    least as likely, so that no ratio exceeds that of the decay.

    Returns:
        For distances 1, 2, ... those of a cell inside, and for 0, 1, ... those of an end.
    """
    inner, outer = [], []
    power = _FINE
    for _ in range(steps + 1):
        outer.append(-(-power * ONE * ONE // (_FINE * (ONE + decay))))
        power = -(-power * decay // ONE)
        inner.append(-(-power * ONE * (ONE - decay) // (_FINE * (ONE + decay))))
    return inner, outer


def _ratio(pair: tuple[Fraction, Fraction]) -> Fraction:
    return pair[0] / pair[1]

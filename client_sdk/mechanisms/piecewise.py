"""Piecewise: a number is sent as a place near it or, less often, as any other.

The mechanism of N. Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and Analyzing
Multidimensional Data with Local Differential Privacy" (ICDE 2019), on a grid: with s = e^{eps/2}
the window is 1/s times as wide as the range, as there, and as the steps grow the channel becomes
theirs. Numbers are rounded to the grid by chance. The mean cell is exactly linear in the point of
the grid, so the estimated mean is exactly unbiased. For numbers x of [-1, 1] a report's variance is
x^2/(s-1) + (s+3)/(3(s-1)^2) in the limit: least in the middle of the range.

Numbers outside the range are clamped to its ends. That is a bias no estimate can remove: choose the
range so that few are.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.mechanisms.base import MOST_CELLS, POSITIONS, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.number_grid import NumberGrid
from client_sdk.mechanisms.sliding_window import SlidingWindow, keeping
from client_sdk.mechanisms.thresholds import Real, checked_epsilon, exponential, part

MOST_STEPS = MOST_CELLS // 2
"""A window is at most as wide as the range."""
_FEWEST_BY_DEFAULT, _MOST_BY_DEFAULT = 32, 1024
_WINDOW_BY_DEFAULT = 4  # steps, at least: rounding then adds little to the noise


class Piecewise(SlidingWindow, NumberGrid):
    """A window of cells that slides with a number on a grid.

    Args:
        steps: Of the range, at least 1.
        window: Cells that are near a point of the grid, at least 1.
        keep: Threshold of sending one of those.
    """

    name = "piecewise"

    def __init__(self, steps: int, window: int, keep: int) -> None:
        self._slide(steps + 1, window, keep)
        self.steps = steps
        p, q, cells = self.p_true, self.p_false, self.cells
        middle = Fraction(window - 1, 2)
        # E(y | i) = offset + slope i, E(y^2 | i) = rest + slope ((i + middle)^2 + spread).
        self.slope = window * (p - q)
        self.offset = self.slope * middle + q * cells * (cells - 1) / 2
        self._middle, self._spread = middle, Fraction(window**2 - 1, 12)
        self._rest = q * (cells - 1) * cells * (2 * cells - 1) / 6

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("steps")
        epsilon = declared.once()
        default = default_steps(epsilon)
        return cls.from_epsilon(epsilon, declared.integer("steps", 1, MOST_STEPS, default))

    @classmethod
    def from_epsilon(cls, epsilon: Real, steps: int) -> Self:
        """The channel with a loss of at most `epsilon`, its window as wide as the paper has it."""
        asked = checked_epsilon(epsilon)
        window = max(1, round(steps / Fraction(exponential(part(asked, 2)))))
        return cls(steps, window, keeping(steps, window, asked))

    @property
    def rare_variance(self) -> float:
        """Largest variance of the estimated mean, times n, in squared ranges: half of the
        numbers at either end."""
        return float((self.noise(0) + Fraction(self.steps, 2) ** 2) / self.steps**2)

    @property
    def quietest(self) -> int:
        return self.steps // 2

    def noise(self, point: int) -> Fraction:
        square = self._rest + self.slope * ((point + self._middle) ** 2 + self._spread)
        return (square - (self.offset + self.slope * point) ** 2) / self.slope**2

    def scores(self) -> list[Fraction]:
        return [(cell - self.offset) / self.slope for cell in range(self.cells)]

    def squares(self) -> list[Fraction]:
        lift = self._rest / self.slope + self._spread + self._middle**2
        return [
            cell**2 / self.slope - lift - 2 * self._middle * score
            for cell, score in enumerate(self.scores())
        ]

    def law(self, point: int) -> list[Fraction]:
        own = range(point, point + self.window)
        return [self.p_true if cell in own else self.p_false for cell in range(self.cells)]

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        """Return the window of the nearest point."""
        point = round(Fraction(int(value) * self.steps, POSITIONS))
        return tuple(range(point, point + self.window))

    def parameters(self) -> Mapping[str, int]:
        return {"steps": self.steps, "window": self.window, "keep": self.keep}


def default_steps(epsilon: Real) -> int:
    """Return a power of two that makes a window of some steps: more for a large epsilon."""
    wanted = _WINDOW_BY_DEFAULT * Fraction(exponential(part(checked_epsilon(epsilon), 2)))
    steps = _FEWEST_BY_DEFAULT
    while steps < wanted and steps < _MOST_BY_DEFAULT:
        steps *= 2
    return steps

"""Numbers of a range: the mean, by an unbiased score for each response."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import NumberGrid, OneBitMean
from estimator import uncertainty
from estimator.debias import Channel, Floats
from estimator.estimates import Estimates, Mean
from estimator.inversion.described import Described
from estimator.plausibility import FAKES

METHOD_OF_BITS = (
    "inverted channel; Wilson interval of the count of ones, mapped through the inverse"
)
METHOD_OF_CELLS = "mean of unbiased scores; normal interval"


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the mean of a number without buckets, in its own unit."""
    mechanism, n, counts = metric.mechanism, tally.n, tally.counts.sum(axis=0)
    method = METHOD_OF_BITS if isinstance(mechanism, OneBitMean) else METHOD_OF_CELLS
    if n == 0:
        return Estimates(n, float(mechanism.epsilon), level, method, ())
    if isinstance(mechanism, OneBitMean):
        channel = Channel.of(mechanism)
        found = of_bits(counts[0], n, channel)
        low, high = uncertainty.interval(counts[0], n, channel, level=level)
    else:
        assert isinstance(mechanism, NumberGrid)
        found = of_cells(counts, Grid.of(mechanism))
        half = uncertainty.normal_quantile(level) * found.population
        low, high = found.part - half, found.part + half
    lowest, width = float(metric.edges[0]), float(metric.edges[-1] - metric.edges[0])
    return Estimates(
        n,
        float(mechanism.epsilon),
        level,
        method,
        (),
        worst_shift=width * worst_shift(mechanism),
        mean=Mean(
            lowest + width * float(found.part),
            width * float(found.population),
            width * float(found.reporters),
            (lowest + width * float(low), lowest + width * float(high)),
        ),
    )


def worst_shift(mechanism: OneBitMean | NumberGrid) -> float:
    """Return the most by which FAKES of the reports can move a mean, as a part of the range.

    From the lowest mean, by the response with the highest score.
    """
    if isinstance(mechanism, OneBitMean):
        channel = Channel.of(mechanism)
        return FAKES * (1 - channel.p_false) / channel.gap
    return FAKES * float(Grid.of(mechanism).scores.max())


@dataclass(frozen=True, eq=False)
class MeanPart:
    """A mean as a part of the range, and its standard errors; arrays over collections.

    Attributes:
        part: 0 at the lowest number, 1 at the highest.
        population: Standard error about the population that reporters are a sample of.
        reporters: About these reporters themselves. Reports do not tell all of how numbers are
            spread; where they leave it open, this is the largest that it may be.
    """

    part: Floats
    population: Floats
    reporters: Floats


def of_bits(ones: ArrayLike, n: int, channel: Channel) -> MeanPart:
    """Estimate the mean by one bit of each report.

    A bit says nothing about the spread: the error is the same whether all numbers are equal, when
    it is the noise alone, or not. So both errors are that one.

    Args:
        ones: How many of the reports have it set.
        n: Reports, at least 1.
        channel: P(1) for the highest number and for the lowest.
    """
    part = np.asarray(ones, np.float64) / n
    # The probability lies between those of the ends, whatever the numbers are.
    inside = np.clip(part, channel.p_false, channel.p_true)
    error = np.sqrt(inside * (1 - inside) / n) / channel.gap
    return MeanPart(channel.invert(part), error, error)


@dataclass(frozen=True, eq=False)
class Grid:
    """A mechanism's scores as parts of the range.

    Attributes:
        scores: Of each cell: unbiased for the number.
        squares: Of each cell: unbiased for the square of the point that it was rounded to.
        least_noise: Variance of the score of one report, for the number that has the least.
        most_rounding: Variance of rounding a number to the grid, at most.
    """

    scores: Floats
    squares: Floats
    least_noise: float
    most_rounding: float

    @classmethod
    def of(cls, mechanism: NumberGrid) -> Self:
        """The scores of a mechanism."""
        steps = mechanism.steps
        return cls(
            np.array([float(score / steps) for score in mechanism.scores()]),
            np.array([float(square / steps**2) for square in mechanism.squares()]),
            float(mechanism.noise(mechanism.quietest) / steps**2),
            1 / (4 * steps**2),
        )


def of_cells(counts: NDArray[np.int64], grid: Grid) -> MeanPart:
    """Estimate the mean by one cell of each report.

    The population's variance is that of the scores. A score's noise depends on the number; its
    mean over the reporters is the mean square of scores less that of points, which `squares`
    estimate, and what rounding adds.

    Args:
        counts: Reports by cell, shape (..., cells), at least one.
        grid: The cells' scores.
    """
    n = counts.sum(axis=-1)
    part = counts @ grid.scores / n
    centred = counts @ grid.scores**2 / n - part**2
    spread = np.maximum(centred * n / np.maximum(n - 1, 1), grid.least_noise)
    noise = counts @ (grid.scores**2 - grid.squares) / n
    noise = np.maximum(noise, grid.least_noise) + grid.most_rounding
    return MeanPart(part, np.sqrt(spread / n), np.sqrt(np.minimum(noise, spread) / n))

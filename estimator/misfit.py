"""Whether counted cells look like some mixture of the candidates and scattered other strings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from estimator.debias import Channel, Floats

ALARM = 0.001
"""Probability with which a tally that fits raises the misfit alarm all the same."""
LEAST_PAIRS = 20.0
"""Squares that sum over fewer pairs of reports are not judged: they have no chi-square law."""


@dataclass(frozen=True)
class Misfit:
    """How far the cells are from what the shares imply.

    Attributes:
        chi_square: Sum of squared standardised residuals.
        expected: Its expectation if the model holds.
        p_value: Probability of so much or more; None if no residual is left to judge.
        cohorts: Numbers of the cohorts that are out of line by themselves.
        alarm: Something is wrong: a frequent string is missing from the candidates, or reports
            do not follow the mechanism.
        excess: Standard deviation of a cell's density that is not explained; it has been added to
            every standard error.
    """

    chi_square: float
    expected: float
    p_value: float | None
    cohorts: tuple[int, ...]
    alarm: bool
    excess: float


def judge(
    residual: Floats,
    variance: Floats,
    leverage: Floats,
    per_row: NDArray[np.int64],
    channel: Channel,
    cohorts: NDArray[np.int64],
    pairs: Floats,
) -> Misfit:
    """Compare a fit's residuals with what chance alone would leave.

    Args:
        residual: Per row, cohort after cohort.
        variance: Of each row, under the fit.
        leverage: Of each row on its own fit.
        per_row: Reports behind each row.
        channel: Of each cell.
        cohorts: Numbers of the cohorts.
        pairs: Of each cohort, over how many pairs of reports its squares sum; infinite where
            cells are counted independently of each other.
    """
    shape = (len(cohorts), -1)
    free = np.clip(1 - leverage, 0, 1)
    squares = (residual**2 / variance).reshape(shape).sum(axis=1)
    expected = free.reshape(shape).sum(axis=1)
    # Few reports make single counts far from normal: their kurtosis widens the sum's spread.
    spread = variance * per_row * channel.gap**2
    kurtosis = (1 - 6 * spread) / (per_row * spread)
    scatter = (free**2 * np.maximum(2 + kurtosis, 0)).reshape(shape).sum(axis=1)
    if expected.sum() < 1 or pairs.sum() < LEAST_PAIRS:
        return Misfit(float(squares.sum()), float(expected.sum()), None, (), False, 0.0)
    by_cohort = _tail(squares, expected, scatter)
    whole = float(_tail(squares.sum(), expected.sum(), scatter.sum()))
    out = cohorts[(by_cohort < ALARM / 2 / len(cohorts)) & (pairs >= LEAST_PAIRS)]
    surplus = max(0.0, float(squares.sum() - expected.sum()))
    return Misfit(
        chi_square=float(squares.sum()),
        expected=float(expected.sum()),
        p_value=whole,
        cohorts=tuple(int(cohort) for cohort in out),
        alarm=bool(out.size) or whole < ALARM / 2,
        excess=float(np.sqrt(surplus / (free / variance).sum())),
    )


def _tail(value: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return the upper tail of a scaled chi-square law with this mean and variance."""
    scale = variance / (2 * mean)
    return np.asarray(stats.chi2.sf(value / scale, mean / scale))

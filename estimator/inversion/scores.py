"""Linear estimates: each cell has a score for each value, and a share is the mean of its scores.

f_hat = (1/n) sum over cells y of count[y] score[v, y]. That inverts any channel P(y|v) of one cell
per report: it is unbiased exactly if sum over y of P(y|u) score[v, y] is 1 for u = v, else 0.
Errors follow from the scores' own moments (reference 0.2 and 14, with K = P):

* population: (mean of score^2 - f_hat^2) / (n - 1), unbiased, whatever the shares are;
* reporters: the noise alone, sum over u of f_u Var(score | u) / n. It is linear in the shares, so
  the unbiased estimates go into it; projected shares would bias it by some percent.

Both stay within what the channel makes possible: reports that are all the same have no spread, but
neither do they make an estimate certain.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from client_sdk.mechanisms import Mechanism
from estimator.debias import Floats
from estimator.plausibility import FAKES
from estimator.uncertainty import normal_quantile, significant_by_normal


@dataclass(frozen=True, eq=False)
class Linear:
    """Estimates of targets from one collection of reports, or from many side by side.

    All arrays have the shape (..., targets).

    Attributes:
        shares: Unbiased, unclipped.
        population: Standard errors about the population.
        reporters: Standard errors about these reporters: the noise alone.
        skewness: Of the estimates' noise.
        second: Mean square of the scores, not below what the least noise makes of it.
        holders: By how much a holder's squared score exceeds another's, at least and at most.
        n: Reports, shape (..., 1).
    """

    shares: Floats
    population: Floats
    reporters: Floats
    skewness: Floats
    second: Floats
    holders: tuple[Floats, Floats]
    n: Floats

    def interval(self, level: float, cells: int = 1) -> tuple[Floats, Floats]:
        """Return intervals about the population; `cells` hold together (Bonferroni).

        They hold all shares f that the estimate is within z standard errors of, at the variance
        that f implies: Wilson's interval, for scores. The estimated variance alone is far too small
        where epsilon is large and few hold a value: without a report of it there is no spread. It
        is used where it reaches further, since what f implies depends on the shares of the others.
        """
        z = normal_quantile(level, cells)
        low, high = (
            _roots(self.shares, self.second, slope, z**2 / self.n) for slope in self.holders
        )
        normal = z * self.population
        return np.minimum(low[0], self.shares - normal), np.maximum(high[1], self.shares + normal)

    def significant(self, level: float, cells: int) -> NDArray[np.bool_]:
        """Return which targets are present."""
        return significant_by_normal(
            self.shares, self.population, self.skewness, level=level, cells=cells
        )


def linear_estimate(
    counts: ArrayLike,
    scores: Floats,
    channel_rows: Floats,
    n: ArrayLike,
    shares: ArrayLike | None = None,
) -> Linear:
    """Estimate each target by the mean of its scores.

    Args:
        counts: Reports of each cell, shape (..., cells); leading axes are collections.
        scores: Shape (targets, cells).
        channel_rows: P(cell | value), shape (values, cells).
        n: Reports of each collection, at least 1, shape (...).
        shares: At which the reporters' error is taken, shape (..., values). By default the
            estimates themselves: then targets must be the values.
    """
    c, size = np.asarray(counts, np.float64), np.asarray(n, np.float64)
    first, second, third = (c @ (scores**power).T / size[..., None] for power in (1, 2, 3))
    held = first if shares is None else np.asarray(shares, np.float64)
    noise = channel_rows @ (scores**2).T - (channel_rows @ scores.T) ** 2
    least, most = np.maximum(noise.min(axis=0), 0), noise.max(axis=0)
    noise = np.clip(held @ noise, least, most)
    holders = _excess(channel_rows @ (scores**2).T)
    return of_moments(first, second, third, noise, least, holders, size)


def of_moments(
    first: Floats,
    second: Floats,
    third: Floats,
    noise: Floats,
    least: ArrayLike,
    holders: tuple[Floats, Floats],
    n: NDArray[np.float64],
) -> Linear:
    """Make estimates of the raw moments of scores.

    Args:
        first, second, third: Means of the scores, of their squares and cubes: (..., targets).
        noise: Expected variance of a score given the value, of the same shape.
        least: The least that it can be, whoever holds what.
        holders: See `Linear`.
        n: Reports of each collection, at least 1, shape (...).
    """
    size = n[..., None]
    population = np.maximum(variance_population(first, second, n), np.asarray(least) / size)
    reporters = np.minimum(noise / size, population)
    cubed = third - 3 * first * second + 2 * first**3
    tiny = np.finfo(float).tiny ** 0.5  # a channel without noise has no skewness either
    skewness = cubed / np.maximum(size * population, tiny) ** 1.5 / np.sqrt(size)
    second = np.maximum(second, first**2 + np.asarray(least))
    return Linear(first, np.sqrt(population), np.sqrt(reporters), skewness, second, holders, size)


def _excess(squares: Floats) -> tuple[Floats, Floats]:
    """Return `Linear.holders` from E[score^2 | value], shape (values, targets), alike in order."""
    own = np.diag(squares)
    others = 1 - np.eye(len(squares)) > 0
    most = np.where(others, squares, -np.inf).max(axis=0)
    least = np.where(others, squares, np.inf).min(axis=0)
    return own - most, own - least


def _roots(share: Floats, second: Floats, slope: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Solve (f - share)^2 = step (second + (f - share) slope - f^2) for f."""
    middle = share + step * slope / 2
    rest = share**2 - step * (second - share * slope)
    half = np.sqrt(np.maximum(middle**2 - (1 + step) * rest, 0))
    return (middle - half) / (1 + step), (middle + half) / (1 + step)


def variance_population(first: Floats, second: Floats, n: NDArray[np.float64]) -> Floats:
    """Return the unbiased estimate of an estimate's variance about the population; 0 if n is 1."""
    return np.maximum(second - first**2, 0) / np.maximum(n[..., None] - 1, 1)


def channel_rows(mechanism: Mechanism) -> Floats:
    """Return P(cell | value) of a closed domain and a single cohort, shape (values, cells)."""
    assert mechanism.domain is not None
    rows = [mechanism.channel(value, 0) for value in range(mechanism.domain)]
    return np.array([[float(chance) for chance in row] for row in rows])


def unbiased_scores(rows: Floats) -> Floats:
    """Return the unbiased scores of least variance when all values are held equally often.

    For a square channel P these are the only ones, the transposed inverse of P. With more cells
    than values they are (P M P')^-1 P M, M the inverse of the cells' probabilities: generalized
    least squares.

    Args:
        rows: P(cell | value), shape (values, cells), no more values than cells.
    """
    if rows.shape[0] == rows.shape[1]:
        return np.asarray(linalg.inv(rows).T)
    weighted = rows / rows.mean(axis=0)
    return np.asarray(linalg.solve(weighted @ rows.T, weighted, assume_a="pos"))


def worst_shift_of(scores: Floats, fakes: float = FAKES) -> float:
    """Return the most by which fakes can move one share, up or down (reference 17).

    Each of them sends the cell that serves it best, where an honest device moves the mean score
    by its share, 0 to 1.

    Args:
        scores: Of values, shape (values, cells).
        fakes: Part of the reports that are fakes, in [0, 1].
    """
    return fakes * float(max(scores.max(), 1 - scores.min()))

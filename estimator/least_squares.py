"""Weighted least squares of cells' densities on candidates, with the covariance that is true.

y = X beta + noise over rows (one per cohort and cell that was counted), X[(c,i), v] = 1 if
candidate v sets bit i in cohort c (reference 4.3). With `density` > 0 a further column stands for
every value that is not a candidate: such a value sets any given bit with that probability. Each
device holds exactly one value, so the shares with that column add up to one; it is eliminated by
centring (X - density, y - density), which costs no degree of freedom.

(X'WX)^-1 alone treats the bits of one device as independent and understates the error; the
sandwich A Sigma A' does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from estimator.debias import Channel, Floats
from estimator.errors import DecodeError

WORST_CONDITION = 1e7
"""Above this an error of one count in ten million reports would show in a share."""


@dataclass(frozen=True, eq=False)
class Design:
    """Which rows each candidate raises.

    Attributes:
        matrix: 0/1, sparse, shape (cohorts * cells, candidates), cohort after cohort.
        candidates: What the columns are called in errors.
        cells: Rows per cohort.
        hashes: Rows per cohort that one value sets.
        density: Expected value of a row for a value that is no candidate; 0 leaves the column
            for such values out.
    """

    matrix: sparse.csr_array
    candidates: tuple[str, ...]
    cells: int
    hashes: int
    density: float

    def rows_of(self, cohorts: NDArray[np.int64]) -> "Design":
        """Return the design of some cohorts only."""
        rows = (cohorts[:, None] * self.cells + np.arange(self.cells)).ravel()
        kept = sparse.csr_array(self.matrix[rows])
        return Design(kept, self.candidates, self.cells, self.hashes, self.density)

    def blocks(self) -> Iterator[tuple[slice, sparse.csr_array]]:
        """Yield each cohort's rows, as a slice and as a matrix."""
        for start in range(0, self.matrix.shape[0], self.cells):
            rows = slice(start, start + self.cells)
            yield rows, sparse.csr_array(self.matrix[rows])

    def fitted(self, shares: Floats) -> Floats:
        """Return the expected density of every row when candidates have these shares."""
        return np.asarray(self.matrix @ shares + self.density * (1 - shares.sum()))


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved system.

    Attributes:
        shares: Shape (..., candidates), unbiased and unclipped.
        factor: Cholesky's, of X'WX.
        condition: Condition number of the weighted design with columns scaled to length one.
    """

    shares: Floats
    factor: tuple[Floats, bool]
    condition: float

    @cached_property
    def inverse(self) -> Floats:
        """(X'WX)^-1 of the centred design: the covariance if cells were independent."""
        return np.asarray(linalg.cho_solve(self.factor, np.eye(len(self.factor[0]))))


def solve(design: Design, y: Floats, variance: Floats) -> Solution:
    """Solve by normal equations with weights 1 / variance.

    Args:
        design: Of the rows.
        y: Debiased densities, shape (..., rows); leading axes are collections of their own.
        variance: Of each row.

    Raises:
        DecodeError: Columns are the same or depend on each other; names candidates involved.
            They are not dropped: the mass of a dropped column would move, unseen, to others.
            A candidate list is no part of a channel, so it can be corrected and tried again.
    """
    x, density, weights = design.matrix, design.density, 1 / variance
    weighted = sparse.csr_array(x.multiply(weights[:, None]))
    sums = np.asarray(weighted.sum(axis=0)).ravel()
    gram = (x.T @ weighted).toarray()
    gram += density**2 * weights.sum() - density * (sums[:, None] + sums[None, :])
    centred = y - density
    right = x.T @ (weights * centred).T - density * (centred @ weights)
    condition = _condition(design, gram)
    factor = linalg.cho_factor(gram, lower=True)
    return Solution(linalg.cho_solve(factor, right).T, factor, condition)


def _condition(design: Design, gram: Floats) -> float:
    length = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    scaled = gram / length[:, None] / length[None, :]
    values = linalg.eigvalsh(scaled)
    worst = float(values[0])
    if worst > 0 and values[-1] / worst < WORST_CONDITION**2:
        return float(np.sqrt(values[-1] / worst))
    _, vectors = linalg.eigh(scaled, subset_by_index=(0, 0))
    involved = np.argsort(-np.abs(vectors[:, 0]), kind="stable")[:4]
    named = ", ".join(repr(design.candidates[i]) for i in sorted(involved))
    raise DecodeError(
        f"candidates must set different bits: {len(gram)} candidates on {design.matrix.shape[0]} "
        f"counted bits depend on each other, most of all {named}; take one of them off the list"
    )


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of what `solve` returned; where a vector has one more entry than there are
    candidates, the last is for the shares' complement, all values that are no candidate.

    Attributes:
        population: Variances when reporters are a sample of the population described.
        reporters: Variances about these reporters: population less f(1-f)/n.
        skewness: Third standardised moments of the noise.
        leverage: Per row, how far it determines its own fit, in [0, 1].
        spread: Sum of squared influences: the variance that each unit of further, independent
            variance in every row would add.
        leaning: How far a share moves, per part of all reports, when those reports lie in the
            worst cohort and move each of its debiased bits by one in the worst direction.
    """

    population: Floats
    reporters: Floats
    skewness: Floats
    leverage: Floats
    spread: Floats
    leaning: Floats


def moments(
    design: Design,
    inverse: Floats,
    variance: Floats,
    *,
    reports: NDArray[np.int64],
    shares: Floats,
    channel: Channel,
) -> Moments:
    """Return the exact moments of the least squares solution at plug-in shares.

    For a cohort of N reporters, bits given the values are independent with the channel's
    variances, and the values are a multinomial draw:

        Sigma_c = diag(var_reporters) + X_c (diag f - f f') X_c' / N.

    A value that is no candidate has bits at random, so its part of E[b b'] is that of `hashes`
    of `cells` bits drawn without replacement. Devices fall into cohorts by chance; with that,
    the covariance about the reporters themselves is the population's less (diag f - f f') / n,
    as in reference 0.2.

    Args:
        design: Of the cohorts that have reports.
        inverse: From `solve` with the same design and variance.
        variance: Of each row.
        reports: Reporters of each cohort, all positive.
        shares: Not negative, sum at most one; the rest is no candidate.
        channel: Of each bit.
    """
    unlisted = 1 - shares.sum()
    size, density = len(shares) + 1, design.density
    truth = np.clip(design.fitted(shares), 0, 1)
    population, third, spread, leaning = (np.zeros(size) for _ in range(4))
    leverage = np.empty(len(truth))
    row_sums = inverse.sum(axis=0)
    inverse = np.ascontiguousarray(inverse)  # sparse products copy any other, each time
    random_bits = density * (1 - density) * design.cells / max(1, design.cells - 1)
    # Large, and so made once: new pages for every cohort would cost more than the arithmetic.
    influence, squared, scratch = (np.empty((design.cells, size)) for _ in range(3))
    for (rows, block), n in zip(design.blocks(), reports, strict=True):
        # Influence of this cohort's rows on every share, and on the complement of their sum.
        centred = block @ inverse
        centred -= density * row_sums
        np.divide(centred, variance[rows, None], out=influence[:, :-1])
        influence[:, -1] = -influence[:, :-1].sum(axis=1)
        np.square(influence, out=squared)
        squares = squared.sum(axis=0)
        raised, by = block.nonzero()
        leverage[rows] = np.bincount(raised, influence[raised, by], design.cells)
        leverage[rows] += density * influence[:, -1]

        noise, skew = _bit_moments(truth[rows], int(n), channel)
        spread += squares
        lean = np.abs(influence, out=scratch).sum(axis=0)
        leaning = np.maximum(leaning, lean * (reports.sum() / n))
        population += noise @ squared
        third += skew @ np.multiply(squared, influence, out=scratch)

        totals = influence.sum(axis=0)
        reach = block.T @ influence - density * totals
        drawn = shares @ reach**2 - (shares @ reach) ** 2
        drawn += unlisted * random_bits * (squares - totals**2 / design.cells)
        population += drawn / n
    f = np.append(shares, unlisted)
    reporters = np.maximum(population - f * (1 - f) / reports.sum(), 0)
    return Moments(population, reporters, third / population**1.5, leverage, spread, leaning)


def _bit_moments(truth: Floats, n: int, channel: Channel) -> tuple[Floats, Floats]:
    """Return second central moment, values given, and third of each debiased bit."""
    p, q = channel.p_true, channel.p_false
    noise = (truth * p * (1 - p) + (1 - truth) * q * (1 - q)) / (n * channel.gap**2)
    lam = channel.support(truth)
    return noise, lam * (1 - lam) * (1 - 2 * lam) / (n**2 * channel.gap**3)

"""Buckets through a window: the whole distribution, by maximum likelihood with smoothing.

Expectation maximization over the channel's matrix; after each step the shares are smoothed (EMS).
Li, Wang, Lopuhaa-Zwakenberg, Skoric, Li, "Estimating Numerical Distributions under Local
Differential Privacy" (SIGMOD 2020), section 5.5. Without smoothing it overfits the noise; with it
estimates are biased towards even ones, and errors and intervals are about those. Errors are those
of a bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 6):
collections are drawn again and estimated again. All of it works on many collections at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import SquareWave
from estimator import uncertainty
from estimator.debias import Floats
from estimator.estimates import Estimate, Estimates, Quantile
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.inversion.likelihood import TOLERANCE, maximum_likelihood
from estimator.plausibility import FAKES
from estimator.quantiles import ADDED, quantiles

METHOD = (
    "biased: smoothed maximum likelihood (EMS); normal interval of a bootstrap, for the share as "
    "smoothed: what smoothing levels out it does not cover; quantiles without smoothing (EM)"
)

REPLICATES = 200
_MOST_ATTACKS = 64


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the share of each bucket of a number."""
    mechanism, n = metric.mechanism, tally.n
    assert isinstance(mechanism, SquareWave)
    epsilon = float(mechanism.epsilon)
    if n == 0:
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, METHOD, empty)
    channel, counts = matrix(mechanism), tally.counts.sum(axis=0)
    shares = maximum_likelihood(channel, counts)
    chance = np.random.default_rng(n)  # a seed, so that one tally has one release
    errors = bootstrap(channel, counts, shares, chance)
    half = uncertainty.normal_quantile(level) * errors.population
    outer = uncertainty.normal_quantile(level, len(shares)) * errors.population
    columns = Columns(
        shares,
        errors.population,
        errors.reporters,
        (shares - half, shares + half),
        (shares - outer, shares + outer),
        np.zeros(len(shares), np.bool_),
    )
    # Smoothing gives a bucket something of its neighbours': that somebody holds it cannot be told,
    # and its errors, which leave that out, would look like those of more direct answers than came.
    entries = (
        replace(e, significant=None, design_effect=None)
        for e in entries_of(metric.labels, columns, n)
    )
    return Estimates(
        n,
        epsilon,
        level,
        METHOD,
        tuple(entries),
        worst_shift=worst_shift(channel, counts, shares),
        quantiles=quantiles_of(
            channel, counts, metric.edges, TOLERANCE * math.exp(epsilon), level, chance
        )
        if metric.edges
        else (),
    )


def matrix(mechanism: SquareWave) -> Floats:
    """Return P(cell | bucket), shape (cells, buckets)."""
    found = np.full((mechanism.cells, mechanism.domain), float(mechanism.p_false))
    for bucket in range(mechanism.domain):
        found[bucket : bucket + mechanism.window, bucket] = float(mechanism.p_true)
    return found


@dataclass(frozen=True, eq=False)
class Errors:
    """Standard errors of smoothed shares; arrays over values.

    Attributes:
        population: About the population that reporters are a sample of.
        reporters: About these reporters themselves: the noise alone.
    """

    population: Floats
    reporters: Floats


def bootstrap(
    channel: Floats,
    counts: NDArray[np.int64] | Floats,
    shares: Floats,
    chance: np.random.Generator,
    replicates: int = REPLICATES,
) -> Errors:
    """Redraw a collection many times, and estimate each.

    What part of the deviation is the noise alone has to come from the estimate, since reports do
    not tell who holds what.

    Args:
        channel: P(cell | value), shape (cells, values).
        counts: Reports by cell, at least one.
        shares: What was estimated from them, adding up to 1.
        chance: The simulation's; no device's noise comes from here.
        replicates: How many collections; the deviation of 200 is off by 5 % (one sigma).
    """
    n = round(float(counts.sum()))
    again = maximum_likelihood(channel, redrawn(channel, counts, chance, replicates))
    implied = chance.multinomial(n, _law(channel @ shares), size=replicates)
    fixed = np.zeros((replicates, channel.shape[0]), np.int64)
    for value, holders in enumerate(_holders(shares, n)):
        fixed += chance.multinomial(holders, _law(channel[:, value]), size=replicates)
    spread, whole, noise = (
        each.std(axis=0, ddof=1)
        for each in (
            again,
            maximum_likelihood(channel, implied),
            maximum_likelihood(channel, fixed),
        )
    )
    part = np.divide(noise, whole, out=np.ones_like(noise), where=whole > 0)
    return Errors(spread, spread * np.minimum(part, 1))


def redrawn(
    channel: Floats,
    counts: NDArray[np.int64] | Floats,
    chance: np.random.Generator,
    replicates: int = REPLICATES,
) -> NDArray[np.int64]:
    """Draw collections as large from the reports that came, shape (replicates, cells).

    Not from the law that an estimate implies: that is smoother than the true one, and deviations
    under it are off by up to a third. ADDED answers at the ends of the range are among the reports
    drawn from, so that few reports which agree do not make it certain.
    """
    added = ADDED / 2 * (channel[:, 0] + channel[:, -1])
    return chance.multinomial(round(float(counts.sum())), _law(counts + added), size=replicates)


def quantiles_of(
    channel: Floats,
    counts: NDArray[np.int64],
    edges: Sequence[Decimal],
    tolerance: float,
    level: float,
    chance: np.random.Generator,
) -> tuple[Quantile, ...]:
    """Return the quantiles of a number from cumulative shares that are not smoothed.

    Without smoothing single shares are wild, but their sums are not, and hardly biased: intervals
    hold as often as they say, where those of smoothed sums can miss nearly always.

    Args:
        channel: P(cell | bucket).
        counts: Reports by cell, at least one.
        edges: Of the buckets, one more than those.
        tolerance: At which steps end.
        level: Coverage of each interval.
        chance: The simulation's.
    """
    collections = np.vstack([counts, redrawn(channel, counts, chance)])
    shares = maximum_likelihood(channel, collections, smooth=False, tolerance=tolerance)
    below = np.cumsum(shares, axis=1)[:, :-1]
    return quantiles(edges, below[0], below[1:].std(axis=0, ddof=1), level)


def worst_shift(channel: Floats, counts: NDArray[np.int64], shares: Floats) -> float:
    """Return the most by which one percent of fakes, all of one cell, move a share.

    Of more than 64 cells as many are tried, evenly spread.
    """
    cells = len(counts)
    tried = np.unique(np.linspace(0, cells - 1, min(cells, _MOST_ATTACKS)).astype(np.int64))
    fakes = np.eye(cells)[tried] * counts.sum()
    moved = maximum_likelihood(channel, (1 - FAKES) * counts + FAKES * fakes)
    return float(np.abs(moved - shares).max())


def _law(probabilities: Floats) -> Floats:
    return np.asarray(probabilities / probabilities.sum(), np.float64)


def _holders(shares: Floats, n: int) -> NDArray[np.int64]:
    """Return whole numbers of holders that add up to n, none off by one or more."""
    reached = np.round(np.cumsum(shares) * n).astype(np.int64)
    reached[-1] = n
    return np.diff(reached, prepend=0)

"""Quantiles of a number that was counted in buckets, each with an interval.

What is known of a distribution is its cumulative share at the bucket edges; where in its bucket a
value lies is not known at all. So an interval ends at bucket edges and is about the buckets: it
holds the whole bucket in which the quantile lies. The value itself is a guess inside one, by
linear interpolation.

A quantile's interval is {x : the interval of the cumulative share at x holds its part}, taken as
one piece (reference 8.4). It covers as often as a single interval does, without a correction for
the number of edges: to miss above, all edges below its lower end must speak against the part, and
among them is the upper edge of the true bucket; to miss below, likewise the lower edge.
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from estimator.debias import Floats
from estimator.estimates import Quantile
from estimator.uncertainty import normal_quantile

PARTS = (0.05, 0.25, 0.5, 0.75, 0.95)
ADDED = 4
"""Answers that are added inside variances, half at either end of the range.

An estimated cumulative share of 0 or 1 has no sampling error by itself, though the true one may
be less extreme. Agresti and Coull, "Approximate Is Better than 'Exact'" (1998).
"""


def quantiles(
    edges: Sequence[Decimal], cdf: ArrayLike, cdf_error: ArrayLike, level: float
) -> tuple[Quantile, ...]:
    """Return the quantiles at PARTS.

    Args:
        edges: All bucket edges, ascending, the ends of the range among them.
        cdf: At each inner edge, the estimated share of what lies below it. Raw: unbiased, neither
            ascending nor inside [0, 1]. Below the lowest edge lies nothing, below the highest all.
        cdf_error: Its standard errors about the population; see `toward_ends`.
        level: Coverage of each interval by itself, in (0, 1).
    """
    places = np.array([float(edge) for edge in edges])
    raw, error = np.asarray(cdf, np.float64), np.asarray(cdf_error, np.float64)
    ascending = np.clip(optimize.isotonic_regression(raw).x, 0, 1)
    reached = np.concatenate([[0.0], ascending, [1.0]])
    half = normal_quantile(level) * error
    return tuple(
        Quantile(part, _value(places, reached, part), _ends(places, raw - half, raw + half, part))
        for part in PARTS
    )


def toward_ends(shares: Floats, n: int) -> Floats:
    """Return shares with ADDED answers at the ends of the range, for use inside variances only.

    Args:
        shares: Of the buckets, each at least 0, adding up to one.
        n: Answers that they are of.
    """
    added = np.zeros_like(shares)
    added[0] = added[-1] = ADDED / 2
    return (n * shares + added) / (n + ADDED)


def _value(places: Floats, reached: Floats, part: float) -> float:
    above = int(np.searchsorted(reached, part))
    low, high = reached[above - 1], reached[above]
    within = (part - low) / (high - low)
    return float(places[above - 1] + within * (places[above] - places[above - 1]))


def _ends(places: Floats, low: Floats, high: Floats, part: float) -> tuple[float, float]:
    """Return the lower edge of the first bucket and the upper edge of the last one that may be."""
    first = np.flatnonzero(high >= part)
    last = np.flatnonzero(low < part)
    inner = len(low)
    return (
        float(places[first[0] if first.size else inner]),
        float(places[last[-1] + 2 if last.size else 1]),
    )

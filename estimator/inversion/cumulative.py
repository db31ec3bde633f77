"""Quantiles of numbers from flat histograms: cumulative shares with their exact errors.

Only for channels whose sums of values have a known error: one cell for each value, of which a
report names one, or one independent bit for each value.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import numpy as np

from client_sdk.mechanisms import (
    GeneralizedRandomizedResponse,
    Mechanism,
    MemoizedGeneralizedRandomizedResponse,
    MemoizedUnary,
    RandomizedResponse,
    UnaryEncoding,
)
from estimator.consistency import simplex_projection
from estimator.debias import Channel, Floats
from estimator.estimates import Quantile
from estimator.quantiles import quantiles, toward_ends
from estimator.uncertainty import variance_population

SUMMABLE = (
    RandomizedResponse,
    GeneralizedRandomizedResponse,
    UnaryEncoding,
    MemoizedGeneralizedRandomizedResponse,
    MemoizedUnary,
)
"""Mechanisms whose sums of values have the errors that are stated here."""


def quantiles_of(
    mechanism: Mechanism, edges: Sequence[Decimal], shares: Floats, n: int, level: float
) -> tuple[Quantile, ...]:
    """Return the quantiles of a number; none if its mechanism is not SUMMABLE.

    Args:
        mechanism: The channel.
        edges: Of the buckets, one more than shares.
        shares: Raw estimates of all buckets.
        n: Reports, at least 1.
        level: Coverage of each interval.
    """
    if not isinstance(mechanism, SUMMABLE):
        return ()
    channel = Channel.of_values(mechanism)
    truth = toward_ends(simplex_projection(shares), n)
    if isinstance(mechanism, RandomizedResponse):  # of two buckets one is the other's complement
        error = np.sqrt(variance_population(truth[1:], n, channel))
    else:
        error = cumulative_error(truth, n, channel, mechanism.kind)
    return quantiles(edges, cumulative(shares), error, level)


def cumulative(shares: Floats) -> Floats:
    """Return the shares below each inner edge, (..., buckets - 1), unbiased.

    What is known to be one in all is made so first, by the same addition to all shares ("Norm",
    reference 13). Estimates of independent bits become more exact by that, at the far end most;
    those of one chosen cell add up to one already.

    Args:
        shares: Raw estimates, shape (..., buckets).
    """
    missing = 1 - shares.sum(axis=-1, keepdims=True)
    return np.asarray(np.cumsum(shares + missing / shares.shape[-1], axis=-1)[..., :-1])


def cumulative_error(
    truth: Floats, n: int, channel: Channel, kind: Literal["cell", "bits"]
) -> Floats:
    """Return the population standard errors of `cumulative`, shape (buckets - 1,).

    Args:
        truth: True or plausible shares, adding up to one.
        n: Reports.
        channel: The buckets' common channel.
        kind: "cell" if a report supports exactly one bucket, "bits" if independent bits.
    """
    buckets = len(truth)
    size = np.arange(1, buckets)
    below = np.cumsum(truth)[:-1]
    if kind == "cell":
        lam = size * channel.p_false + below * channel.gap
        return np.asarray(np.sqrt(lam * (1 - lam) / n) / abs(channel.gap))
    own, other = (p * (1 - p) / channel.gap**2 for p in (channel.p_true, channel.p_false))
    part = size / buckets
    # Each bucket below the edge counts 1 - part times, each other one -part times.
    noise_below = below * own + (size - below) * other
    noise_above = (1 - below) * own + (buckets - size - (1 - below)) * other
    noise = (1 - part) ** 2 * noise_below + part**2 * noise_above
    return np.asarray(np.sqrt((noise + below * (1 - below)) / n))

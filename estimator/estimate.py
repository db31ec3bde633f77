"""From a metric and its tally to estimates, by the way in which its mechanism is inverted."""

from collections.abc import Callable

from aggregator.tally import Tally
from client_sdk.mechanisms import (
    BlockHadamardResponse,
    CountMeanSketch,
    DBitFlip,
    Exponential,
    GeneralizedRandomizedResponse,
    HadamardCountMeanSketch,
    HadamardResponse,
    HierarchicalHistogram,
    LocalHashing,
    Loloha,
    Mechanism,
    MemoizedGeneralizedRandomizedResponse,
    MemoizedUnary,
    MultiHotUnary,
    NumberGrid,
    OneBitMean,
    PaddingAndSampling,
    RandomizedResponse,
    Rappor,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from estimator.estimates import Estimates
from estimator.inversion import (
    asked_by_cohort,
    blocks,
    candidates,
    distribution,
    hashed,
    matrix,
    means,
    shares,
    tree,
)
from estimator.inversion.described import Described

Inversion = Callable[[Described, Tally, float], Estimates]

INVERSIONS: tuple[tuple[tuple[type, ...], Inversion], ...] = (
    (
        (
            RandomizedResponse,
            GeneralizedRandomizedResponse,
            UnaryEncoding,
            MultiHotUnary,
            PaddingAndSampling,
            SubsetSelection,
        ),
        shares.estimates,
    ),
    ((MemoizedGeneralizedRandomizedResponse, MemoizedUnary), shares.estimates),
    ((DBitFlip,), asked_by_cohort.estimates),
    ((LocalHashing, HadamardResponse, Loloha), hashed.estimates),
    ((OneBitMean, NumberGrid), means.estimates),
    ((SquareWave,), distribution.estimates),
    ((HierarchicalHistogram,), tree.estimates),
    ((Rappor, CountMeanSketch, HadamardCountMeanSketch), candidates.estimates),
    ((BlockHadamardResponse,), blocks.estimates),
    ((Exponential,), matrix.estimates),
)
"""Which classes of mechanisms are inverted in which way."""


def estimate(metric: Described, tally: Tally, level: float = 0.95) -> Estimates:
    """Estimate the shares of all values of a metric.

    Args:
        metric: Its labels or candidates, and the channel that produced the tally.
        tally: Sums of one fingerprint and epoch.
        level: Coverage of the intervals, in (0, 1).

    Raises:
        ValueError: `level` is not in (0, 1), or the tally has another shape than the channel.
        DecodeError: The candidates cannot be told apart.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got level={level}")
    shape = (metric.mechanism.cohorts, metric.mechanism.cells)
    if tally.counts.shape != shape or tally.reports.shape != shape[:1]:
        raise ValueError(f"the tally must have shape {shape}, got {tally.counts.shape}")
    return _inversion_of(metric.mechanism)(metric, tally, level)


def _inversion_of(mechanism: Mechanism) -> Inversion:
    return next(inversion for kinds, inversion in INVERSIONS if isinstance(mechanism, kinds))

"""From a mechanism to its law: the errors and shifts that a release will state, before reports.

Where the shares of others matter they are supposed to be even. Of strings it matters which other
ones are held: see `Unlisted`.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from client_sdk.mechanisms import (
    BlockHadamardResponse,
    DBitFlip,
    Exponential,
    HierarchicalHistogram,
    Loloha,
    Mechanism,
    MemoizedUnary,
    NumberGrid,
    OneBitMean,
    Rappor,
    SquareWave,
)
from client_sdk.mechanisms.memoized_generalized_randomized_response import MemoizedCells
from estimator import uncertainty
from estimator.debias import Channel, Floats
from estimator.decode import design_for
from estimator.inversion import asked_by_cohort, blocks, means, scores, tree
from estimator.least_squares import moments, solve
from estimator.planning.laws import Law, MeanLaw, ShareLaw
from estimator.plausibility import worst_move, worst_shift
from estimator.sketch_noise import sketch_of
from estimator.uncertainty import collision_variance


class Unlisted(NamedTuple):
    """Strings that are held and that nobody listed; they collide with candidates.

    Attributes:
        shares: Of each; what they and a candidate leave of 1 is scattered over rare ones.
    """

    shares: tuple[float, ...] = (0.01,) * 5


def law_of(
    mechanism: Mechanism, candidates: Sequence[str] = (), unlisted: Unlisted | None = None
) -> Law | None:
    """Return how exact reports of a mechanism are.

    Args:
        mechanism: Any.
        candidates: For strings, what is looked for: at least one.
        unlisted: For strings; by default five of 1 % each.

    Returns:
        None where no formula says it: estimates that are smoothed are biased.

    Raises:
        DecodeError: The candidates cannot be told apart.
    """
    if isinstance(mechanism, SquareWave):
        return None
    if mechanism.encodes == "number":
        return _of_mean(mechanism)
    if mechanism.encodes == "string":
        return _of_strings(mechanism, tuple(candidates), unlisted or Unlisted())
    for kind, law in _LAWS:
        if isinstance(mechanism, kind):
            return law(mechanism)
    return ShareLaw(worst_shift(mechanism), Channel.of_values(mechanism))


def remembered_law(
    mechanism: Mechanism, candidates: Sequence[str] = (), unlisted: Unlisted | None = None
) -> Law | None:
    """Return how exact the average of endlessly many epochs is, where no value changes.

    Fresh noise is averaged out and remembered noise stays: that of the first stage alone. The
    reports of the law are then devices, each of them once.

    Returns:
        None where nothing is remembered: then every epoch adds as much as the first.
    """
    if isinstance(mechanism, DBitFlip):
        return _of_asked(mechanism)
    if isinstance(mechanism, Rappor):
        channel = Channel.from_probabilities(mechanism.stages.set, mechanism.stages.unset)
        return _of_strings(mechanism, tuple(candidates), unlisted or Unlisted(), channel)
    if isinstance(mechanism, MemoizedUnary):
        channel = Channel.from_probabilities(mechanism.stages.set, mechanism.stages.unset)
    elif isinstance(mechanism, MemoizedCells):
        keep, leave = mechanism.stages.keep, mechanism.stages.leave
        together = mechanism.hashing.collision if isinstance(mechanism, Loloha) else Fraction(0)
        channel = Channel.from_probabilities(keep, together * keep + (1 - together) * leave)
    else:
        return None
    return ShareLaw(worst_move(channel), channel)


def _of_asked(mechanism: Mechanism) -> Law:
    assert isinstance(mechanism, DBitFlip)
    shift = asked_by_cohort.worst_shift(mechanism)
    return ShareLaw(shift, Channel.of(mechanism), float(mechanism.asked))


def _of_matrix(mechanism: Mechanism) -> Law:
    """Of the value that is known worst where the others are held evenly."""
    rows = scores.channel_rows(mechanism)
    found = scores.unbiased_scores(rows)
    values = len(rows)
    second = found**2 @ rows.T  # of the score of each value, under each truth
    others = (second.sum(axis=1) - np.diag(second)) / (values - 1)
    worst = int(np.argmax(others))

    def scaled(share: float) -> float:
        return float((1 - share) * others[worst] + share * second[worst, worst] - share**2)

    return ShareLaw.of_variances(scaled, scores.worst_shift_of(found))


def _of_blocks(mechanism: Mechanism) -> Law:
    assert isinstance(mechanism, BlockHadamardResponse)
    domain = mechanism.domain or 0
    even = np.full(domain, 1 / domain)
    worst = int(np.argmax(blocks.variance_reporters(even, mechanism)))

    def scaled(share: float) -> float:
        noise = blocks.variance_reporters(_held(domain, worst, share), mechanism)[worst]
        return float(noise) + share * (1 - share)

    return ShareLaw.of_variances(scaled, blocks.worst_shift(mechanism))


def _of_tree(mechanism: Mechanism) -> Law:
    """Of the leaf that is known worst, once all levels agree."""
    assert isinstance(mechanism, HierarchicalHistogram)
    sums = tree_of(mechanism)
    leaves = mechanism.cells
    worst = int(np.argmax(sums.errors(np.full(leaves, 1 / leaves))[0]))
    one = sums.between(worst, worst)
    reports = float(sums.reports.sum())

    def scaled(share: float) -> float:
        return float(one.errors(_held(leaves, worst, share))[0][0]) ** 2 * reports

    return ShareLaw.of_variances(scaled, sums.worst_shift())


def tree_of(mechanism: HierarchicalHistogram) -> tree.Sums:
    """Return the leaves by least squares where all levels have as many reports."""
    return tree.fit(mechanism, np.full(mechanism.cohorts, 1_000_000, np.int64))


def _held(values: int, one: int, share: float) -> Floats:
    """Return shares: `share` of one value, the rest of all others alike."""
    held = np.full(values, (1 - share) / (values - 1))
    held[one] = share
    return held


def _of_mean(mechanism: Mechanism) -> Law:
    if isinstance(mechanism, OneBitMean):
        channel = Channel.of(mechanism)

        def of_bit(part: float) -> float:
            return float(uncertainty.variance_population(part, 1, channel))

        return MeanLaw(means.worst_shift(mechanism), mechanism.rare_variance, of_bit)
    assert isinstance(mechanism, NumberGrid)
    steps = mechanism.steps

    def of_grid(part: float) -> float:
        """Between two points: rounded up or down by chance, which adds its own variance."""
        place = Fraction(part) * steps
        below = min(int(place), steps - 1)
        up = place - below
        noise = (1 - up) * mechanism.noise(below) + up * mechanism.noise(below + 1)
        return float((noise + up * (1 - up)) / steps**2)

    return MeanLaw(means.worst_shift(mechanism), mechanism.rare_variance, of_grid)


def _of_strings(
    mechanism: Mechanism,
    candidates: tuple[str, ...],
    unlisted: Unlisted,
    instead: Channel | None = None,
) -> Law:
    """Of the candidate that is known worst; `instead` of the sketch's own channel, if given."""
    design, sketch = design_for(mechanism, candidates), sketch_of(mechanism)
    channel, rows = instead or sketch.channel, design.matrix.shape[0]
    # One report per cohort: all variances are proportional to 1/n but that of collisions.
    one = np.ones(sketch.rows, np.int64)
    variance = np.full(rows, float(uncertainty.variance_population(design.density, 1, channel)))
    inverse = solve(design, np.zeros(rows), variance).inverse

    def at(shares: Floats) -> tuple[Floats, Floats, Floats]:
        found = moments(design, inverse, variance, reports=one, shares=shares, channel=channel)
        return found.population[:-1] * sketch.rows, found.spread[:-1], found.leaning[:-1]

    rare, spread, leaning = at(np.zeros(len(candidates)))
    worst = int(np.argmax(rare))
    # Of the errors of cells that a candidate alone would have; further candidates raise it.
    alone = 1 / (sketch.rows * sketch.own * max(1 - design.density, np.finfo(float).tiny))
    endless = collision_variance(unlisted.shares, 1e15, sketch.cells, sketch.rows)

    def scaled(share: float) -> float:
        if share == 0:
            return float(rare[worst])
        held = np.zeros(len(candidates))
        held[worst] = share
        return float(at(held)[0][worst])

    shift = float(leaning.max()) * worst_move(channel)
    return ShareLaw.of_variances(scaled, shift, endless * float(spread[worst]) / alone)


_LAWS: tuple[tuple[type[Mechanism], Callable[[Mechanism], Law]], ...] = (
    (DBitFlip, _of_asked),
    (Exponential, _of_matrix),
    (BlockHadamardResponse, _of_blocks),
    (HierarchicalHistogram, _of_tree),
)

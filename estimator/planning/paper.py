"""Before a survey on paper: errors, how many answers a margin takes, power, and the price of noise.

All follow from the variance of an estimate from one answer. With l the shares of a sample's reports
and s their scores it is the sum of l s^2 less the square of the sum of l s, for each sample, times
the number of samples (of equal size).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from estimator.designs.base import Design, DesignError, Matrix
from estimator.designs.item_count import ItemCount
from estimator.designs.unrelated_unknown import UnrelatedUnknown
from estimator.uncertainty import normal_quantile

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Outlook:
    """What so many answers of one design will tell of a share.

    Attributes:
        share: The true share that is supposed, in 0..1.
        n: Answers, over all samples.
        standard_error: Of the estimated share.
        margin: Half of an interval at the level.
        worst_margin: The same at the share where it is widest.
        worst_share: That share.
        worth: How many direct answers would have the same standard error, at this share.
    """

    share: float
    n: int
    standard_error: float
    margin: float
    worst_margin: float
    worst_share: float
    worth: float


def variance_of_one(design: Design, share: float, harmless: Fraction = HALF) -> float:
    """Return n times the variance of an estimated share at a true one.

    Args:
        design: What people follow; they are supposed to keep to it.
        share: Of those who hold it; of several answers that of the first, the rest being even.
        harmless: The rate of what the design does not state: of an unrelated question, or of each
            statement of an item count, which are supposed to be independent.
    """
    if not 0 <= share <= 1:
        raise DesignError(f"share must be in 0..1, got {share}")
    truths = _truths(design, share)
    total = 0.0
    for sample in range(len(design.samples)):
        rows = [[float(chance) for chance in row] for row in _matrix(design, sample, harmless)]
        scores = [float(score) for score in design.scores(design.figures[0])[sample]]
        law = [
            math.fsum(weight * row[report] for weight, row in zip(truths, rows, strict=True))
            for report in range(len(scores))
        ]
        mean = math.fsum(chance * score for chance, score in zip(law, scores, strict=True))
        total += math.fsum(
            chance * (score - mean) ** 2 for chance, score in zip(law, scores, strict=True)
        )
    return total * len(design.samples)


def outlook(
    design: Design, share: float, n: int, *, level: float = 0.95, harmless: Fraction = HALF
) -> Outlook:
    """Return what n answers will tell.

    Args:
        design: What people follow.
        share: The true share that is supposed.
        n: Answers, at least 1; samples are of equal size.
        level: Of the margin.
        harmless: See `variance_of_one`.
    """
    if n < 1:
        raise DesignError(f"answers must be at least 1, got {n}")
    z = normal_quantile(level)
    error = math.sqrt(variance_of_one(design, share, harmless) / n)
    where = _worst_share(design, harmless)
    worst = z * math.sqrt(variance_of_one(design, where, harmless) / n)
    return Outlook(
        share, n, error, z * error, worst, where, worth(design, share, n, harmless=harmless)
    )


def worth(design: Design, share: float, n: int, *, harmless: Fraction = HALF) -> float:
    """Return how many direct answers tell as much: n * share (1 - share) / (n Var(estimate)).

    A direct answer has the variance share (1 - share). At a share of 0 or 1 that is 0, and so is
    the worth: a few direct answers would tell as much as any number of randomized ones. Where both
    variances are 0, answers are worth themselves.
    """
    direct, own = share * (1 - share), variance_of_one(design, share, harmless)
    return n * direct / own if own else float(n)


def answers_for_margin(
    design: Design,
    share: float,
    margin: float,
    *,
    level: float = 0.95,
    harmless: Fraction = HALF,
) -> int:
    """Return how many answers give an interval of share -+ margin at a true share."""
    if not 0 < margin < 1:
        raise DesignError(f"margin must be in 0..1, got {margin}")
    needed = variance_of_one(design, share, harmless) * (normal_quantile(level) / margin) ** 2
    # A margin met exactly must not cost one answer more.
    return max(1, math.ceil(needed * (1 - 1e-12)))


def power(
    design: Design,
    shares: tuple[float, float],
    n: int,
    *,
    level: float = 0.95,
    harmless: Fraction = HALF,
) -> float:
    """Return how probably a two-sided test calls the shares of two groups different.

    As `power.rr.test(type = "two.sample", alternative = "two.sided")` of the R package rr 1.4
    (Blair, Imai and Zhou, JASA 110, 2015): the threshold by the error if both had the first share,
    the power by the errors at both, both normal.

    Args:
        design: Of both groups.
        shares: The true ones.
        n: Answers of each group.
        level: 1 less the level of significance.
        harmless: See `variance_of_one`.
    """
    one, other = (variance_of_one(design, share, harmless) for share in shares)
    null, error = math.sqrt(2 * one / n), math.sqrt((one + other) / n)
    threshold = normal_quantile(level) * null
    difference = shares[1] - shares[0]
    return _normal((difference - threshold) / error) + _normal((-difference - threshold) / error)


def answers_for_power(
    design: Design,
    shares: tuple[float, float],
    wanted: float,
    *,
    level: float = 0.95,
    harmless: Fraction = HALF,
) -> int:
    """Return how many answers of each group give at least a power.

    Raises:
        DesignError: The shares are equal, or the power is not above the level of significance.
    """
    if shares[0] == shares[1]:
        raise DesignError("difference must not be 0: equal shares are never told apart")
    if not 1 - level < wanted < 1:
        raise DesignError(f"power must be in {1 - level:g}..1, got {wanted}")

    def enough(n: int) -> bool:
        return power(design, shares, n, level=level, harmless=harmless) >= wanted

    most = 1
    while not enough(most):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def _normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def _truths(design: Design, share: float) -> Sequence[float]:
    count = len(design.truths)
    if design.truths == ("no", "yes"):
        return (1 - share, share)
    return (share, *((1 - share) / (count - 1),) * (count - 1))


def _matrix(design: Design, sample: int, harmless: Fraction) -> Matrix:
    if isinstance(design, UnrelatedUnknown):
        return design.at(harmless)[sample].matrix()
    if isinstance(design, ItemCount):
        counts = [
            math.comb(design.items, k) * harmless**k * (1 - harmless) ** (design.items - k)
            for k in range(design.items + 1)
        ]
        zero = Fraction(0)
        return ((*counts, zero), (zero, *counts)) if sample else (tuple(counts),) * 2
    matrix = design.matrix(sample)
    assert matrix is not None
    return matrix


def _worst_share(design: Design, harmless: Fraction) -> float:
    """Return where the variance is largest: it is a parabola in the share, open below."""
    low, middle, high = (variance_of_one(design, share, harmless) for share in (0.0, 0.5, 1.0))
    bend = 2 * (low + high - 2 * middle)
    slope = high - low - bend
    if bend >= 0:
        return 0.0 if low >= high else 1.0
    return min(1.0, max(0.0, -slope / (2 * bend)))

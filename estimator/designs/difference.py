"""Do groups differ? Differences of independent estimates, and one test of all groups together.

Groups are respondents apart, so variances add. The interval joins the groups' own intervals of
Wilson's kind by squaring and adding distances (Newcombe 1998; Zou and Donner, "Construction of
Confidence Limits About Effect Measures", 2008). Tests use the normal law; several differences are
not adjusted for their number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from estimator.designs.linear import Ends, Figure
from estimator.uncertainty import normal_quantile


@dataclass(frozen=True)
class Difference:
    """One group's estimate less that of the group it is compared with.

    Attributes:
        estimate: Of the difference.
        standard_error: Of it.
        normal: estimate -+ z standard errors.
        interval: Of Wilson's kind, where both groups have one.
        p_value: Two-sided: of such a difference or a larger one, if there is none. None where all
            answers of each group are alike: then no error is known by which to test.
        name: Of the figure that is compared.
    """

    estimate: float
    standard_error: float
    normal: Ends
    interval: Ends | None
    p_value: float | None
    name: str = "share"


def difference(of: Figure, to: Figure, *, level: float = 0.95) -> Difference:
    """Compare the same figure of two groups."""
    value = of.estimate - to.estimate
    error = math.hypot(of.standard_error, to.standard_error)
    half = normal_quantile(level) * error
    ends = None
    if of.interval and to.interval:
        below = math.hypot(of.estimate - of.interval[0], to.interval[1] - to.estimate)
        above = math.hypot(of.interval[1] - of.estimate, to.estimate - to.interval[0])
        ends = (value - below, value + above)
    p_value = float(2 * stats.norm.sf(abs(value) / error)) if error > 0 else None
    return Difference(value, error, (value - half, value + half), ends, p_value, of.name)


@dataclass(frozen=True)
class Homogeneity:
    """Whether all groups may have one share: chi-square with groups - 1 degrees of freedom."""

    chi_square: float
    degrees: int
    p_value: float
    name: str = "share"


def homogeneity(figures: Sequence[Figure]) -> Homogeneity | None:
    """Compare the same figure of all groups at once; None if one has no error to weigh it by."""
    if any(figure.standard_error == 0 for figure in figures):
        return None
    weights = [figure.standard_error**-2 for figure in figures]
    pooled = math.fsum(
        weight * figure.estimate for weight, figure in zip(weights, figures, strict=True)
    ) / math.fsum(weights)
    chi_square = math.fsum(
        weight * (figure.estimate - pooled) ** 2
        for weight, figure in zip(weights, figures, strict=True)
    )
    degrees = len(figures) - 1
    return Homogeneity(
        chi_square, degrees, float(stats.chi2.sf(chi_square, degrees)), figures[0].name
    )

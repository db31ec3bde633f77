"""Estimates as means of scores: one computation for every design, with weights, strata, population.

Within a stratum, a figure is the sum over samples of the mean score; over strata, the sum of
theirs weighted by the strata's sizes. Samples are independent, so variances add.

Finite population (one sample, N people): answers are drawn without replacement, but the noise is
fresh for each. With r a respondent's score, the variance is (1 - n/N) s_r^2 / n + mean(r (r - 1))
/ N (Chaudhuri and Mukerjee, "Randomized Response", 1988; so does the R package RRTCS). For a
direct question the second term is 0, and the usual correction remains. Of two samples that are
one sample divided by chance, scores of the share add up to the truth, and so the variance loses
share (1 - share) / N; other figures and ratios keep theirs, which is a little too large.

Intervals of Wilson's kind are built for the shares of reports and mapped through the design.
Several (samples, strata) are joined by squaring and adding distances (Newcombe, "Interval
Estimation for the Difference Between Independent Proportions", 1998; Zou and Donner 2008). They
describe n respondents: a finite population does not narrow them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from estimator.debias import Channel, Floats
from estimator.designs.base import Design, DesignError, YesNo
from estimator.designs.sample import Sample
from estimator.designs.verdict import INSIDE, Verdict, binomial_tail, judge
from estimator.uncertainty import Method, interval, normal_quantile

Divisor = Literal["n", "n-1"]
Ends = tuple[float, float]

_ITSELF = Channel(1.0, 0.0, 1.0)
"""A share of reports about itself: intervals are mapped later, score by score."""


@dataclass(frozen=True)
class Stratum:
    """A part of the population that was sampled apart.

    Attributes:
        samples: One for each of the design's.
        size: People in it; None if unknown.
        name: For errors.
        design: How its people were asked, if not like the others: the same design with other
            parameters, as on paper and in a browser.
    """

    samples: tuple[Sample, ...]
    size: int | None = None
    name: str = "all"
    design: Design | None = None


@dataclass(frozen=True)
class Figure:
    """One estimated number.

    Attributes:
        name: "share", or what else the design estimates.
        estimate: Unclipped.
        standard_error: Of it.
        normal: estimate -+ z standard errors, as most papers print it.
        interval: Of Wilson's kind; None where a report is worth more than two different scores.
        verdict: Whether it can be a share.
    """

    name: str
    estimate: float
    standard_error: float
    normal: Ends
    interval: Ends | None
    verdict: Verdict = INSIDE


@dataclass(frozen=True)
class _Part:
    """What one sample of one stratum adds to a figure."""

    mean: float
    variance: float
    ends: Ends | None

    def weighted(self, weight: float) -> "_Part":
        """Return what it adds over strata."""
        ends = self.ends and (weight * self.ends[0], weight * self.ends[1])
        return _Part(weight * self.mean, weight**2 * self.variance, ends)


def estimate(
    design: Design,
    strata: Sequence[Stratum],
    *,
    level: float = 0.95,
    divisor: Divisor = "n-1",
    finite: bool = False,
    method: Method = "wilson",
) -> tuple[Figure, ...]:
    """Estimate all figures of a design.

    Args:
        design: How people were asked in strata that do not say so themselves.
        strata: One, or several with their sizes.
        level: Of the intervals.
        divisor: Whether variances divide by n or by n - 1, with as many respondents in a sample.
        finite: Whether to correct for a finite population of the strata's sizes.
        method: "wilson", or "clopper_pearson" for intervals that never cover less than `level`.

    Raises:
        DesignError: Sizes are missing or too small, or a correction does not exist.
    """
    _check(design, strata, finite, divisor)
    known = [stratum.size for stratum in strata if stratum.size is not None]
    shares = [size / sum(known) for size in known] if len(strata) > 1 else [1.0]
    figures = []
    for name in design.figures:
        parts = [
            part.weighted(weight)
            for weight, stratum in zip(shares, strata, strict=True)
            for part in _parts(
                stratum.design or design, name, stratum, level, divisor, finite, method
            )
        ]
        value = math.fsum(part.mean for part in parts)
        error = math.sqrt(max(0.0, math.fsum(part.variance for part in parts)))
        ends = [part.ends for part in parts if part.ends is not None]
        joined = None if len(ends) < len(parts) else _joined(value, parts, ends)
        verdict = _verdict(design, name, strata, shares, value, error)
        figures.append(Figure(name, value, error, _normal(value, error, level), joined, verdict))
    ratios = [_ratio(design, name, strata, shares, level, divisor) for name in design.ratios]
    return (*figures, *(ratio for ratio in ratios if ratio is not None))


def _check(design: Design, strata: Sequence[Stratum], finite: bool, divisor: Divisor) -> None:
    if len(strata) > 1 or finite:
        for stratum in strata:
            if stratum.size is None:
                raise DesignError(f"stratum {stratum.name!r} needs its size in the population")
            n = sum(sample.n for sample in stratum.samples)
            if stratum.size < n:
                raise DesignError(
                    f"stratum {stratum.name!r} has {n} answers, more than its {stratum.size} people"
                )
    if divisor == "n-1" and any(s.n < 2 for stratum in strata for s in stratum.samples):
        raise DesignError("a variance with n - 1 needs two answers in each sample and stratum")


def _scores(design: Design, name: str, number: int) -> Floats:
    return np.array([float(score) for score in design.scores(name)[number]])


def _spread(sample: Sample, divisor: Divisor) -> float:
    return sample.n / (sample.n - 1) if divisor == "n-1" else 1.0


def _parts(
    design: Design,
    name: str,
    stratum: Stratum,
    level: float,
    divisor: Divisor,
    finite: bool,
    method: Method,
) -> list[_Part]:
    parts = []
    for number, sample in enumerate(stratum.samples):
        scores = _scores(design, name, number)
        variance = float(scores @ sample.covariance @ scores) * _spread(sample, divisor)
        ends = _mapped(scores, sample, level, method)
        parts.append(_Part(float(scores @ sample.shares), variance, ends))
    if finite and stratum.size is not None:
        less = _finite(design, name, stratum, parts) / stratum.size
        variance = math.fsum(part.variance for part in parts)
        parts[0] = replace(parts[0], variance=parts[0].variance - min(less, variance))
    return parts


def _finite(design: Design, name: str, stratum: Stratum, parts: Sequence[_Part]) -> float:
    """Return what the variance of a stratum loses because its population is finite, times that."""
    if len(parts) > 1:
        mean = math.fsum(part.mean for part in parts)
        return max(0.0, mean * (1 - mean)) if name == design.figures[0] else 0.0
    (sample,) = stratum.samples
    scores = _scores(design, name, 0)
    return sample.n * parts[0].variance - float((scores * (scores - 1)) @ sample.shares)


def _verdict(
    design: Design,
    name: str,
    strata: Sequence[Stratum],
    shares: Sequence[float],
    value: float,
    error: float,
) -> Verdict:
    """Judge a figure by what honest answers do at the border, counted exactly where that can be."""
    if 0 <= value <= 1:
        return INSIDE
    sample, asked = strata[0].samples[0], strata[0].design or design
    if len(strata) == 1 and isinstance(asked, YesNo) and sample.whole:
        yes = round(float(sample.shares[1]) * sample.n)
        return judge(value, error, binomial_tail(asked, sample.n, yes))
    variance = 0.0
    for weight, stratum in zip(shares, strata, strict=True):
        own = stratum.design or design
        laws = _laws_at_border(own, name, 0 if value < 0 else 1)
        for number, part in enumerate(stratum.samples):
            scores = _scores(own, name, number)
            spread = max(
                float(law @ scores**2 - (law @ scores) ** 2) for law in laws or [part.loosened()]
            )
            variance += weight**2 * spread / part.kish
    honest = math.sqrt(variance)
    return judge(value, honest if laws else max(error, honest))


def _laws_at_border(design: Design, name: str, border: int) -> list[Floats]:
    """Return what honest respondents report of whom nobody (or everybody) has it, by truth.

    Empty where that depends on what only the answers tell.
    """
    matrix = design.matrix() if len(design.samples) == 1 else None
    if matrix is None:
        return []
    own = design.truths.index(name) if name in design.truths else 1
    return [
        np.array(row, np.float64) for truth, row in enumerate(matrix) if (truth == own) == border
    ]


def _mapped(scores: Floats, sample: Sample, level: float, method: Method) -> Ends | None:
    """Return the interval of the mean of scores of two kinds; None if there are more kinds."""
    high, low = scores.max(), scores.min()
    if high == low:
        return float(high), float(high)
    top = np.isclose(scores, high)
    if not np.all(top | np.isclose(scores, low)):
        return None
    share = float(sample.shares[top].sum())
    n = sample.effective(top)
    lower, upper = interval(share * n, n, _ITSELF, level=level, method=method)
    return float(low + (high - low) * lower), float(low + (high - low) * upper)


def _joined(value: float, parts: Sequence[_Part], ends: Sequence[Ends]) -> Ends:
    below = math.hypot(*(part.mean - low for part, (low, _) in zip(parts, ends, strict=True)))
    above = math.hypot(*(high - part.mean for part, (_, high) in zip(parts, ends, strict=True)))
    return value - below, value + above


def _normal(value: float, error: float, level: float) -> Ends:
    half = normal_quantile(level) * error
    return value - half, value + half


def _ratio(
    design: Design,
    name: str,
    strata: Sequence[Stratum],
    shares: Sequence[float],
    level: float,
    divisor: Divisor,
) -> Figure | None:
    """Estimate a ratio of two figures, its error by the delta method.

    None where the divisor is not told from 0: then the ratio may be anything, and has no error.
    """
    means, covariance = np.zeros(2), np.zeros((2, 2))
    for weight, stratum in zip(shares, strata, strict=True):
        for number, sample in enumerate(stratum.samples):
            own = stratum.design or design
            both = np.array([_scores(own, each, number) for each in own.ratios[name]])
            means += weight * both @ sample.shares
            covariance += weight**2 * both @ sample.covariance @ both.T * _spread(sample, divisor)
    if means[1] <= normal_quantile(level) * math.sqrt(max(0.0, covariance[1, 1])):
        return None
    value = float(means[0] / means[1])
    slopes = np.array([1, -value]) / means[1]
    error = math.sqrt(max(0.0, float(slopes @ covariance @ slopes)))
    return Figure(name, value, error, _normal(value, error, level), None, judge(value, error))

"""How improbable it is that an estimator which works looks like this: p-values, all one-sided.

Values of one epoch depend on each other; epochs do not. Each function says what it assumes of the
former. Counts are taken for normal, except where a function says it is exact.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, stats

from client_sdk.mechanisms import (
    MEMOIZED,
    GeneralizedRandomizedResponse,
    OptimizedUnary,
    RandomizedResponse,
    SymmetricUnary,
)
from estimator import uncertainty
from estimator.debias import Channel, Floats


def _with_memory(*names: str) -> frozenset[str]:
    return frozenset((*names, *(MEMOIZED[name] for name in names if name in MEMOIZED)))


YES_OR_NO = frozenset({RandomizedResponse.name})
"""One bit; with memory yes and no have a cell each."""
ONE_CELL = _with_memory(GeneralizedRandomizedResponse.name)
"""A report is one cell, and each value has one: counts are multinomial."""
OWN_BITS = _with_memory(SymmetricUnary.name, OptimizedUnary.name)
"""Each value has a bit of its own, independent of the others given who holds what."""


def is_exact(mechanism: str | None, type: str) -> bool:
    """Return whether supports of values have the law that the exact statistics below assume.

    One value per device, one cell or bit per value, and the two published probabilities are those
    of a value. Of all others (hashes, several supports per report, options that may be chosen
    together) nothing is assumed of how values of an epoch depend on each other.
    """
    return type != "multi_select" and mechanism in YES_OR_NO | ONE_CELL | OWN_BITS


def independent_values(mechanism: str, values: int, type: str = "category") -> int | None:
    """Return for how many independent values of one epoch all of them count.

    Yes and no are one event. The counts of one chosen cell each add up to n, which leaves one
    less. Independent bits leave errors that hardly depend on each other: a covariance of -f g / n
    beside variances that noise makes many times larger. None where anything may be.
    """
    if not is_exact(mechanism, type):
        return None
    if mechanism in YES_OR_NO:
        return 1
    return values - 1 if mechanism in ONE_CELL else values


def miss_probability(truth: Floats, n: int, channel: Channel, level: float) -> float:
    """Return with which probability a Wilson interval misses, on average over true shares. Exact.

    It holds the truth just where the count is within z standard deviations of its mean.
    """
    z = uncertainty.normal_quantile(level)
    lam = channel.support(truth)
    reach = z * np.sqrt(n * lam * (1 - lam))
    below = stats.binom.cdf(np.ceil(n * lam - reach) - 1, n, lam)
    above = stats.binom.sf(np.floor(n * lam + reach), n, lam)
    return float(np.mean(below + above))


def too_many_misses(
    missed: Sequence[int], values: int, independent: int | None, expected: float
) -> float:
    """Return the probability that intervals miss the truth so often or more often.

    Args:
        missed: Per epoch, how many of its intervals miss.
        values: Intervals per epoch.
        independent: For how many they count, `independent_values`. With None anything may depend
            on anything: then an epoch's part of misses is any variable in [0, 1], and the tail of
            the sum is at most e times the binomial one (Bentkus, "On Hoeffding's inequalities",
            Annals of Probability 2004).
        expected: Probability that one misses.
    """
    epochs, part = len(missed), sum(missed) / values
    if independent is None:
        tail = stats.binom.sf(math.floor(part) - 1, epochs, expected)
        return min(1.0, math.e * float(tail))
    found = math.floor(part * independent + 1e-9)
    return float(stats.binom.sf(found - 1, epochs * independent, expected))


def squared_error(
    errors: Floats, truth: Floats, n: int, channel: Channel, mechanism: str
) -> tuple[float, int]:
    """Return the errors of one epoch as a chi-square statistic at the truth, and its freedom.

    Args:
        errors: Estimate minus truth, all values of a closed domain.
        truth: True shares, adding up to one.
        n: Reports.
        channel: What the reports went through.
        mechanism: Its name, one that `is_exact`.
    """
    if mechanism in YES_OR_NO:  # "no" repeats "yes"
        variance = uncertainty.variance_population(truth[-1], n, channel)
        return float(errors[-1] ** 2 / variance), 1
    if mechanism in ONE_CELL:
        # Pearson's, of a multinomial. Its sum is not assumed to be right: all errors count.
        lam = channel.support(truth)
        return float(np.sum(n * channel.gap**2 * errors**2 / lam)), len(errors) - 1
    spread = uncertainty.covariance(truth, n, channel, "bits", population=True)
    return float(errors @ np.linalg.solve(spread, errors)), len(errors)


def too_large_errors(
    errors: Sequence[Floats], truth: Floats, ns: Sequence[int], channel: Channel, mechanism: str
) -> float:
    """Return the probability of errors so large or larger, in a closed domain.

    Two looks, by Bonferroni: at each epoch's errors, which finds noise that is too strong, and at
    the errors of all reports together, which finds a bias that single epochs hide.

    Args:
        errors: Per epoch, estimate minus truth.
        truth: True shares, the same in all epochs.
        ns: Per epoch, reports.
        channel: What the reports went through.
        mechanism: Its name.
    """
    parts = [
        squared_error(each, truth, n, channel, mechanism)
        for each, n in zip(errors, ns, strict=True)
    ]
    apart = stats.chi2.sf(sum(part for part, _ in parts), sum(free for _, free in parts))
    mean = np.average(np.array(errors), axis=0, weights=np.array(ns))
    together = stats.chi2.sf(*squared_error(mean, truth, sum(ns), channel, mechanism))
    return min(1.0, 2 * float(min(apart, together)))


def too_large_scores(scores: Sequence[Floats]) -> float:
    """Return the same of errors in standard errors, whatever depends on what within an epoch.

    Of each epoch the largest counts, by Bonferroni, and epochs are joined by Fisher's method; of
    all together the value that is off by most, also by Bonferroni.
    """
    rows = np.array(scores)
    epochs, values = rows.shape
    tails = np.minimum(1, 2 * values * stats.norm.sf(np.abs(rows).max(axis=1)))
    apart = stats.chi2.sf(-2 * np.log(np.maximum(tails, 1e-300)).sum(), 2 * epochs)
    most = float(np.abs(rows.sum(axis=0)).max()) / math.sqrt(epochs)
    together = 2 * values * stats.norm.sf(most)
    return min(1.0, 2 * float(min(apart, together)))


def too_small_errors(
    ratios: Sequence[Floats], truth: Floats, ns: Sequence[int], channel: Channel
) -> float:
    """Return the probability that stated variances are so small or smaller, beside the true ones.

    Args:
        ratios: Per epoch, stated variance over true variance of each value.
        truth: True shares, the same in all epochs.
        ns: Per epoch, reports.
        channel: What the reports went through.

    Within an epoch any dependence: the spreads add up as if all were one.
    """
    spreads = []
    lam = channel.support(truth)
    for n in ns:
        # d log(lam (1 - lam)) / d lam, times the standard deviation of lam. The next term is
        # (1 - chi-square) / n, which alone falls below -22 / n once in 600,000 times.
        first = np.abs(1 - 2 * lam) / np.sqrt(n * lam * (1 - lam))
        spreads.append(float(np.mean(first)) + 6 / n)
    mean = float(np.mean([np.mean(each) for each in ratios]))
    spread = math.sqrt(sum(s * s for s in spreads)) / len(spreads)
    bias = max(1 / n for n in ns)
    return float(stats.norm.cdf((mean - 1 + bias) / spread))


def below_zero(mass: float, errors: Floats, independent: bool) -> tuple[float, float]:
    """Return the negative mass to expect at most from shares of at least 0, and a bound on p.

    A share of 0 is estimated below zero by s / sqrt(2 pi) on average. The bound is Chernoff's.
    Supports of a closed domain are negatively associated (Joag-Dev and Proschan, "Negative
    Association of Random Variables", 1983: multinomial counts, and increasing functions of
    disjoint sets of them), so the transform of their sum is at most the product. Otherwise the sum
    is taken for one variable as wide as all together, which is the worst dependence there is.

    Args:
        mass: What is below zero, summed.
        errors: Standard errors of the shares.
        independent: Whether supports are negatively associated: one cell or bit per value.
    """
    expected = float(errors.sum()) / math.sqrt(2 * math.pi)
    if mass <= expected or not errors.sum():
        return expected, 1.0
    scales = errors if independent else np.array([errors.sum()])

    def log_bound(tilt: float) -> float:
        a = tilt * scales
        # E exp(a max(0, Z)) = 1/2 + exp(a^2 / 2) Phi(a)
        logs = np.logaddexp(math.log(0.5), a * a / 2 + stats.norm.logcdf(a))
        return float(logs.sum()) - tilt * mass

    # Any tilt gives a bound; the largest worth trying belongs to all mass in the widest one.
    most = 2 * mass / float((scales**2).min() or (scales**2).max())
    best = optimize.minimize_scalar(log_bound, bounds=(0, most), method="bounded")
    return expected, math.exp(min(0.0, float(best.fun)))

"""How wrong an estimated share may be: standard errors, intervals, significance, planning.

Two errors exist (reference 0.2). *Population*: reporters are an independent sample and the
population is described; a support count is then exactly Binomial(n, support probability).
*Reporters*: these reporters themselves are described, and only the noise is random.

An interval is built for the support probability and both ends go through the inverse; a share
never enters a binomial formula. Intervals may stick out of [0, 1]; they are not recentred.
Wilson, "Probable Inference" (1927); Clopper and Pearson (1934); Brown, Cai, DasGupta,
"Interval Estimation for a Binomial Proportion" (2001). Every function takes counts as scalars or
arrays and returns arrays of that shape; the number of reports behind each may be an array, too.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from estimator.debias import Channel, Floats

Method = Literal["wilson", "clopper_pearson", "wald"]
Reports = float | NDArray[np.int64]


def normal_quantile(level: float, cells: int = 1) -> float:
    """Return z of a two-sided interval at `level`, simultaneous over `cells` (Bonferroni)."""
    return float(stats.norm.isf((1 - level) / cells / 2))


def standard_error_population(counts: ArrayLike, n: Reports, channel: Channel) -> Floats:
    """Return sqrt(lam (1 - lam) / n) / |gap| at lam = counts / n, for n >= 1 reports."""
    lam = np.asarray(counts, np.float64) / n
    return np.sqrt(lam * (1 - lam) / n) / abs(channel.gap)


def standard_error_reporters(counts: ArrayLike, n: Reports, channel: Channel) -> Floats:
    """Return the error due to noise alone, at the estimated share clipped to [0, 1]."""
    share = np.clip(channel.invert(np.asarray(counts, np.float64) / n), 0, 1)
    return np.sqrt(variance_reporters(share, n, channel))


def design_effects(population: Floats, shares: Floats, n: int) -> list[float | None]:
    """Return each variance as a multiple of f (1 - f) / n, that of n direct answers.

    Kish, "Survey Sampling" (1965). n over it is the number of direct answers with the same error.

    Args:
        population: Standard errors.
        shares: In [0, 1]; None stands where one is 0 or 1.
        n: Reports.
    """
    return [
        float(error**2 * n / (share * (1 - share))) if 0 < share < 1 else None
        for error, share in zip(population, shares, strict=True)
    ]


def signal_to_noise(share: float, error: float) -> float | None:
    """Return a share in standard errors; None if there is no error."""
    return float(share / error) if error > 0 else None


def variance_population(share: ArrayLike, n: float, channel: Channel) -> Floats:
    """Return the variance of the estimate when reporters are a sample, at a true share."""
    lam = channel.support(share)
    return lam * (1 - lam) / (n * channel.gap**2)


def variance_reporters(share: ArrayLike, n: float | NDArray[np.int64], channel: Channel) -> Floats:
    """Return the variance of the estimate when exactly n * share reporters hold the value."""
    f = np.asarray(share, np.float64)
    own = channel.p_true * (1 - channel.p_true)
    others = channel.p_false * (1 - channel.p_false)
    return (f * own + (1 - f) * others) / (n * channel.gap**2)


def collision_variance(
    shares: Sequence[float] | Floats, n: float, cells: int, cohorts: int
) -> float:
    """Return the variance by which other strings' collisions move a value's estimated share.

    On average over hash functions that all devices share, beyond what one random cell for each
    report would give (reference 5.1 and 6.4). Given the functions it is a bias, which more
    reports do not average out: without the decoding of a candidate list it is an error to state.

    Args:
        shares: Of the other strings, as they are held.
        n: Reports.
        cells: Of one hash function.
        cohorts: Groups of devices, each with a hash function of its own.
    """
    held = n * np.asarray(shares, np.float64)
    return float((held**2 - held).sum() / (max(1, cells - 1) * cohorts * n**2))


def interval(
    counts: ArrayLike,
    n: Reports,
    channel: Channel,
    *,
    level: float,
    cells: int = 1,
    method: Method = "wilson",
) -> tuple[Floats, Floats]:
    """Return lower and upper ends of the share's interval.

    Args:
        counts: Supports, 0..n.
        n: Reports, at least 1.
        channel: What the reports went through; with a negative gap the ends change places.
        level: Coverage in (0, 1).
        cells: Number of intervals that are to hold together at `level`.
        method: "wilson" by default; "clopper_pearson" never covers less than `level`; "wald" is
            for comparison with other software, it fails at few supports.
    """
    alpha = (1 - level) / cells
    low, high = _BINOMIAL[method](np.asarray(counts, np.float64), n, alpha)
    ends = channel.invert(low), channel.invert(high)
    return ends if channel.gap > 0 else (ends[1], ends[0])


def simultaneous_interval(
    counts: ArrayLike, n: Reports, channel: Channel, *, level: float, cells: int
) -> tuple[Floats, Floats]:
    """Return intervals of which all `cells` hold together, by Bonferroni.

    Clopper and Pearson's: so far out in the tail Wilson's miss many times more often than they
    say where few supports are expected, and over many cells that adds up. A single one is that of
    `interval`.
    """
    method: Method = "wilson" if cells == 1 else "clopper_pearson"
    return interval(counts, n, channel, level=level, cells=cells, method=method)


def _wilson(counts: Floats, n: Reports, alpha: float) -> tuple[Floats, Floats]:
    z = float(stats.norm.isf(alpha / 2))
    lam = counts / n
    centre = (lam + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(lam * (1 - lam) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return centre - half, centre + half


def _clopper_pearson(counts: Floats, n: Reports, alpha: float) -> tuple[Floats, Floats]:
    # At the ends the beta law degenerates; its limits there are 0 and 1.
    low = np.where(counts > 0, stats.beta.ppf(alpha / 2, np.maximum(counts, 1), n - counts + 1), 0)
    spare = np.maximum(n - counts, 1)
    high = np.where(counts < n, stats.beta.isf(alpha / 2, counts + 1, spare), 1)
    return low, high


def _wald(counts: Floats, n: Reports, alpha: float) -> tuple[Floats, Floats]:
    lam = counts / n
    half = float(stats.norm.isf(alpha / 2)) * np.sqrt(lam * (1 - lam) / n)
    return lam - half, lam + half


_BINOMIAL = {"wilson": _wilson, "clopper_pearson": _clopper_pearson, "wald": _wald}


def significant(
    counts: ArrayLike, n: Reports, channel: Channel, *, level: float, cells: int = 1
) -> NDArray[np.bool_]:
    """Return which counts could hardly come from reporters of whom nobody holds the value.

    One-sided exact binomial tail of the count under p_false, at (1 - level) / cells: over all
    cells together a value that nobody holds is called present with probability <= 1 - level.
    """
    k = np.asarray(counts, np.float64)
    if channel.gap > 0:
        tail = stats.binom.sf(k - 1, n, channel.p_false)
    else:
        tail = stats.binom.cdf(k, n, channel.p_false)
    return np.asarray(tail <= (1 - level) / cells)


def significant_by_normal(
    shares: Floats, errors: Floats, skewness: Floats, *, level: float, cells: int
) -> NDArray[np.bool_]:
    """Return which estimates speak for a value that is there: one-sided, at (1 - level) / cells.

    For estimates that are no single count. The normal quantile is corrected for skewness (Cornish
    and Fisher 1937, first term): far out in the tail the normal law alone fails when reports are
    few and support is rare.

    Args:
        shares: Unbiased estimates.
        errors: Their standard errors about the population.
        skewness: Of their noise; a negative one is taken for none.
        level: Of all `cells` decisions together.
        cells: How many there are.
    """
    z = float(stats.norm.isf((1 - level) / cells))
    corrected = z + (z**2 - 1) * np.maximum(skewness, 0) / 6
    return np.asarray(shares > corrected * errors)


def decision_level(n: float, channel: Channel, *, level: float = 0.95, cells: int = 1) -> float:
    """Return the share above which an estimate is called present (Currie 1968, L_C)."""
    z = float(stats.norm.isf((1 - level) / cells))
    return z * math.sqrt(channel.p_false * (1 - channel.p_false) / n) / abs(channel.gap)


def detection_limit(
    n: float, channel: Channel, *, level: float = 0.95, cells: int = 1, power: float = 0.95
) -> float | None:
    """Return the smallest true share that is called present with probability `power`.

    None if no share up to 1 is: then n reports cannot show this value.
    """
    threshold = decision_level(n, channel, level=level, cells=cells)
    z = float(stats.norm.ppf(power))

    def short_by(share: float) -> float:
        return threshold + z * math.sqrt(variance_population(share, n, channel)) - share

    if short_by(1.0) > 0:
        return None
    return float(optimize.brentq(short_by, 0.0, 1.0, xtol=1e-15, rtol=1e-12))


def counted_decision_level(
    n: float, channel: Channel, *, level: float = 0.95, cells: int = 1
) -> float:
    """Return the share from which on `significant` calls an estimate from a count present.

    Above 1 if it calls none so.
    """
    channel = _rising(channel)
    return float(channel.invert(_called_from(n, channel.p_false, (1 - level) / cells) / n))


def counted_detection_limit(
    n: float, channel: Channel, *, level: float = 0.95, cells: int = 1, power: float = 0.95
) -> float | None:
    """Return the smallest true share that `significant` calls present with probability `power`.

    Few supports are skewed: there the normal `detection_limit` is up to a third too low. That of
    whole supports rises with n wherever one more of them is needed. From the third on the middle
    is taken instead, half a support above where the tail is met, which is within a fifth.
    """
    channel = _rising(channel)
    called = _called_from(n, channel.p_false, (1 - level) / cells)
    if called > n:
        return None
    supports = min(1.0 if called <= 1 else max(2.0, called + 0.5), n)
    share = float(channel.invert(special.betaincinv(supports, n - supports + 1, power)))
    return share if share <= 1 else None


def _rising(channel: Channel) -> Channel:
    """Return the channel, or of a negative gap that of what does not support a value."""
    if channel.gap > 0:
        return channel
    return Channel(1 - channel.p_true, 1 - channel.p_false, -channel.gap)


def _called_from(n: float, p_false: float, alpha: float) -> float:
    """Return from which count on the binomial tail is at most alpha, in (0, n + 1).

    Between whole numbers the tail goes on as the beta law that it is.
    """

    def excess(supports: float) -> float:
        return float(special.betainc(supports, n - supports + 1, p_false)) - alpha

    low, high = 1e-9, (n + 1) * (1 - 1e-12)
    if excess(low) <= 0:
        return low  # no support comes by chance
    if excess(high) >= 0:
        return high
    return float(optimize.brentq(excess, low, high, rtol=1e-12))


def reports_needed(standard_error: float, share: float, channel: Channel) -> int:
    """Return the least n whose population standard error at `share` is at most the target."""
    needed = float(variance_population(share, 1, channel)) / standard_error**2
    # A target met exactly (two coins, 0.01 at 1/2: n = 10000) must not cost one report more.
    return max(1, math.ceil(needed * (1 - 1e-12)))


def worst_standard_error(n: float, channel: Channel) -> float:
    """Return the largest population standard error over all shares: the error to expect at n."""
    ends = sorted((channel.p_true, channel.p_false))
    lam = min(max(0.5, ends[0]), ends[1])
    return math.sqrt(lam * (1 - lam) / n) / abs(channel.gap)


def covariance(
    shares: ArrayLike, n: int, channel: Channel, kind: Literal["cell", "bits"], population: bool
) -> Floats:
    """Return the covariance matrix of all cells' estimates: what a sum of cells needs.

    A response that is one cell makes counts compete; independent bits are uncorrelated given
    the values. The population adds that of the values themselves (reference sections 2 and 3).

    Args:
        shares: True or estimated shares of all cells; they add up to one.
        n: Reports.
        channel: The cells' common channel.
        kind: The mechanism's kind.
        population: Describe the population (True) or these reporters (False).
    """
    f = np.asarray(shares, np.float64)
    sampling = (np.diag(f) - np.outer(f, f)) / n
    if kind == "bits":
        fixed = np.diag(variance_reporters(f, n, channel))
    else:
        p, q = channel.p_true, channel.p_false
        pairs = f[:, None] + f[None, :]
        fixed = -(pairs * p * q + (1 - pairs) * q * q) / (n * channel.gap**2)
        np.fill_diagonal(fixed, variance_reporters(f, n, channel))
    return fixed + sampling if population else fixed

"""Predicted against observed error of a canary: releases whose truth is known.

Errors are those of the unbiased shares. What is too improbable for an estimator that works is an
alarm, in words.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from client_sdk.mechanisms import CATALOGUE
from estimator.canary import evidence
from estimator.canary.truth import Truth
from estimator.debias import Channel, Floats
from estimator.errors import NotPublishable
from estimator.releases.caveats import SMOOTHED
from estimator.releases.release import Release
from estimator.uncertainty import variance_population

ALARM = 0.0001
"""Probability with which an estimator that works raises one of a score's alarms at one look."""


@dataclass(frozen=True)
class Score:
    """How a canary's releases compare with the truth, over values and epochs.

    Attributes:
        metric: Name.
        epochs: ISO 8601 names, oldest first.
        values: Compared per epoch.
        n: Reports in all.
        mean_absolute_error: Of shares; 0.798 standard errors if these are normal and right.
        root_mean_square_error: Of shares, observed.
        predicted_error: Root of the mean squared standard error that releases state.
        predicted_over_observed: 1 is ideal; below, releases promise too much. None without error.
        mean_relative_error: Error over true share, which counts as at least 1 / n.
        coverage: Part of the intervals that hold the truth.
        coverage_interval: Where the part to expect lies, at 95 % (Clopper and Pearson 1934), taking
            as many intervals for independent as `evidence.independent_values` says.
        level: What releases promise it to be.
        signal_to_noise_to_direct: Share over standard error, as part of what as many direct
            answers would have; median over values that somebody holds.
        design_effect: 1 over its square: variance as a multiple of that of direct answers.
        negative_mass: Below zero, mean over epochs.
        p_coverage: Probability of so low a coverage, or lower.
        p_error: Probability of errors so large, or larger.
        p_standard_error: Probability of standard errors so small, or smaller; None where the true
            ones have no closed form: for strings, and unless `evidence.is_exact`.
        alarms: In words.
    """

    metric: str
    epochs: tuple[str, ...]
    values: int
    n: int
    mean_absolute_error: float
    root_mean_square_error: float
    predicted_error: float
    predicted_over_observed: float | None
    mean_relative_error: float
    coverage: float
    coverage_interval: tuple[float, float]
    level: float
    signal_to_noise_to_direct: float | None
    design_effect: float | None
    negative_mass: float
    p_coverage: float
    p_error: float
    p_standard_error: float | None
    alarms: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        document = asdict(self)
        return document | {name: list(document[name]) for name in _LISTS}


_LISTS = ("epochs", "coverage_interval", "alarms")


@dataclass(frozen=True, eq=False)
class _Compared:
    """One release beside its truth; arrays over its values."""

    release: Release
    n: int
    level: float
    truth: Floats
    errors: Floats
    stated: Floats
    missed: int
    negative_mass: float

    @classmethod
    def of(cls, release: Release, truth: Truth) -> "_Compared":
        found = release.estimates
        if found is None:
            raise NotPublishable(f"{release.metric} {release.epoch}: is withheld")
        entries = found.all_entries
        known = np.array([truth.share_of(entry.value) for entry in entries])
        ends = np.array([entry.interval for entry in entries], np.float64)
        return cls(
            release,
            found.n,
            found.level,
            known,
            np.array([entry.share for entry in entries], np.float64) - known,
            np.array([entry.standard_error for entry in entries], np.float64),
            int(np.sum((known < ends[:, 0]) | (known > ends[:, 1]))),
            found.negative_mass,
        )


def incomparable(release: Release) -> str:
    """Return why known shares say nothing about a release, "" if they do."""
    estimates = release.estimates
    if estimates is None:
        return "is withheld"
    if not estimates.all_entries:
        return "says no shares, and those are what is known"
    if release.channels.mechanism in SMOOTHED:
        return "is smoothed, which is biased: unbiased errors cannot be expected of it"
    known = ((entry.share, entry.standard_error, entry.interval) for entry in estimates.all_entries)
    return "holds no estimates" if any(None in each for each in known) else ""


def score(pairs: Sequence[tuple[Release, Truth]]) -> Score:
    """Compare releases of one version of a canary metric with the truth.

    Args:
        pairs: At least one published release, oldest first, each with what is known about it.

    Raises:
        NotPublishable: A release is `incomparable`, or they are not of one version and truth.
    """
    for release, _ in pairs:
        if why := incomparable(release):
            raise NotPublishable(f"{release.metric} {release.epoch}: {why}")
    if len({(release.metric, release.fingerprint) for release, _ in pairs}) != 1:
        raise NotPublishable("the truth is compared with releases of one version, at least one")
    if len({known.shares for _, known in pairs}) != 1:
        raise NotPublishable(f"{pairs[0][0].metric}: epochs of different truth are no one canary")
    compared = [_Compared.of(*pair) for pair in pairs]
    first = compared[0]
    mechanism = first.release.channels.mechanism
    if mechanism is None or mechanism not in CATALOGUE:
        raise NotPublishable(f"{first.release.metric}: the release names no mechanism")
    free = None
    if first.release.channels.p_true is not None:
        free = evidence.independent_values(mechanism, len(first.truth), first.release.type)
    p_coverage, p_error, p_small = _evidence(compared, mechanism, free)
    errors, stated, truth = (
        np.concatenate([getattr(c, name) for c in compared])
        for name in ("errors", "stated", "truth")
    )
    n = np.concatenate([np.full(len(c.truth), c.n) for c in compared])
    observed, predicted = float(np.sqrt(np.mean(errors**2))), float(np.sqrt(np.mean(stated**2)))
    missed = sum(c.missed for c in compared)
    held = (truth > 0) & (truth < 1) & (stated > 0)
    direct = np.sqrt(truth * (1 - truth) / n)
    ratio = float(np.median(direct[held] / stated[held])) if held.any() else None
    coverage = 1 - missed / len(errors)
    return Score(
        metric=first.release.metric,
        epochs=tuple(c.release.epoch for c in compared),
        values=len(first.truth),
        n=sum(c.n for c in compared),
        mean_absolute_error=float(np.mean(np.abs(errors))),
        root_mean_square_error=observed,
        predicted_error=predicted,
        predicted_over_observed=predicted / observed if observed else None,
        mean_relative_error=float(np.mean(np.abs(errors) / np.maximum(truth, 1 / n))),
        coverage=coverage,
        coverage_interval=_clopper_pearson(coverage, len(compared) * (free or 1)),
        level=first.level,
        signal_to_noise_to_direct=ratio,
        design_effect=None if ratio is None else ratio**-2,
        negative_mass=float(np.mean([c.negative_mass for c in compared])),
        p_coverage=p_coverage,
        p_error=p_error,
        p_standard_error=p_small,
        alarms=_alarms(coverage, first.level, observed, predicted, (p_coverage, p_error, p_small)),
    )


def _evidence(
    compared: Sequence[_Compared], mechanism: str, free: int | None
) -> tuple[float, float, float | None]:
    missed = [c.missed for c in compared]
    values, truth, level = len(compared[0].truth), compared[0].truth, compared[0].level
    if free is None:
        p_coverage = evidence.too_many_misses(missed, values, free, 1 - level)
        scores = [c.errors / np.maximum(c.stated, 1e-300) for c in compared]
        return p_coverage, evidence.too_large_scores(scores), None
    channels = compared[0].release.channels
    channel = Channel.from_probabilities(channels.p_true or 0.0, channels.p_false or 0.0)
    expected = np.mean([evidence.miss_probability(truth, c.n, channel, level) for c in compared])
    errors, ns = [c.errors for c in compared], [c.n for c in compared]
    true = [variance_population(truth, c.n, channel) for c in compared]
    return (
        evidence.too_many_misses(missed, values, free, float(expected)),
        evidence.too_large_errors(errors, truth, ns, channel, mechanism),
        evidence.too_small_errors(
            [c.stated**2 / variance for c, variance in zip(compared, true, strict=True)],
            truth,
            ns,
            channel,
        ),
    )


def _clopper_pearson(part: float, trials: int) -> tuple[float, float]:
    """Return the interval; of a part that is no whole number of trials, the wider one."""
    low = stats.binomtest(int(part * trials + 1e-9), trials).proportion_ci(0.95).low
    high = stats.binomtest(-int(-part * trials + 1e-9), trials).proportion_ci(0.95).high
    return float(low), float(high)


def _alarms(
    coverage: float,
    level: float,
    observed: float,
    predicted: float,
    ps: tuple[float, float, float | None],
) -> tuple[str, ...]:
    p_coverage, p_error, p_small = ps
    alarms = []
    if p_coverage < ALARM:
        alarms.append(
            f"{coverage:.1%} of the intervals hold the truth, {level:.0%} should (p = "
            f"{p_coverage:.1g}): they are too narrow, or in the wrong place"
        )
    if p_error < ALARM:
        alarms.append(
            f"estimates are off by {observed:.2%} where {predicted:.2%} is stated, more than the "
            f"channel explains (p = {p_error:.1g})"
        )
    if p_small is not None and p_small < ALARM:
        alarms.append(
            f"standard errors are stated smaller than the channel has them (p = {p_small:.1g})"
        )
    return tuple(alarms)

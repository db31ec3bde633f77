"""One estimate from several versions of a metric that were in the field at the same time.

Their channels differ, so counts are never added: each version is debiased by itself, and shares
are averaged with weights in proportion to n_k / inclusion_k, the devices that a version stands
for: of a version in which each device reports in one of five epochs, five times as many devices
run it as report. Those weights do not depend on any response; weights by estimated variance
would, and would bias the result (reference 0.4). Means are averaged in the same way; quantiles
are no averages, and are left to the versions.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from client_sdk.metric import Label
from estimator.consistency import simplex_projection
from estimator.debias import Floats
from estimator.estimates import Estimate, Estimates, Mean
from estimator.uncertainty import design_effects, signal_to_noise

METHOD = (
    "versions estimated separately, averaged by the devices they stand for; intervals of the "
    "versions, combined by their ends' distances"
)


def poolable(parts: Sequence[Estimates]) -> bool:
    """Return whether there are several parts that all have reports and say the same things."""
    return (
        len(parts) > 1
        and all(part.n > 0 and (part.all_entries or part.mean) for part in parts)
        and len({part.mean is None for part in parts}) == 1
        and len({_values(part) for part in parts}) == 1
        and len({part.level for part in parts}) == 1
        and all(entry.share is not None for part in parts for entry in part.all_entries)
    )


def pool(
    parts: Sequence[Estimates], inclusions: Sequence[float], *, adding_up: bool = True
) -> Estimates:
    """Average `poolable` parts from different devices. Epsilon is that of the worst part.

    Args:
        parts: One per version.
        inclusions: The probability that a device of that version reports in an epoch, in (0, 1].
        adding_up: Whether shares add up to one; else values are counted by themselves.
    """
    n = sum(part.n for part in parts)
    level = parts[0].level
    devices = np.array([part.n for part in parts]) / np.array(inclusions, float)
    weights = devices / devices.sum()
    shares = weights @ _matrix(parts, "share")
    population = _error(weights, _matrix(parts, "standard_error"))
    reporters = _error(weights, _matrix(parts, "standard_error_reporters"))
    cells = max(1, len(shares))
    low, high = _interval(weights, shares, parts, "interval")
    outer_low, outer_high = _interval(weights, shares, parts, "simultaneous_interval")
    threshold = float(stats.norm.isf((1 - level) / cells)) * population
    consistent = _possible(shares, adding_up)
    effects = design_effects(population, consistent, n)
    # All fakes may lie in one version: they are the larger part of its reports, the fewer it has.
    shifts = [
        part.worst_shift * float(weight) * n / part.n
        for part, weight in zip(parts, weights, strict=True)
        if part.worst_shift is not None
    ]
    shift = max(shifts) if len(shifts) == len(parts) else None
    entries = [
        Estimate(
            value=entry.value,
            share=float(shares[i]),
            standard_error=float(population[i]),
            standard_error_reporters=float(reporters[i]),
            interval=(float(low[i]), float(high[i])),
            simultaneous_interval=(float(outer_low[i]), float(outer_high[i])),
            significant=bool(shares[i] > threshold[i]),
            consistent=float(consistent[i]),
            signal_to_noise=signal_to_noise(float(shares[i]), float(population[i])),
            design_effect=effects[i],
        )
        for i, entry in enumerate(parts[0].all_entries)
    ]
    other = entries.pop() if parts[0].other is not None else None
    worst = max(part.epsilon for part in parts)
    pooled = Estimates(n, worst, level, METHOD, tuple(entries), mean=_mean(parts, weights))
    return replace(pooled, other=other, worst_shift=shift)


def _possible(shares: Floats, adding_up: bool) -> Floats:
    if not len(shares):
        return shares
    return simplex_projection(shares) if adding_up else np.clip(shares, 0.0, 1.0)


def _mean(parts: Sequence[Estimates], weights: Floats) -> Mean | None:
    means = [part.mean for part in parts if part.mean is not None]
    if len(means) != len(parts):
        return None
    value = float(weights @ np.array([mean.value for mean in means]))
    population, reporters = (
        float(_error(weights, np.array([getattr(mean, field) for mean in means])))
        for field in ("standard_error", "standard_error_reporters")
    )
    ends = np.array([mean.interval for mean in means])
    low, high = _ends(weights, value, np.array([mean.value for mean in means]), ends)
    return Mean(value, population, reporters, (float(low), float(high)))


def _values(part: Estimates) -> tuple[tuple[type, Label | None], ...]:
    return tuple((type(entry.value), entry.value) for entry in part.all_entries)


def _interval(
    weights: Floats, shares: Floats, parts: Sequence[Estimates], field: str
) -> tuple[Floats, Floats]:
    """Return the ends of an average's intervals.

    Those of the versions say how far each may be off where few reports support a value and the
    estimated error is next to nothing.
    """
    ends = np.array(
        [[getattr(entry, field) for entry in part.all_entries] for part in parts], float
    ).reshape(len(parts), -1, 2)
    return _ends(weights, shares, _matrix(parts, "share"), ends)


def _ends(
    weights: Floats, average: Floats | float, values: Floats, ends: Floats
) -> tuple[Floats, Floats]:
    """Combine independent intervals: squared distances of ends from their estimates add up.

    Zou and Donner, "Construction of Confidence Limits about Effect Measures", Statistics in
    Medicine (2008). Of normal intervals it makes the normal one.
    """
    below, above = values - ends[..., 0], ends[..., 1] - values
    return np.asarray(average - _error(weights, below)), np.asarray(
        average + _error(weights, above)
    )


def _matrix(parts: Sequence[Estimates], field: str) -> Floats:
    return np.array(
        [[getattr(entry, field) for entry in part.all_entries] for part in parts], float
    )


def _error(weights: Floats, errors: Floats) -> Floats:
    return np.asarray(np.sqrt(weights**2 @ errors**2))

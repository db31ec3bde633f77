"""The exact distribution of the summed loss, and the smallest epsilon that it allows at a delta.

Reports of one law lose whole multiples of their epsilon together. The probabilities are the
coefficients of (gain x^2 + zero x + minus)^reports, which obey a recurrence with positive terms
only (so no digit cancels) from the highest loss down to 0; a negative loss -l has e^-l times the
probability of l. Laws of different epsilon are brought onto one grid, see `grid`.

delta(E) = sum over losses l > E of P(l) (1 - e^{E-l}) is the exact one, by the definition of
differential privacy, for the two histories of values that differ in every report.
"""

import math
from collections.abc import Iterable, Sequence

from client_sdk.accounting.grid import Losses, all_convolved, on_grid
from client_sdk.accounting.law import Fresh

MOST_REPORTS = 300_000
"""Of one law: what one more computes costs time and memory in their number."""

_STEPS = 8192
_RESCALE = 512


def chances(fresh: Fresh) -> list[float]:
    """Return the probabilities of losses of reports, reports - 1, ..., 0 times epsilon.

    What is below 1e-300 of the largest is 0.
    """
    law, reports = fresh
    gain, zero, minus = law.chances
    mantissas, exponents = [1.0], [0]
    before, last, exponent = 0.0, 1.0, 0
    for n in range(1, reports + 1):
        sum_ = (reports + 1 - n) * zero * last + (2 * reports + 2 - n) * minus * before
        before, last = last, sum_ / (n * gain)
        if max(before, last) > 2.0**_RESCALE:
            before, last = math.ldexp(before, -_RESCALE), math.ldexp(last, -_RESCALE)
            exponent += _RESCALE
        mantissas.append(last)
        exponents.append(exponent)
    relative = [
        math.ldexp(each, own - exponent) for each, own in zip(mantissas, exponents, strict=True)
    ]
    both_signs = (
        each * (1 + (math.exp(-loss * law.size) if loss else 0.0))
        for loss, each in zip(range(reports, -1, -1), relative, strict=True)
    )
    total = math.fsum(both_signs)
    return [each / total for each in relative]


def by_losses(fresh: Sequence[Fresh], delta: float) -> float | None:
    """Return the smallest epsilon at `delta`, of one law exactly.

    Of several laws each group's losses are rounded up to a grid of 1/8192 of the sum of all
    epsilons, so the figure is safe, and too large by at most (number of laws) / 8192 of that sum.

    Returns:
        None if there are too many reports to compute it.
    """
    if sum(reports for _, reports in fresh) > MOST_REPORTS:
        return None
    if len(fresh) == 1:
        ((law, reports),) = fresh
        found = chances(fresh[0])
        losses = ((reports - place) * law.size for place in range(reports + 1))
        return epsilon_at(zip(losses, found, strict=True), delta * (1 - _rounding(reports)))
    plain = sum(reports * law.size for law, reports in fresh)
    step = plain / _STEPS
    total = all_convolved(_on_grid(group, step) for group in fresh)
    most = max(reports for _, reports in fresh)
    return min(plain, epsilon_at(total.descending(step), delta * (1 - _rounding(most))))


def delta_at(fresh: Fresh, epsilon: float) -> float:
    """Return delta(epsilon) of reports of one law, for an epsilon of at least 0."""
    size = fresh.law.size
    return math.fsum(
        -chance * math.expm1(epsilon - loss * size)
        for loss, chance in zip(range(fresh.reports, -1, -1), chances(fresh), strict=True)
        if loss * size > epsilon
    )


def epsilon_at(losses: Iterable[tuple[float, float]], delta: float) -> float:
    """Return the smallest epsilon, at least 0, with delta(epsilon) <= `delta`.

    Args:
        losses: Losses with their probabilities, from the highest down.
        delta: Positive.
    """
    beyond = weight = 0.0  # delta(above), and sum of P(l) e^{above - l} over losses from there up
    above = math.inf
    for loss, chance in losses:
        at = max(loss, 0.0)
        if weight:
            rise = -weight * math.expm1(at - above)
            if beyond + rise > delta:
                return max(at, above + math.log1p((beyond - delta) / weight))
            beyond += rise
            weight *= math.exp(at - above)
        if loss <= 0:
            break
        weight += chance
        above = loss
    return 0.0


def _on_grid(group: Fresh, step: float) -> Losses:
    law, reports = group
    atoms: dict[float, float] = {}
    for place, chance in enumerate(chances(group)):
        loss = (reports - place) * law.size
        atoms[loss] = chance
        atoms[-loss] = chance * math.exp(-loss)
    return on_grid(atoms.items(), step)


def _rounding(reports: int) -> float:
    """Bound the relative error of sums of `chances`: a few roundings for each report."""
    return 1e-14 * (reports + 10)

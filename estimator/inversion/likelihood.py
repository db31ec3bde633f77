"""Expectation maximization of the shares behind counts, for many collections at once.

Steps are small where a window is wide: thousands are needed. So after each two of them the
logarithms of all shares leap on along the way that they took (squared extrapolation, scheme 3 of
Varadhan and Roland, "Simple and Globally Convergent Methods for Accelerating the Convergence of
Any EM Algorithm", Scandinavian Journal of Statistics 2008). Logarithms, since a step multiplies:
no leap makes a share negative. Leaps end where steps end; one that the counts speak against is
taken back, and the next ones are shorter.
"""

import numpy as np
from numpy.typing import NDArray

from estimator.debias import Floats

TOLERANCE = 1e-3
"""Change of the log-likelihood below which smoothed steps end; of plain ones, times e^eps."""
MOST_STEPS = 10_000
_FIRST_LEAP = 4.0
"""Longest at first, in steps' lengths: one that is accepted makes the next as much longer."""
_WORSE = 1.0
"""A leap is taken back if it costs so much log-likelihood; smoothed steps cost a little, too."""
_TINY = 1e-300


def maximum_likelihood(
    channel: Floats,
    counts: NDArray[np.int64] | Floats,
    *,
    smooth: bool = True,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> Floats:
    """Return the shares that make counts most likely, from even ones on.

    Args:
        channel: P(cell | value), shape (cells, values), nowhere 0.
        counts: Reports by cell, shape (..., cells).
        smooth: Whether each step is smoothed.
        tolerance: A collection is done when a step changes its log-likelihood by less; 0 makes
            `most_steps` steps, without leaps.
        most_steps: The most that are made.

    Returns:
        Shares, shape (..., values). That of a collection does not depend on the others.
    """
    held = np.asarray(counts, np.float64).reshape(-1, channel.shape[0])
    shares = np.full((len(held), channel.shape[1]), 1 / channel.shape[1])
    if tolerance > 0:
        shares = _leaping(channel, held, shares, smooth, tolerance, most_steps)
    else:
        for _ in range(most_steps):
            shares, _ = _step(channel, held, shares, smooth)
    return shares.reshape(*np.shape(counts)[:-1], channel.shape[1])


def smoothed(shares: Floats) -> Floats:
    """Return shares averaged with their neighbours by (1, 2, 1)/4, by (2, 1)/3 at the ends."""
    mixed = shares / 2
    mixed[..., 1:] += shares[..., :-1] / 4
    mixed[..., :-1] += shares[..., 1:] / 4
    mixed[..., [0, -1]] *= 4 / 3
    return np.asarray(mixed / mixed.sum(axis=-1, keepdims=True), np.float64)


def _step(channel: Floats, held: Floats, shares: Floats, smooth: bool) -> tuple[Floats, Floats]:
    """Return the shares after one step, and the log-likelihood before it."""
    expected = shares @ channel.T
    likelihood = np.einsum("ij,ij->i", held, np.log(expected))
    after = shares * ((held / expected) @ channel)
    after /= after.sum(axis=1, keepdims=True)
    return smoothed(after) if smooth else after, likelihood


def _leaping(
    channel: Floats,
    held: Floats,
    shares: Floats,
    smooth: bool,
    tolerance: float,
    most_steps: int,
) -> Floats:
    found, going = shares.copy(), np.arange(len(held))
    before, kept = np.full(len(held), -np.inf), shares
    longest = np.full(len(held), _FIRST_LEAP)
    for _ in range(most_steps // 3):
        one, likelihood = _step(channel, held, shares, smooth)
        worse = likelihood < before - _WORSE
        if worse.any():
            shares = np.where(worse[:, None], kept, shares)
            longest[worse] = np.maximum(1.0, longest[worse] / (2 * _FIRST_LEAP))
            one, likelihood = _step(channel, held, shares, smooth)
        two, before = _step(channel, held, one, smooth)
        more = np.abs(before - likelihood) >= tolerance
        found[going] = one
        if not more.all():
            going, held, before, longest = going[more], held[more], before[more], longest[more]
            shares, one, two = shares[more], one[more], two[more]
            if not going.size:
                break
        leapt, longest = _leap(shares, one, two, longest)
        shares, _ = _step(channel, held, leapt, smooth)
        kept = two
    return found


def _leap(shares: Floats, one: Floats, two: Floats, longest: Floats) -> tuple[Floats, Floats]:
    """Return where two steps lead to, and how long the next leaps may be."""
    start, middle, end = (np.log(np.maximum(each, _TINY)) for each in (shares, one, two))
    way = middle - start
    bend = end - middle - way
    # Shares near 0 have the longest ways of all, and say nothing of when the others arrive.
    straight, bent = ((two * each**2).sum(axis=1) for each in (way, bend))
    length = np.clip(np.sqrt(straight / np.maximum(bent, _TINY)), 1.0, longest)
    longest = np.where(length >= longest, _FIRST_LEAP * longest, longest)
    far = length[:, None]
    reached = start + 2 * far * way + far**2 * bend
    leapt = np.exp(np.maximum(reached - reached.max(axis=1, keepdims=True), np.log(_TINY)))
    return leapt / leapt.sum(axis=1, keepdims=True), longest

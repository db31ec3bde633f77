"""Hadamard response in blocks: one fast transform of the counts gives the shares of all values."""

import numpy as np
from numpy.typing import ArrayLike

from aggregator.tally import Tally
from client_sdk.mechanisms import BlockHadamardResponse
from estimator.debias import Floats
from estimator.estimates import Estimate, Estimates
from estimator.hadamard import walsh_hadamard
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.inversion.scores import Linear, of_moments
from estimator.plausibility import FAKES

METHOD = "Walsh-Hadamard transform of the counts; outer ends of normal and score interval"


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate shares of a domain in blocks."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, BlockHadamardResponse)
    epsilon, n = float(mechanism.epsilon), tally.n
    if n == 0:
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, METHOD, empty)
    found = block_estimate(tally.counts.sum(axis=0), mechanism, n)
    entries = entries_of(metric.labels, Columns.stated(found, level), n)
    return Estimates(n, epsilon, level, METHOD, entries, worst_shift=worst_shift(mechanism))


def block_estimate(counts: ArrayLike, mechanism: BlockHadamardResponse, n: ArrayLike) -> Linear:
    """Estimate all shares; a score is `scale` times 1 (own cell), -1 (rest of the block) or 0.

    Args:
        counts: Reports of each cell, shape (..., cells); leading axes are collections.
        mechanism: The channel.
        n: Reports of each collection, at least 1, shape (...).
    """
    c, size = np.asarray(counts, np.float64), np.asarray(n, np.float64)
    blocks = c.reshape(*c.shape[:-1], mechanism.blocks, mechanism.size)
    sums = walsh_hadamard(blocks) / size[..., None, None]
    value = np.arange(mechanism.domain or 0)
    block, row = value % mechanism.blocks, 1 + value // mechanism.blocks
    scale = float(mechanism.scale)
    first = scale * sums[..., block, row]
    second = scale**2 * sums[..., block, 0]
    own, other = scale**2 * mechanism.half * np.array(_squares(mechanism))
    least = own - 1 if mechanism.blocks == 1 else min(own - 1, other)
    noise = np.clip(variance_reporters(first, mechanism), least, max(own, other))
    # Of its block others have as large scores, those of other blocks smaller ones.
    holders = np.zeros_like(first), np.full_like(first, 0 if mechanism.blocks == 1 else own - other)
    return of_moments(first, second, scale**2 * first, noise, least, holders, size)


def variance_reporters(shares: Floats, mechanism: BlockHadamardResponse) -> Floats:
    """Return n times the variance of the noise alone, at shares of shape (..., values).

    Reference 6.1: half of a block's reports score 1, the other half -1, whoever holds what; that
    half is likelier for those who hold a value of the block.
    """
    value = np.arange(mechanism.domain or 0)
    member = (value[:, None] % mechanism.blocks) == np.arange(mechanism.blocks)
    mass = (shares @ member)[..., value % mechanism.blocks]
    same, other = _squares(mechanism)
    square = mass * same + (1 - mass) * other
    return np.asarray(float(mechanism.scale) ** 2 * mechanism.half * square - shares)


def worst_shift(mechanism: BlockHadamardResponse) -> float:
    """Return the most by which FAKES of the reports can move a share.

    A fake sends an own cell, or one of the block's other half where a holder would count 1.
    """
    return FAKES * (1 + float(mechanism.scale))


def _squares(mechanism: BlockHadamardResponse) -> tuple[float, float]:
    """Return P(cell of the block) / s for holders of one of the block's values, and for others."""
    own, other = float(mechanism.p_true), float(mechanism.p_false)
    return own + other, 2 * other

"""Local hashing and Hadamard response: the supports of all values at once, by fast transforms.

A value's supports are the counts of its cells, one for each seed or column. Looked up value by
value they cost values times seeds; as the hash functions are linear, the sums of all values are
built digit by digit instead, like a fast Fourier transform, and all in integers.
"""

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import HadamardResponse, LocalHashing, Loloha
from client_sdk.mechanisms.linear_hashing import LinearHashing
from estimator.estimates import Estimates
from estimator.hadamard import supports_by_signs
from estimator.inversion import shares
from estimator.inversion.described import Described

Counts = NDArray[np.int64]


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the shares of a closed domain whose values are hashed."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, LocalHashing | HadamardResponse | Loloha)
    # Where a cohort is a seed, its cells follow those of the one before.
    found = supports(mechanism, tally.counts.reshape(-1))
    return shares.from_supports(metric, found, tally.n, level)


def supports(mechanism: LocalHashing | HadamardResponse | Loloha, counts: Counts) -> Counts:
    """Return how many reports support each value.

    Args:
        mechanism: Their channel.
        counts: Of its cells, those of all cohorts in a row, shape (..., cells); leading axes are
            collections of their own.

    Returns:
        Shape (..., domain).
    """
    domain = mechanism.domain
    if isinstance(mechanism, HadamardResponse):
        return supports_by_signs(counts)[..., 1 : domain + 1]
    if mechanism.hashing.size > 2:
        return _supports_by_digits(mechanism.hashing, counts)[..., :domain]
    # Seed s is the vector of the ones of s + 1, as it were column s + 1; column 0 is no seed.
    width = [(0, 0)] * (counts.ndim - 1)
    return supports_by_signs(np.pad(counts, [*width, (2, 0)]))[..., :domain]


def _supports_by_digits(hashing: LinearHashing, counts: Counts) -> Counts:
    """Return supports of each vector of digits, from counts of (seed, cell)."""
    if hashing.digits == 1:
        return counts
    size, leading = hashing.size, counts.shape[:-1]
    sums, products = _tables(hashing)
    result = np.zeros((*leading, 1), np.int64)
    start = 0
    for digit in range(hashing.digits):
        # Seeds whose 1 is this digit: all higher digits of a value are the same to them.
        stop = start + size ** (digit + 1)
        block = counts[..., start:stop].reshape(*leading, -1, size)
        for lower in range(digit):
            block = _one_digit(block, lower, sums, products)
        # The cell that is left is the value's own digit here, since it is multiplied by 1.
        own = np.swapaxes(block, -1, -2).reshape(*leading, -1)
        result = np.concatenate([result] * size, axis=-1) + own
        start = stop
    return result


def _one_digit(
    block: Counts, digit: int, sums: NDArray[np.intp], products: NDArray[np.intp]
) -> Counts:
    """Replace a digit of the seeds, in shape (..., seeds, cells), by the values' digit.

    In its place v stands the sum over the seeds' digit a of the counts of cell y + a v, as cell y.
    """
    size = len(sums)
    split = block.reshape(*block.shape[:-2], -1, size, size**digit, size)
    result = np.zeros_like(split)
    for a in range(size):
        for v in range(size):
            result[..., v, :, :] += split[..., a, :, :][..., sums[products[a, v]]]
    return result.reshape(block.shape)


def _tables(hashing: LinearHashing) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the field's sums and products, of each two elements."""
    elements = np.arange(hashing.size)
    if not hashing.modulus:
        pairs = np.add.outer(elements, elements), np.multiply.outer(elements, elements)
        return pairs[0] % hashing.size, pairs[1] % hashing.size
    rows = [[hashing.product(int(a), int(b)) for b in elements] for a in elements]
    return np.bitwise_xor.outer(elements, elements), np.array(rows, np.intp)

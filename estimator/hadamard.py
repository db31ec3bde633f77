"""The fast Walsh-Hadamard transform: one sum with signs for each row of Sylvester's matrix."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)


def walsh_hadamard(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the product with the Sylvester matrix along the last axis, a power of two long."""
    length = numbers.shape[-1]
    result = numbers
    half = 1
    while half < length:
        pairs = result.reshape(*numbers.shape[:-1], length // (2 * half), 2, half)
        one, other = pairs[..., 0, :], pairs[..., 1, :]
        result = np.stack([one + other, one - other], axis=-2)
        half *= 2
    return result.reshape(numbers.shape)


def supports_by_signs(counts: Counts) -> Counts:
    """Return how many reports agree in sign with each row of the matrix.

    Args:
        counts: Of cells 2 * column + (sign is -1), shape (..., 2 * columns).
    """
    signs = counts.reshape(*counts.shape[:-1], -1, 2)
    reports = counts.sum(axis=-1, keepdims=True)
    agreeing_less_others = walsh_hadamard(signs[..., 0] - signs[..., 1])
    return np.asarray((reports + agreeing_less_others) // 2, np.int64)

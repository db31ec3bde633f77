"""Column sums of packed bits: how many of many bit vectors set each bit, without unpacking most.

Carry-save adders (Harley and Seal; see Warren, "Hacker's Delight", 5-1) turn three rows of weight
w into one of weight w and one of weight 2w, for all columns of all rows at once, until few are left
to unpack.
"""

import numpy as np
from numpy.typing import NDArray

_MOST_ADDED = 255
"""So many ones fit the byte that they are added up in."""
_LEAST_SAVED = 512
"""From so many rows on an adder is quicker than unpacking."""


def column_sums(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many rows set each bit.

    Args:
        rows: Bit vectors, bit i is bit i % 8 of byte i // 8; shape (rows, bytes).

    Returns:
        Shape (8 * bytes,).
    """
    total = np.zeros(8 * rows.shape[1], np.int64)
    waiting = [(rows, 1)]
    while waiting:
        left, weight = waiting.pop()
        while len(left) >= _LEAST_SAVED:
            third = len(left) // 3
            one, two, three = left[:third], left[third : 2 * third], left[2 * third : 3 * third]
            differ = one ^ two
            waiting.append((one & two | differ & three, 2 * weight))
            left = np.concatenate([differ ^ three, left[3 * third :]])
        total += weight * _unpacked(left)
    return total


def _unpacked(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    total = np.zeros(8 * rows.shape[1], np.int64)
    for start in range(0, len(rows), _MOST_ADDED):
        bits = np.unpackbits(rows[start : start + _MOST_ADDED], axis=1, bitorder="little")
        total += np.add.reduce(bits, axis=0, dtype=np.uint8)
    return total

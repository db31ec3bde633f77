"""Distributions on a grid of losses, in integers that are rounded up: sums of unequal losses.

Losses go up to the next point of the grid and probabilities up to the next multiple of 2^-128, so
whatever is computed from them bounds what is true. A sum of two independent losses is a product of
two polynomials, and that of two whole numbers whose digits are the coefficients.
"""

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_BITS = 128
_DIGIT = 36
"""Bytes of a coefficient: products of 2^128 by itself, added over fewer than 2^32 points."""


class Losses(NamedTuple):
    """Probabilities in units of 2^-128 of losses `lowest`, `lowest` + 1, ... steps."""

    lowest: int
    units: tuple[int, ...]

    def descending(self, step: float) -> Iterator[tuple[float, float]]:
        """Yield losses with their probabilities, from the highest down."""
        for place in range(len(self.units) - 1, -1, -1):
            yield (self.lowest + place) * step, math.ldexp(self.units[place], -_BITS)


def on_grid(atoms: Iterable[tuple[float, float]], step: float) -> Losses:
    """Round losses, given with their probabilities, up to multiples of `step`."""
    found: dict[int, int] = {}
    for loss, chance in atoms:
        place = math.ceil(loss / step)
        found[place] = found.get(place, 0) + math.ceil(math.ldexp(chance, _BITS))
    lowest = min(found)
    return Losses(lowest, tuple(found.get(each, 0) for each in range(lowest, max(found) + 1)))


def convolved(one: Losses, other: Losses) -> Losses:
    """Return the distribution of the sum of two independent losses."""
    length = len(one.units) + len(other.units) - 1
    product = _number(one.units) * _number(other.units)
    digits = product.to_bytes(length * _DIGIT, "little")
    units = (
        -(-int.from_bytes(digits[at : at + _DIGIT], "little") >> _BITS)
        for at in range(0, len(digits), _DIGIT)
    )
    return Losses(one.lowest + other.lowest, tuple(units))


def all_convolved(parts: Iterable[Losses]) -> Losses:
    """Return the distribution of the sum of independent losses, of at least one.

    The two shortest first: the long products are few, and of factors that are equally long.
    """
    heap = [(len(each.units), place, each) for place, each in enumerate(parts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, one = heapq.heappop(heap)
        _, place, other = heap[0]
        both = convolved(one, other)
        heapq.heapreplace(heap, (len(both.units), place, both))
    return heap[0][2]


def _number(units: Iterable[int]) -> int:
    return int.from_bytes(b"".join(each.to_bytes(_DIGIT, "little") for each in units), "little")

"""Sets of options as integers, bit i for option i: what several answers at once are encoded as."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

from client_sdk.errors import ParameterError


def members(selection: int) -> tuple[int, ...]:
    """Return the options of a selection, ascending."""
    return tuple(index for index in range(selection.bit_length()) if selection >> index & 1)


def require_options(options: int, most: int) -> None:
    """Raise ParameterError unless there are at least 2 options, 1 to all of which can be chosen."""
    if options < 2:
        raise ParameterError(f"there must be at least 2 options, got {options}")
    if not 1 <= most <= options:
        raise ParameterError(f"most must lie in 1..{options}, got most={most}")


def selections(options: int, largest: int, most: int) -> Sequence[int]:
    """Return selections of up to `largest` options: all, or `most` that lie far apart."""
    if sum(comb(options, size) for size in range(largest + 1)) <= most:
        return [
            sum(1 << index for index in chosen)
            for size in range(largest + 1)
            for chosen in combinations(range(options), size)
        ]
    run = (1 << largest) - 1
    far_apart = [0, 1, 1 << options - 1, run, run << options - largest]
    steps = max(1, (options - largest) // (most - len(far_apart)))
    runs = [run << start for start in range(0, options - largest + 1, steps)]
    return list(dict.fromkeys([*far_apart, *runs]))[:most]

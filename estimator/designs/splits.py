"""Which values of a device mean what: splits exact ones, the nearest, the simplest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from estimator.designs.devices import DEVICES, Device, Values

_MOST_PARTS_OF_SUMS = 4
"""Sums of dice are searched for subsets, which takes exponentially long in the number of parts."""


@dataclass(frozen=True)
class Split:
    """A device, and which of its values mean what.

    Attributes:
        device: What people throw or draw.
        parts: Values of each part; together all values, each once.
    """

    device: Device
    parts: tuple[Values, ...]

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        """The exact probability of each part."""
        return tuple(self.device.probability(part) for part in self.parts)


def exact_split(device: Device, wanted: Sequence[Fraction]) -> Split | None:
    """Return a split with exactly these probabilities, the easiest to read; None if there is none.

    Args:
        device: What is thrown.
        wanted: Probabilities of the parts, which sum to 1.
    """
    counts = [part * device.cases for part in wanted]
    if any(count.denominator != 1 for count in counts):
        return None
    parts = _parts(device, tuple(int(count) for count in counts))
    return None if parts is None else Split(device, parts)


def nearest_split(device: Device, wanted: Sequence[Fraction]) -> Split | None:
    """Return the split of a device whose probabilities lie nearest to those wanted.

    Cases are dealt out by largest remainders; a part that is wanted has at least one. None where
    the device cannot be split so.
    """
    if not device.exact:
        return _nearest_birthday(device, wanted)
    exact = [part * device.cases for part in wanted]
    counts = [max(int(count), int(count > 0)) for count in exact]
    by_need = sorted(range(len(counts)), key=lambda each: counts[each] - exact[each])
    short = device.cases - sum(counts)
    if short < 0:
        return None
    for each in by_need[:short]:
        counts[each] += 1
    parts = _parts(device, tuple(counts)) if sum(counts) == device.cases else None
    return None if parts is None else Split(device, parts)


def error(split: Split, wanted: Sequence[Fraction]) -> Fraction:
    """Return the largest distance between a probability and the one wanted."""
    return max(abs(has - part) for has, part in zip(split.probabilities, wanted, strict=True))


NEAR = Fraction(1, 1000)
"""Where no device has a probability exactly, this near is near enough to prefer a simpler one."""


def simplest(wanted: Sequence[Fraction], devices: Sequence[Device] = DEVICES) -> Split:
    """Return the split of the first device that is exact; else of the first that is NEAR.

    If none is, the nearest of all.

    Args:
        wanted: Probabilities of the parts.
        devices: The simplest first.

    Raises:
        ValueError: A probability is negative, they do not sum to 1, or no device has so many parts.
    """
    if any(part < 0 for part in wanted) or sum(wanted) != 1:
        told = ", ".join(map(str, wanted))
        raise ValueError(f"probabilities must lie in 0..1 and sum to 1, got {told}")
    found = [split for device in devices if (split := nearest_split(device, wanted)) is not None]
    if not found:
        raise ValueError(f"none of the devices has {len(wanted)} parts such as are wanted")
    for most in (Fraction(0), NEAR):
        for split in found:
            if error(split, wanted) <= most:
                return split
    return min(found, key=lambda split: error(split, wanted))


CLOSE = 0.99
"""A device whose epsilon is at least this part of the one wanted is near enough to be taken."""


def largest_epsilon(
    devices: Sequence[Device],
    parts: Callable[[Fraction], Sequence[Fraction]],
    epsilon_of: Callable[[Sequence[Fraction]], float],
    most: float,
) -> Split | None:
    """Return a split whose epsilon lies nearest below one.

    Never above: a promise that was printed must not be broken by rounding. Of devices that come as
    close as CLOSE, the first.

    Args:
        devices: The simplest first.
        parts: Probabilities of the parts for the family's parameter, a share of cases.
        epsilon_of: Exact epsilon of these probabilities; infinity where nothing is protected.
        most: What it may be.
    """
    best: tuple[float, Split] | None = None
    for device in devices:
        for cases in accumulate(device.weights[:-1]) if not device.exact else range(device.cases):
            wanted = parts(Fraction(cases, device.cases))
            if min(wanted) < 0:
                continue
            epsilon = epsilon_of(wanted)
            # Floats of equal fractions may differ in the last digit.
            if not 0 < epsilon <= most * (1 + 1e-12) or (best and epsilon <= best[0]):
                continue
            split = exact_split(device, wanted)
            if split is not None:
                best = epsilon, split
        if best and best[0] >= CLOSE * most:
            break
    return None if best is None else best[1]


def runs(values: Values) -> tuple[tuple[int, int], ...]:
    """Return values as ranges: first and last of each."""
    found: list[tuple[int, int]] = []
    for value in sorted(values):
        if found and found[-1][1] == value - 1:
            found[-1] = found[-1][0], value
        else:
            found.append((value, value))
    return tuple(found)


@lru_cache(maxsize=4096)
def _parts(device: Device, counts: tuple[int, ...]) -> tuple[Values, ...] | None:
    """Return values for each part with exactly so many cases, in as few ranges as can be."""
    if device.even:
        ends = (0, *accumulate(counts))
        return tuple(device.values[a:b] for a, b in pairwise(ends))
    if not device.exact:
        ends = (0, *accumulate(device.weights))
        if len(counts) != 2 or counts[0] not in ends:
            return None
        place = ends.index(counts[0])
        return device.values[:place], device.values[place:]
    if len(counts) > _MOST_PARTS_OF_SUMS:
        return None
    return _subsets(device, counts)


def _subsets(device: Device, counts: tuple[int, ...]) -> tuple[Values, ...] | None:
    best: tuple[int, tuple[Values, ...]] | None = None
    left = list(counts)
    owners: list[int] = []

    def place(index: int, changes: int) -> None:
        nonlocal best
        if best is not None and changes >= best[0]:
            return
        if index == len(device.weights):
            parts = tuple(
                tuple(v for v, owner in zip(device.values, owners, strict=True) if owner == part)
                for part in range(len(counts))
            )
            best = changes, parts
            return
        for part in range(len(counts)):
            if left[part] >= device.weights[index]:
                left[part] -= device.weights[index]
                owners.append(part)
                place(index + 1, changes + (index > 0 and owners[-2] != part))
                owners.pop()
                left[part] += device.weights[index]

    place(0, 0)
    return None if best is None else best[1]


def _nearest_birthday(device: Device, wanted: Sequence[Fraction]) -> Split | None:
    if len(wanted) != 2:
        return None
    return min(
        (
            Split(device, (device.values[:place], device.values[place:]))
            for place in range(1, len(device.values))
        ),
        key=lambda split: error(split, wanted),
    )

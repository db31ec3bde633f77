"""Chance devices for people: coins, dice, cards, slips, birthdays, and their probabilities.

A survey on paper has no other probabilities than those of the things that people hold in their
hands. So a design's parameters are those of its device: what was wished for is only a direction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Literal

Kind = Literal["coins", "die", "dice", "ten_sided", "slips", "cards", "birth_months", "birth_days"]
"""What is thrown, drawn or remembered; its words stand under this name."""

Values = tuple[int, ...]

MOST_SLIPS = 100
"""In a bag: more can be neither cut nor stirred well."""
_MOST_PARTS_OF_SUMS = 4
"""Sums of dice are searched for subsets, which takes exponentially long in the number of parts."""


@dataclass(frozen=True)
class Device:
    """Something that shows one of several values by chance.

    Attributes:
        kind: What it is.
        number: Of coins, or of slips in the bag; 0 where the kind says it.
        weights: Of each value, the number of equally likely cases that show it.
        first: Smallest value.
        exact: False of birthdays, which only happen to be spread about evenly over the year.
    """

    kind: Kind
    number: int
    weights: tuple[int, ...]
    first: int = 1
    exact: bool = True

    @property
    def values(self) -> Values:
        """What it can show: heads, points, numbers of slips, cards in order of suits, months."""
        return tuple(range(self.first, self.first + len(self.weights)))

    @property
    def cases(self) -> int:
        """Number of equally likely cases."""
        return sum(self.weights)

    @property
    def even(self) -> bool:
        """Whether all values are equally likely."""
        return len(set(self.weights)) == 1

    def weight(self, values: Values) -> int:
        """Return the number of cases that show one of the values."""
        return sum(self.weights[value - self.first] for value in values)

    def probability(self, values: Values) -> Fraction:
        """Return the exact probability that it shows one of the values."""
        return Fraction(self.weight(values), self.cases)


COIN = Device("coins", 1, (1, 1), first=0)
TWO_COINS = Device("coins", 2, (1, 2, 1), first=0)
THREE_COINS = Device("coins", 3, (1, 3, 3, 1), first=0)
DIE = Device("die", 0, (1,) * 6)
TWO_DICE = Device("dice", 0, (1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1), first=2)
TEN_SIDED = Device("ten_sided", 0, (1,) * 10)
CARDS = Device("cards", 0, (1,) * 52)

_DAYS = (31, 0, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# 400 years of the Gregorian calendar have 97 leap years: a year has 365.2425 days, a February
# 28.2425. So in units of 1/400 day each weight is a whole number.
_FEBRUARY = 400 * 28 + 97
BIRTH_MONTHS = Device(
    "birth_months", 0, tuple(400 * days or _FEBRUARY for days in _DAYS), exact=False
)
"""The month of somebody's birth, if all days of 400 years are alike."""
BIRTH_DAYS = Device(
    "birth_days",
    0,
    (*(400 * 12,) * 28, BIRTH_MONTHS.cases - 28 * 400 * 12),
    exact=False,
)
"""The day of the month, likewise; its last value is the 29th and later."""


def slips(number: int) -> Device:
    """Return a bag of slips numbered from 1.

    Raises:
        ValueError: The number is below 2 or above MOST_SLIPS.
    """
    if not 2 <= number <= MOST_SLIPS:
        raise ValueError(f"slips: there must be 2..{MOST_SLIPS}, got {number}")
    return Device("slips", number, (1,) * number)


DEVICES: tuple[Device, ...] = (
    COIN,
    TWO_COINS,
    DIE,
    slips(10),
    TEN_SIDED,
    THREE_COINS,
    TWO_DICE,
    *(slips(number) for number in range(2, MOST_SLIPS + 1) if number != 10),
    CARDS,
)
"""The exact ones, the simplest first: what everybody has and reads at a glance. Cards are last:
"hearts from 3 to 9" is harder to read than a number."""

BIRTHDAYS: tuple[Device, ...] = (BIRTH_MONTHS, BIRTH_DAYS)

CHOICES: dict[str, tuple[Device, ...]] = {
    "coins": (COIN, TWO_COINS, THREE_COINS),
    "die": (DIE,),
    "dice": (TWO_DICE,),
    "ten-sided": (TEN_SIDED,),
    "cards": (CARDS,),
    "slips": (slips(10), *(slips(n) for n in range(2, MOST_SLIPS + 1) if n != 10)),
    "birthdays": BIRTHDAYS,
}
"""By the name that a field team asks for them."""


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

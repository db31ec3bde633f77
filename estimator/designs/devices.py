"""Chance devices for people: coins, dice, cards, slips, birthdays, and their probabilities.

A survey on paper has no other probabilities than those of the things that people hold in their
hands. So a design's parameters are those of its device: what was wished for is only a direction.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["coins", "die", "dice", "ten_sided", "slips", "cards", "birth_months", "birth_days"]
"""What is thrown, drawn or remembered; its words stand under this name."""

Values = tuple[int, ...]

MOST_SLIPS = 100
"""In a bag: more can be neither cut nor stirred well."""


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

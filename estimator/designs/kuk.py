"""Kuk's two decks: report a card's colour from the deck that belongs to the truth.

P(red | holds it) = red_if_yes, P(red | does not) = red_if_no. With k draws (put back each time) the
number of red cards is reported: share = (mean / k - red_if_no) / (red_if_yes - red_if_no), and
epsilon is k times that of one draw. Nobody is asked a question to which yes or no is an answer.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import Design, DesignError, Matrix, Scores, YesNo

MOST_DRAWS = 20


@dataclass(frozen=True)
class Kuk(YesNo):
    """One card from the deck of the truth.

    Attributes:
        red_if_yes: Share of red cards in the deck of those who hold it.
        red_if_no: Share of red cards in the other deck.
    """

    red_if_yes: Fraction
    red_if_no: Fraction

    name: ClassVar[str] = "kuk"
    paper: ClassVar[str] = "Kuk, Asking Sensitive Questions Indirectly, Biometrika 77 (1990)"

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return self.red_if_yes, self.red_if_no

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return ("black", "red")

    @property
    def degenerate(self) -> str:
        return "red_if_yes and red_if_no must differ"


@dataclass(frozen=True)
class KukDraws(Design):
    """Several cards, each put back; the number of red ones is reported.

    Attributes:
        red_if_yes: Share of red cards in the deck of those who hold it.
        red_if_no: Share of red cards in the other deck.
        draws: How many cards each respondent draws.
    """

    red_if_yes: Fraction
    red_if_no: Fraction
    draws: int

    name: ClassVar[str] = "kuk-draws"
    paper: ClassVar[str] = Kuk.paper

    def check(self) -> None:
        Kuk(self.red_if_yes, self.red_if_no)
        if not 1 <= self.draws <= MOST_DRAWS:
            raise DesignError(f"draws must be in 1..{MOST_DRAWS}, got {self.draws}")

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return tuple(map(str, range(self.draws + 1)))

    def matrix(self, sample: int = 0) -> Matrix:
        return tuple(
            tuple(
                math.comb(self.draws, red) * chance**red * (1 - chance) ** (self.draws - red)
                for red in range(self.draws + 1)
            )
            for chance in (self.red_if_no, self.red_if_yes)
        )

    def scores(self, figure: str) -> Scores:
        gap = self.red_if_yes - self.red_if_no
        return (
            tuple(
                (Fraction(red, self.draws) - self.red_if_no) / gap for red in range(self.draws + 1)
            ),
        )

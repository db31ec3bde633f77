"""Two coins: the first says whether to tell the truth, the second answers instead.

P(yes) = truth * share + (1 - truth) * second. With fair coins P(yes) = 1/4 + share / 2, so
share = 2 yes / n - 1/2, its variance is 4 P(1 - P) / n, and epsilon = ln 3.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class TwoCoins(YesNo):
    """Tell the truth with probability `truth`, else say what the second coin says.

    Attributes:
        truth: P(the first coin asks for the truth).
        second: P(the second coin says yes).
    """

    truth: Fraction = Fraction(1, 2)
    second: Fraction = Fraction(1, 2)

    name: ClassVar[str] = "two-coins"
    paper: ClassVar[str] = (
        "Boruch, Assuring Confidentiality of Responses in Social Research, "
        "American Sociologist 6 (1971); popular form by Dwork and Roth (2014), section 3.2"
    )

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        forced = (1 - self.truth) * self.second
        return self.truth + forced, forced

    @property
    def degenerate(self) -> str:
        return "truth must be above 0"

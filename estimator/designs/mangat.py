"""Mangat: who has the trait says yes; everybody else answers through Warner's device.

P(yes) = share + (1 - share)(1 - p); share = (yes / n - 1 + p) / p, variance P(1 - P) / (n p^2).
Nobody who has it says no, so a no proves that its giver does not: epsilon is infinite. Of a yes
the odds move by 1 / (1 - p).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class Mangat(YesNo):
    """Holders say yes; others say no with probability p, else yes.

    Attributes:
        p: P(the device shows the sensitive statement to who does not have it).
    """

    p: Fraction

    name: ClassVar[str] = "mangat"
    paper: ClassVar[str] = "Mangat, An Improved Randomized Response Strategy, JRSS B 56 (1994)"

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return Fraction(1), 1 - self.p

    @property
    def degenerate(self) -> str:
        return "p must be above 0"

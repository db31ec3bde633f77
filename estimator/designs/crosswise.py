"""Crosswise: are your answers to a sensitive and to a harmless question the same, or different?

P(same) = p * share + (1 - p)(1 - share) with p the known share of yes to the harmless question:
Warner's design without a device. share = (same / n + p - 1) / (2p - 1); epsilon = |ln(p / (1-p))|.
Reports are called "same" and "different", never yes and no: coded the other way round the
estimate is 1 - share, and nothing in the data would show it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class Crosswise(YesNo):
    """Report whether both answers agree.

    Attributes:
        p: Known share of yes to the harmless question.
    """

    p: Fraction

    name: ClassVar[str] = "crosswise"
    paper: ClassVar[str] = (
        "Yu, Tian and Tang, Two New Models for Survey Sampling with Sensitive Characteristic, "
        "Metrika 67 (2008)"
    )

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return self.p, 1 - self.p

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return ("different", "same")

    @property
    def degenerate(self) -> str:
        return "p must not be 1/2"

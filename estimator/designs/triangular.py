"""Triangular: a circle from those with two harmless answers, a triangle from all others.

P(triangle) = share + (1 - share) * p with p the known share of yes to the harmless question;
share = (triangles / n - p) / (1 - p), variance P(1 - P) / (n (1 - p)^2). A circle proves that its
giver does not have the trait: epsilon is infinite. Of a triangle the odds move by 1 / p.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class Triangular(YesNo):
    """Report "circle" if both answers are no, else "triangle".

    Attributes:
        p: Known share of yes to the harmless question.
    """

    p: Fraction

    name: ClassVar[str] = "triangular"
    paper: ClassVar[str] = (
        "Yu, Tian and Tang, Two New Models for Survey Sampling with Sensitive Characteristic, "
        "Metrika 67 (2008)"
    )

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return Fraction(1), self.p

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return ("circle", "triangle")

    @property
    def degenerate(self) -> str:
        return "p must be below 1"

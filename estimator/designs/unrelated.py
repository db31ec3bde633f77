"""Unrelated question: a device picks the sensitive question or a harmless one of known rate.

P(yes) = p * share + (1 - p) * q; share = (yes / n - (1 - p) q) / p, variance P(1 - P) / (n p^2).
epsilon is the worst of ln((p + (1-p) q) / ((1-p) q)) and ln((1 - (1-p) q) / ((1-p)(1-q))).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class UnrelatedQuestion(YesNo):
    """Answer the sensitive question with probability p, else the harmless one.

    Attributes:
        p: P(the sensitive question is picked).
        q: Known share of yes to the harmless question (a birth month, a digit); independent of
            the sensitive truth.
    """

    p: Fraction
    q: Fraction

    name: ClassVar[str] = "unrelated"
    paper: ClassVar[str] = (
        "Horvitz, Shah and Simmons (1967); Greenberg, Abul-Ela, Simmons and Horvitz, The Unrelated "
        "Question Randomized Response Model, JASA 64 (1969)"
    )

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        harmless = (1 - self.p) * self.q
        return self.p + harmless, harmless

    @property
    def degenerate(self) -> str:
        return "p must be above 0"

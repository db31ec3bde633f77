"""Stochastic lie detector: two samples with different odds tell the trait from lying about it.

Who does not have it answers through Warner's device; who has it says yes (as in Mangat's design)
with probability t, its honesty, and lies otherwise. P(yes) in sample i is
share * t + (1 - share)(1 - p_i), so 1 - share = (l1 - l2) / (p2 - p1) and
t = (l1 - (1 - share)(1 - p1)) / share. The share has the variance (V1 + V2) / (p2 - p1)^2; honesty
is a ratio, and its error is by the delta method. Respondents who keep to the instructions never
say no if they have it: a no proves, epsilon is infinite. Of a yes the odds move by 1 / (1 - p_i).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import Design, DesignError, Matrix, Scores


@dataclass(frozen=True)
class StochasticLieDetector(Design):
    """Mangat's design in two samples, with the holders' honesty as a second unknown.

    Attributes:
        p1: P(the device shows the sensitive statement) in sample 1.
        p2: The same in sample 2.
    """

    p1: Fraction
    p2: Fraction

    name: ClassVar[str] = "lie-detector"
    paper: ClassVar[str] = (
        "Moshagen, Musch and Erdfelder, A Stochastic Lie Detector, "
        "Behavior Research Methods 44 (2012)"
    )
    samples: ClassVar[tuple[str, ...]] = ("1", "2")
    ratios: ClassVar[Mapping[str, tuple[str, str]]] = {"honesty": ("admitted", "share")}

    def check(self) -> None:
        if self.p1 == self.p2:
            raise DesignError(f"p1 and p2 must differ, got both {self.p1}")

    @property
    def figures(self) -> tuple[str, ...]:
        """The share, and the part of all respondents who have it and say so."""
        return ("share", "admitted")

    def matrix(self, sample: int = 0) -> Matrix:
        """Return P(report | truth) for those who keep to the instructions."""
        yes = 1 - (self.p1, self.p2)[sample]
        return ((1 - yes, yes), (Fraction(0), Fraction(1)))

    def scores(self, figure: str) -> Scores:
        slope = 1 / (self.p2 - self.p1)
        if figure == "share":
            return ((Fraction(1), 1 - slope), (Fraction(0), slope))
        yes = 1 - self.p1
        return ((Fraction(0), 1 - slope * yes), (Fraction(0), slope * yes))

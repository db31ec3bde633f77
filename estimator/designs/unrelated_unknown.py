"""Unrelated question of unknown rate: two samples with different odds tell both rates apart.

Sample i: P(yes) = p_i * share + (1 - p_i) * q. So share = ((1 - p2) l1 - (1 - p1) l2) / (p1 - p2)
and q = (p1 l2 - p2 l1) / (p1 - p2) with l_i the shares of yes; variances are those of two
independent means, ((1 - p2)^2 V1 + (1 - p1)^2 V2) / (p1 - p2)^2. epsilon depends on q, which nobody
knows beforehand: where hardly anybody says yes to the harmless question, a yes gives away.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import Design, DesignError, Matrix, Scores, exact
from estimator.designs.unrelated import UnrelatedQuestion


@dataclass(frozen=True)
class UnrelatedUnknown(Design):
    """Two samples answer the sensitive question with probabilities p1 and p2.

    Attributes:
        p1: P(the sensitive question is picked) in sample 1.
        p2: The same in sample 2.
    """

    p1: Fraction
    p2: Fraction

    name: ClassVar[str] = "unrelated-unknown"
    paper: ClassVar[str] = UnrelatedQuestion.paper
    samples: ClassVar[tuple[str, ...]] = ("1", "2")

    def check(self) -> None:
        if self.p1 == self.p2:
            raise DesignError(f"p1 and p2 must differ, got both {self.p1}")

    @property
    def figures(self) -> tuple[str, ...]:
        return ("share", "innocuous")

    def matrix(self, sample: int = 0) -> Matrix | None:
        return None

    def at(self, q: Fraction | float | str) -> tuple[UnrelatedQuestion, UnrelatedQuestion]:
        """Return the design of each sample at a rate of the harmless question.

        Their `epsilon` is what a respondent reveals if that is the rate.
        """
        rate = exact("q", q)
        return UnrelatedQuestion(self.p1, rate), UnrelatedQuestion(self.p2, rate)

    def scores(self, figure: str) -> Scores:
        gap = self.p1 - self.p2
        if figure == "share":
            one, two = (1 - self.p2) / gap, -(1 - self.p1) / gap
        else:
            one, two = -self.p2 / gap, self.p1 / gap
        return ((Fraction(0), one), (Fraction(0), two))

"""Forced response: a die orders "say yes", "say no" or "tell the truth".

P(yes) = forced_yes + (1 - forced_yes - forced_no) * share; share = (yes / n - forced_yes) / truth
with truth = 1 - forced_yes - forced_no, variance P(1 - P) / (n truth^2). Only truth = 0 says
nothing: forced_yes may equal forced_no.

Two conventions are about, and both are taken. RRreg and most questionnaires state the chances of
both orders (there as "forced no, forced yes"); GLMMRR states P(truth) and P(yes | forced).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from estimator.designs.base import DesignError, YesNo, exact


@dataclass(frozen=True)
class ForcedResponse(YesNo):
    """Follow the order if there is one, else tell the truth.

    Attributes:
        forced_yes: P(order to say yes).
        forced_no: P(order to say no).
    """

    forced_yes: Fraction
    forced_no: Fraction

    name: ClassVar[str] = "forced"
    paper: ClassVar[str] = (
        "Boruch, Assuring Confidentiality of Responses in Social Research, "
        "American Sociologist 6 (1971); Fox and Tracy, Randomized Response (1986)"
    )

    @classmethod
    def by_truth(cls, truth: Fraction | float | str, yes_if_forced: Fraction | float | str) -> Self:
        """The other convention: P(truth), and P(yes) among those who are given an order."""
        forced = 1 - exact("truth", truth)
        yes = exact("yes_if_forced", yes_if_forced)
        return cls(forced * yes, forced * (1 - yes))

    def check(self) -> None:
        if self.forced_yes + self.forced_no > 1:
            raise DesignError(
                "forced_yes and forced_no must add up to less than 1, "
                f"got {self.forced_yes} + {self.forced_no}"
            )
        super().check()

    @property
    def truth(self) -> Fraction:
        """P(the truth is asked for)."""
        return 1 - self.forced_yes - self.forced_no

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return 1 - self.forced_no, self.forced_yes

    @property
    def degenerate(self) -> str:
        return "forced_yes + forced_no must be below 1, or nobody tells the truth"

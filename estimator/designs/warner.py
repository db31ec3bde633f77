"""Warner's mirrored question: a device picks the statement or its opposite; answer yes or no.

P(yes) = p * share + (1 - p) * (1 - share), so share = (yes / n + p - 1) / (2p - 1), with variance
share (1 - share) / n + p (1 - p) / (n (2p - 1)^2). epsilon = |ln(p / (1 - p))|.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class Warner(YesNo):
    """Answer "I have it" with probability p, else "I do not have it".

    Attributes:
        p: P(the sensitive statement itself is picked); below 1/2 is as good as above.
    """

    p: Fraction

    name: ClassVar[str] = "warner"
    paper: ClassVar[str] = (
        "Warner, Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias, "
        "JASA 60 (1965)"
    )

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return self.p, 1 - self.p

    @property
    def degenerate(self) -> str:
        return "p must not be 1/2"

"""The direct question: no noise and no protection. The baseline of every comparison."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import YesNo


@dataclass(frozen=True)
class Direct(YesNo):
    """Everybody reports the truth: P(yes) = share, epsilon infinite."""

    name: ClassVar[str] = "direct"
    paper: ClassVar[str] = "no randomization"

    @property
    def p_yes(self) -> tuple[Fraction, Fraction]:
        return Fraction(1), Fraction(0)

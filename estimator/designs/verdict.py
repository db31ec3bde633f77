"""Noise and misfit told apart: what an estimate below 0 or above 1 means, in words.

If the instructions were kept, estimates fall outside 0..1 by chance where the truth is near a
border. So the question is how often honest respondents, of whom nobody (or everybody) has it,
would give an estimate as far out or farther. If hardly ever, they did not keep to the
instructions, or the probabilities are not those of the design.
"""

from dataclasses import dataclass
from typing import Literal

from scipy import stats

from estimator.designs.base import YesNo

LIMIT = 0.025
"""One-sided: honest answers at the border are called a misfit so often (|z| > 1.96)."""


@dataclass(frozen=True)
class Verdict:
    """Whether a figure can be what it says.

    Attributes:
        kind: "inside" 0..1, "noise", or "misfit": answers do not fit the design.
        border: 0 or 1, whichever was passed; None inside.
        probability: One-sided: of an estimate as far out, or farther, if the border is the truth.
    """

    kind: Literal["inside", "noise", "misfit"]
    border: int | None = None
    probability: float | None = None

    @property
    def words(self) -> str:
        """One sentence for people; empty inside."""
        if self.border is None or self.probability is None:
            return ""
        side = "below 0" if self.border == 0 else "above 1"
        often = (
            f"{often_in_words(self.probability)} if the truth is {self.border} and all keep to "
            "the instructions"
        )
        if self.kind == "noise":
            return (
                f"The estimate is {side}. That is noise: as far out or farther comes {often}. "
                f"Read it as compatible with {self.border}, and keep the number for averages."
            )
        return (
            f"The estimate is {side}, and that is not noise: as far out or farther comes {often}. "
            "Answers do not fit the design: respondents did not keep to the instructions, or "
            "its probabilities are not those stated. Do not report it as "
            f"{self.border}."
        )


INSIDE = Verdict("inside")


def often_in_words(probability: float) -> str:
    """Return a probability as a frequency."""
    if probability >= 0.1:
        return f"{probability:.0%} of the time"
    if probability >= 1e-3:
        return f"{probability:.1%} of the time"
    if probability >= 1e-12:
        return f"once in {float(f'{1 / probability:.2g}'):,.0f} surveys"
    return "practically never"


def judge(estimate: float, error: float, tail: float | None = None) -> Verdict:
    """Judge one estimate.

    Args:
        estimate: Unclipped.
        error: Its standard error.
        tail: Exact probability of so far out or farther at the border, where it can be counted;
            else the normal law's is taken.
    """
    if 0 <= estimate <= 1:
        return INSIDE
    border = 0 if estimate < 0 else 1
    if tail is None:
        away = abs(estimate - border)
        tail = float(stats.norm.sf(away / error)) if error > 0 else 0.0
    return Verdict("misfit" if tail < LIMIT else "noise", border, tail)


def binomial_tail(design: YesNo, n: int, yes: int) -> float | None:
    """Return how likely so many second reports, or more extreme ones, are at the border passed.

    None if the estimate from `yes` of `n` is inside 0..1.
    """
    value = design.share(yes, n)
    if 0 <= value <= 1:
        return None
    law = stats.binom(n, design.a if value < 0 else design.a + design.c)
    fewer = (value < 0) == (design.c > 0)
    return float(law.cdf(yes) if fewer else law.sf(yes - 1))

"""What every paper or interview design states: its response matrix, its epsilon, its scores.

A respondent holds a truth (answers no or yes, unless the design says otherwise) and gives a report.
The *response matrix* P(report | truth) is what the instructions, dice, cards or birthdays make of
it. A *score* is what one report is worth: scores are chosen so that the mean score of a sample is
an unbiased estimate, whatever the truth. For two reports with P(yes) = a + c * share the score of a
yes is (1 - a) / c and that of a no -a / c. Scores lie below 0 and above 1, and so may their mean.

Probabilities are exact fractions. A float stands for the decimal that it prints as: 0.7 is 7/10.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar

from client_sdk.errors import SottovoceError
from estimator.debias import Channel

Matrix = tuple[tuple[Fraction, ...], ...]
"""P(report | truth): a row for each truth, a column for each report."""
Scores = tuple[tuple[Fraction, ...], ...]
"""What each report of each sample is worth."""


class DesignError(SottovoceError, ValueError):
    """A design cannot be asked, or cannot be told apart from another; names parameter and rule."""


def exact(name: str, value: Fraction | float | str) -> Fraction:
    """Return a probability as an exact fraction.

    Args:
        name: Of the parameter, for errors.
        value: In [0, 1]; a text may be a decimal or a fraction such as "1/6".

    Raises:
        DesignError: It is no number, or not in [0, 1].
    """
    try:
        fraction = value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise DesignError(f"{name} must be a number or a fraction, got {value!r}") from None
    if not 0 <= fraction <= 1:
        raise DesignError(f"{name} must be a probability in 0..1, got {value}")
    return fraction


def log_ratio(one: Fraction, other: Fraction) -> float:
    """Return |ln(one / other)|: infinite if exactly one is 0, and 0 if both are."""
    if one == other:
        return 0.0
    if not one or not other:
        return math.inf
    return abs(math.log(one / other))


@dataclass(frozen=True)
class Design(ABC):
    """One way of asking. Its fields are probabilities, taken as fractions, decimals or texts.

    Attributes:
        name: By which files and options call it.
        paper: Where it comes from.
        samples: Names of the random parts into which respondents are divided; mostly one.
        truths: What a respondent may hold.
        figures: What is estimated, in the order of printing.
        ratios: Further figures, each the ratio of two others.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    samples: ClassVar[tuple[str, ...]] = ("all",)
    ratios: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type in (Fraction, "Fraction"):
                value = exact(field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, value)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raise DesignError if the design says nothing about the truth."""

    @property
    def truths(self) -> tuple[str, ...]:
        """What a respondent may hold, in the order of the matrix's rows."""
        return ("no", "yes")

    @property
    def figures(self) -> tuple[str, ...]:
        """What is estimated."""
        return ("share",)

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        """Return what respondents of a sample may report, in the order of the matrix's columns."""
        return ("no", "yes")

    @abstractmethod
    def matrix(self, sample: int = 0) -> Matrix | None:
        """Return P(report | truth); None where it depends on what only the answers tell."""

    @abstractmethod
    def scores(self, figure: str) -> Scores:
        """Return what each report of each sample adds to a figure's mean."""

    @property
    def epsilon(self) -> float:
        """Worst |ln(P(report | truth) / P(report | other truth))|; inf where a report proves."""
        return max(max(self.evidence(sample).values()) for sample in range(len(self.samples)))

    def evidence(self, sample: int = 0) -> dict[str, float]:
        """Return how far each report moves the odds between any two truths: ln of the factor."""
        matrix = self.matrix(sample)
        if matrix is None:
            return dict.fromkeys(self.reports(sample), math.inf)
        return {
            report: max(log_ratio(one, other) for one in column for other in column)
            for report, column in zip(self.reports(sample), zip(*matrix, strict=True), strict=True)
        }

    @property
    def proofs(self) -> tuple[str, ...]:
        """What single reports prove, in words; empty where each is deniable."""
        found = []
        for sample, named in enumerate(self.samples):
            matrix = self.matrix(sample)
            if matrix is None:
                continue
            for report, column in zip(self.reports(sample), zip(*matrix, strict=True), strict=True):
                ruled_out = [t for t, p in zip(self.truths, column, strict=True) if p == 0]
                if ruled_out and any(column):
                    where = "" if len(self.samples) == 1 else f" of sample {named}"
                    found.append(
                        f"the report {report!r}{where} rules out the truth "
                        + " and ".join(map(repr, ruled_out))
                    )
        return tuple(found)


@dataclass(frozen=True)
class YesNo(Design):
    """A design with one sample and two reports: P(second report) = a + c * share.

    Subclasses say `p_yes`: the chances of the second report for those who hold and who do not.
    """

    @property
    @abstractmethod
    def p_yes(self) -> tuple[Fraction, Fraction]:
        """P(second report | holds it), P(second report | does not)."""

    def check(self) -> None:
        holder, other = self.p_yes
        if holder == other:
            raise DesignError(
                f"{self.name}: reports say nothing about the truth, for "
                f"{self.reports()[1]!r} comes with probability {holder} from everybody; "
                f"{self.degenerate}"
            )

    @property
    def degenerate(self) -> str:
        """The rule that parameters break when both chances are equal."""
        return "the chances of those who hold it and of others must differ"

    def matrix(self, sample: int = 0) -> Matrix:
        holder, other = self.p_yes
        return ((1 - other, other), (1 - holder, holder))

    @property
    def a(self) -> float:
        """P(second report) where nobody holds it."""
        return float(self.p_yes[1])

    @property
    def c(self) -> float:
        """By how much it rises when everybody does; may be negative, never 0."""
        return float(self.p_yes[0] - self.p_yes[1])

    @property
    def channel(self) -> Channel:
        """The same for `estimator.uncertainty`."""
        return Channel.from_probabilities(*self.p_yes)

    def scores(self, figure: str) -> Scores:
        holder, other = self.p_yes
        gap = holder - other
        return ((-other / gap, (1 - other) / gap),)

    def share(self, yes: float, n: float) -> float:
        """Return the estimated share behind so many second reports of n; unclipped."""
        return (yes / n - self.a) / self.c

    def variance(self, share: float, n: float) -> float:
        """Return the variance of the estimate from n independent respondents at a true share."""
        chance = self.a + self.c * share
        return chance * (1 - chance) / (n * self.c**2)

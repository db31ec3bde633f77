"""Questions with several answers: any response matrix P(report | truth), inverted.

The expected shares of reports are the matrix, transposed, times the shares of truths; the
estimate solves that and its covariance is inverse * (diag(l) - l l') / n * inverse'. epsilon is
the worst ratio within a column. A matrix that cannot be inverted is refused: a generalized
inverse would return numbers for shares that the reports say nothing about. So is one that nearly
cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from estimator.designs.base import Design, DesignError, Matrix, Scores, exact

WORST_CONDITION = 1e4
"""Of the matrix: above it, errors of reports are multiplied by more than any survey can bear."""


@dataclass(frozen=True)
class SeveralAnswers(Design):
    """Any number of answers, and as many reports.

    Attributes:
        answers: What a respondent may hold.
        response: P(report | truth), a row for each truth; rows add up to 1.
        named: What the reports are called; the answers, if empty.
    """

    answers: tuple[str, ...]
    response: Matrix
    named: tuple[str, ...] = ()

    name: ClassVar[str] = "matrix"
    paper: ClassVar[str] = (
        "Chaudhuri and Mukerjee, Randomized Response (1988), chapter 3; van den Hout and van der "
        "Heijden, Randomized Response, Statistical Disclosure Control and Misclassification (2002)"
    )

    def __post_init__(self) -> None:
        answers = tuple(map(str, self.answers))
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "named", tuple(map(str, self.named)) or answers)
        response = tuple(
            tuple(exact(f"matrix row {number}", value) for value in row)
            for number, row in enumerate(self.response, start=1)
        )
        object.__setattr__(self, "response", response)
        self.check()

    @classmethod
    def telling_truth(cls, answers: Sequence[str], truth: Fraction | float | str) -> Self:
        """Tell the truth with probability `truth`, else give one of all answers, drawn evenly."""
        p = exact("truth", truth)
        other = (1 - p) / len(answers)
        return cls(
            tuple(answers),
            tuple(tuple(other + p * (i == j) for j in range(len(answers)))
                  for i in range(len(answers))),
        )  # fmt: skip

    def check(self) -> None:
        size = len(self.answers)
        if size < 2:
            raise DesignError(f"answers must be two or more, got {size}")
        for what, names in (("answers", self.answers), ("reports", self.named)):
            if len(set(names)) != len(names):
                raise DesignError(f"{what} must differ from each other")
        if len(self.response) != size or any(len(row) != len(self.named) for row in self.response):
            raise DesignError(
                f"the matrix must have {size} rows, one for each answer, "
                f"of {len(self.named)} probabilities, one for each report"
            )
        if len(self.named) != size:
            raise DesignError(
                f"there must be as many reports as answers, got {len(self.named)} and {size}: "
                "a generalized inverse would hide what the reports cannot tell"
            )
        for number, row in enumerate(self.response, start=1):
            if abs(sum(row, Fraction(0)) - 1) > Fraction(1, 10**6):
                raise DesignError(f"matrix row {number} must add up to 1, got {float(sum(row)):g}")
        if not self.condition <= WORST_CONDITION:
            raise DesignError(
                "the matrix cannot be inverted: some truths give (nearly) the same reports as "
                f"mixtures of others (condition {self.condition:.3g}, at most "
                f"{WORST_CONDITION:g}); a generalized inverse would make up their shares"
            )

    @property
    def truths(self) -> tuple[str, ...]:
        return self.answers

    @property
    def figures(self) -> tuple[str, ...]:
        return self.answers

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return self.named

    def matrix(self, sample: int = 0) -> Matrix:
        return self.response

    @property
    def condition(self) -> float:
        """By how much inversion may multiply a relative error of the reports' shares."""
        return float(np.linalg.cond(np.array(self.response, np.float64)))

    def scores(self, figure: str) -> Scores:
        inverse = _inverse(self.response)
        position = self.answers.index(figure)
        return (tuple(row[position] for row in inverse),)


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse, exactly: two equal scores must stay equal."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(i for i in range(column, size) if rows[i][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for i in range(size):
            if i != column and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [
                    value - factor * own for value, own in zip(rows[i], rows[column], strict=True)
                ]
    return tuple(tuple(row[size:]) for row in rows)

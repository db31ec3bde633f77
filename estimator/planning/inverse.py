"""The other way round: how many devices, how much epsilon, how few values a target takes.

The number of reports has a closed form, or is near one where supports are counted. Epsilon is found
by bisection over mechanisms as devices run them, thresholds and all, so that the answer holds for
what is declared with it.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from client_sdk.errors import ParameterError, RegistryError
from estimator.errors import DecodeError
from estimator.planning.question import LEAST_ASKED, Question
from estimator.planning.ranking import Choice, choose

LEAST_EPSILON, MOST_EPSILON = Decimal("0.01"), Decimal(20)
"""Between them an epsilon is looked for; above 20 nothing is protected."""
_UP = Context(prec=3, rounding=ROUND_CEILING)
_CLOSE = Decimal("1.002")


@dataclass(frozen=True)
class Target:
    """How exact an answer has to be: one of the two.

    Attributes:
        error: Standard error of the question's smallest share that matters, at most; of a mean,
            of the one where all numbers lie in the middle of the range.
        limit: Detection limit, at most.
    """

    error: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.error, self.limit) if each is not None]
        if len(given) != 1 or not LEAST_ASKED <= given[0] < 1:
            raise ValueError(
                f"give an error or a detection limit between 0 and 1, at least {LEAST_ASKED:g}, "
                f"got error={self.error}, limit={self.limit}"
            )

    def met_by(self, choice: Choice, question: Question) -> bool:
        """Return whether a mechanism reaches it with the question's reports."""
        if self.limit is not None and choice.law is not None:
            limit = choice.law.detection_limit(question.reports, question.level, choice.cells)
            return limit is not None and limit <= self.limit
        needed = self.reports(choice, question)
        return needed is not None and needed <= question.reports

    def reports(self, choice: Choice, question: Question) -> int | None:
        """Return the least number of reports that reach it; None: no number does, or no formula."""
        if choice.law is None:
            return None
        if self.error is not None:
            share = 0.5 if choice.law.of == "mean" else question.smallest_share
            return choice.law.reports_for_error(self.error, share)
        assert self.limit is not None
        return choice.law.reports_for_detection(self.limit, question.level, choice.cells)

    def devices(self, choice: Choice, question: Question) -> int | None:
        """Return how many devices it takes, with the question's `every` and `sample`."""
        reports = self.reports(choice, question)
        return None if reports is None else math.ceil(reports / question.inclusion)


@dataclass(frozen=True)
class Needed:
    """What one mechanism needs for a target, everything else as it was asked.

    Attributes:
        mechanism: Name.
        reports: With the question's epsilon; None: no number of them is enough.
        devices: The same, with `every` and `sample`.
        epsilon: With the question's devices, rounded up; None: none up to 20 is enough.
    """

    mechanism: str
    reports: int | None
    devices: int | None
    epsilon: Decimal | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        found = asdict(self)
        return found | {"epsilon": None if self.epsilon is None else float(self.epsilon)}


def needed(choice: Choice, question: Question, target: Target) -> Needed:
    """Return what a mechanism needs for a target."""
    return Needed(
        choice.name,
        target.reports(choice, question),
        target.devices(choice, question),
        epsilon_for(choice, question, target),
    )


def epsilon_for(choice: Choice, question: Question, target: Target) -> Decimal | None:
    """Return the least epsilon, of three digits, with which a mechanism reaches a target.

    A sketch keeps its shape, remembered noise its own epsilon; other options are the usual ones.
    Those that are whole numbers (cells of a hash function, sizes of a subset) change with epsilon
    in steps, so that one a per cent or two smaller may do as well.
    """
    if choice.law is None:
        return None
    declared = choice.declared()

    def enough(epsilon: Decimal) -> bool:
        asked = question.at(epsilon)
        try:
            return target.met_by(choose(declared, asked), asked)
        except (RegistryError, ParameterError, DecodeError):
            return False  # too small an epsilon for its thresholds or its matrix

    return _least(enough, LEAST_EPSILON, _most_epsilon(question))


def _most_epsilon(question: Question) -> Decimal:
    memoize = question.memoize
    if memoize is None or memoize.epsilon_permanent == question.epsilon:
        return MOST_EPSILON
    return min(MOST_EPSILON, memoize.epsilon_permanent * Decimal("0.99"))


def _least(enough: Callable[[Decimal], bool], low: Decimal, high: Decimal) -> Decimal | None:
    if enough(low):
        return low
    if not enough(high):
        return None
    while high > low * _CLOSE:
        middle = (low * high).sqrt()
        low, high = (low, middle) if enough(middle) else (middle, high)
    rounded = (_UP.plus(low), _UP.plus(high))
    return next((epsilon for epsilon in rounded if enough(epsilon)), high)


def values_for(choice: Choice, question: Question, target: Target) -> int | None:
    """Return over how many values at most a mechanism reaches a target; None: not over two.

    Fewer values make decisions easier, and those of one chosen cell more exact.
    """
    if question.type == "boolean" or choice.law is None or choice.law.of == "mean":
        return None
    declared = choice.declared()

    def enough(values: int) -> bool:
        asked = question.with_values(values)
        try:
            return target.met_by(choose(declared, asked), asked)
        except (RegistryError, ParameterError, DecodeError):
            return False

    low, high = 2, question.listed
    if not enough(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if enough(middle) else (low, middle - 1)
    return low

"""Which regression explains the answers of a survey: by design, and by what its columns hold."""

import math
from collections.abc import Sequence

from estimator.designs.answers import Answer
from estimator.designs.base import DesignError, YesNo
from estimator.designs.lie_detector import StochasticLieDetector
from estimator.designs.logistic import MOST_CATEGORIES, Fit, Term, category, fit, number
from estimator.designs.table import BadRows

_MOST_NUMBERED_CATEGORIES = 10
"""Numbers among the names of categories, as in 1, 2, 3, "4 or more"."""
_HUGE = 1e100
"""Numbers whose squares no float holds are none."""


def regression(
    answers: Sequence[Answer], names: Sequence[str], places: Sequence[int], level: float
) -> Fit:
    """Fit the answers of one survey.

    Args:
        answers: Without blanks and refusals.
        names: Of the covariates.
        places: Where they stand among each answer's further columns.
        level: Of the intervals.

    Raises:
        BadRows: A covariate is a number in most rows, and not in some.
        DesignError: There is no regression for the design, or no top of the likelihood.
    """
    design = answers[0].design
    yes = [float(answer.report or 0) for answer in answers]
    times = [answer.count for answer in answers]
    terms = [
        _term(name, [answer.others[place] for answer in answers], [a.where for a in answers])
        for name, place in zip(names, places, strict=True)
    ]
    weights = [answer.weight or 0.0 for answer in answers] if answers[0].weight else None
    if isinstance(design, StochasticLieDetector):
        no = [float((design.p1, design.p2)[answer.sample]) for answer in answers]
        a, c = [1 - p for p in no], [p - 1 for p in no]
        lying = [True] * len(answers)
        return fit(yes, a, c, terms, level=level, lying=lying, times=times, weights=weights)
    own = [answer.design for answer in answers if isinstance(answer.design, YesNo)]
    if len(own) < len(answers):
        raise DesignError(
            f"there is no regression for {design.name}: it is for designs with two reports in "
            "which P(yes) = a + c * share, and for lie-detector"
        )
    a, c = [each.a for each in own], [each.c for each in own]
    return fit(yes, a, c, terms, level=level, times=times, weights=weights)


def _term(name: str, values: Sequence[str], where: Sequence[str]) -> Term:
    """Return a covariate: a number if all its values are, else categories.

    Raises:
        BadRows: All but a few are numbers, of too many kinds for categories: those are mistyped.
    """
    numbers = [_number_in(value) for value in values]
    others = [line for line, value in zip(where, numbers, strict=True) if value is None]
    if others:
        if len({value for value in numbers if value is not None}) > _MOST_NUMBERED_CATEGORIES:
            raise BadRows([f"{line}: {name} must be a number, as in other rows" for line in others])
        if len(set(values)) > MOST_CATEGORIES and any(_has_comma(value) for value in values):
            raise BadRows(
                [f"{line}: {name} must have a decimal point, no comma" for line in others]
            )
        return category(name, values)
    return number(name, [value for value in numbers if value is not None])


def _number_in(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < _HUGE else None


def _has_comma(text: str) -> bool:
    return "," in text and _number_in(text.replace(",", ".")) is not None

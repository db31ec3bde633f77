"""What a question costs a device over time: how long a budget lasts, and what spreading buys."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from client_sdk.mechanisms.thresholds import budget_micro
from client_sdk.metric import Metric
from client_sdk.review import yearly
from estimator.planning.question import Question
from estimator.planning.ranking import Choice

DAYS = {"day": 1.0, "week": 7.0, "month": 365.2425 / 12}
EVERY = (1, 2, 5, 10, 20)
"""Blocks of epochs that are compared."""


@dataclass(frozen=True)
class Lifetime:
    """How long a device's budget for one metric lasts.

    Attributes:
        charge: What one report costs; where values are remembered, the reservation, paid once.
        reports: That the budget pays for; None: endlessly many.
        epochs: Over which they are spread, with `every`.
        days: The same as days; None also where it is asked once.
    """

    charge: float
    reports: int | None
    epochs: int | None
    days: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def lifetime(metric: Metric, budget: Decimal) -> Lifetime:
    """Return how long a budget of epsilon lasts if nothing else is spent of it.

    Args:
        metric: As a file would declare it.
        budget: Of one device for this metric.
    """
    charge, cap = metric.charge, budget_micro(budget)
    if metric.memoize is not None and charge <= cap:
        return Lifetime(charge / 1e6, None, None, None)
    reports = cap // charge  # a reservation above the cap pays for none
    if metric.epoch == "once":
        return Lifetime(charge / 1e6, min(reports, 1), min(reports, 1), None)
    epochs = reports * metric.every
    return Lifetime(charge / 1e6, reports, epochs, epochs * DAYS[metric.epoch])


@dataclass(frozen=True)
class Spread:
    """What reporting in one of `every` epochs makes of a question.

    Attributes:
        every: As in metrics.toml.
        reports: Of an epoch.
        error: Standard error of a rare value's share, in one epoch.
        detection_limit: In one epoch.
        yearly: Most epsilon that a device spends in a year.
        lasts_days: How long the budget lasts; None: endlessly, or no budget was named.
    """

    every: int
    reports: float
    error: float | None
    detection_limit: float | None
    yearly: float
    lasts_days: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def spreading(
    choice: Choice, question: Question, budget: Decimal | None = None, every: Iterable[int] = EVERY
) -> tuple[Spread, ...]:
    """Return what `every` costs in error and saves in epsilon, all else as it was asked.

    An epoch has a share of the reports; all epochs of a block together are as exact as one in which
    every device reports, where the share stays the same. `sample` costs as much error, and saves
    epsilon only for the devices that take no part.
    """
    rows = []
    for each in (1,) if question.epoch == "once" else every:
        asked = replace(question, every=each)
        metric = choice.metric._replace(every=each)
        limit = error = None
        if choice.law is not None:
            error = choice.law.error(0.0, asked.reports)
            if choice.law.of == "mean":
                error = choice.law.worst_error(asked.reports)
            limit = choice.law.detection_limit(asked.reports, question.level, choice.cells)
        lasts = None if budget is None else lifetime(metric, budget).days
        spent = yearly(metric) / 1e6
        rows.append(Spread(each, asked.reports, error, limit, spent, lasts))
    return tuple(rows)

"""Memoized metrics: what reports that share their noise tell, by two figures that are no sums.

The noise of a remembered response is drawn once for each distinct value, so rules for fresh noise
say nothing about it (reference 10.3). Two questions have answers:

* which values were they, of two histories that change at the same times? The memories of distinct
  values are independent, so what N reports of each lose adds up over them: sum of epsilon_N. A
  ledger is charged the most that this can be, epsilon_permanent for each distinct value.
* and did the value change? Reports that two histories remember differently lose at most the fresh
  stage's epsilon each: T times that, over all T reports, bounds what tells *any* two apart.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism
from client_sdk.mechanisms.thresholds import added, micro, multiple


class Remembered(NamedTuple):
    """What a device has reported of one memoized metric.

    Attributes:
        mechanism: One that memoizes.
        reports: Number of reports of each distinct value (of each memory, where values share one).
    """

    mechanism: Mechanism
    reports: tuple[int, ...]

    @property
    def enforced(self) -> int:
        """Micro-epsilon of epsilon_permanent for each distinct value."""
        permanent = self.mechanism.epsilon_permanent
        if permanent is None:
            raise ParameterError(f"{self.mechanism.name} remembers nothing: its noise is fresh")
        return micro(permanent, sum(1 for number in self.reports if number))


def same_changes(remembered: Remembered) -> Decimal:
    """Return the exact bound for two histories that change at the same times."""
    return added(remembered.mechanism.epsilon_of(number) for number in remembered.reports if number)


def covering_changes(remembered: Iterable[Remembered]) -> Decimal | None:
    """Return the bound for any two histories, of all metrics; None if there is none."""
    fresh_stages = [
        (mechanism.epsilon_instantaneous, sum(reports))
        for mechanism, reports in remembered
        if any(reports)
    ]
    if any(epsilon.is_infinite() for epsilon, _ in fresh_stages):
        return None
    return added(multiple(epsilon, reports) for epsilon, reports in fresh_stages)

"""A bound from a sum alone: one for every mix of reports that adds up to it."""

import json
import math
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from client_sdk.accounting import of_unknown_reports, worst_law
from client_sdk.accounting.renyi import renyi

GOLDEN: list[dict[str, Any]] = [
    case
    for case in json.loads(Path(__file__).with_name("golden_accounting.json").read_text())[
        "composition"
    ]
    if "exact_rr" in case
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_equal_reports_are_shown_exactly(case: dict[str, Any]) -> None:
    shown = of_unknown_reports(case["basic"], {case["eps"]}, case["delta"])
    assert shown == pytest.approx(case["exact_rr"], rel=1e-9) and shown <= case["basic"]


def test_huge_epsilons_and_orders_do_not_overflow() -> None:
    assert renyi(worst_law(40), 256.0) == pytest.approx(40.0, rel=1e-3)
    assert of_unknown_reports(1000.0, {40.0, 0.001}) <= 1000.0


def exact_unequal(epsilons: tuple[float, ...], delta: float) -> float:
    """The loss of randomized responses of unequal epsilon, by listing every outcome."""
    law = {0.0: 1.0}
    for epsilon in epsilons:
        keep = 1 / (1 + math.exp(-epsilon))
        step: dict[float, float] = {}
        for loss, chance in law.items():
            for sign, part in ((1, keep), (-1, 1 - keep)):
                at = round(loss + sign * epsilon, 9)
                step[at] = step.get(at, 0.0) + chance * part
        law = step
    low, high = 0.0, sum(epsilons)
    for _ in range(60):
        middle = (low + high) / 2
        beyond = sum(c * -math.expm1(middle - loss) for loss, c in law.items() if loss > middle)
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_a_sum_alone_bounds_every_mix_that_adds_up_to_it(delta: float) -> None:
    prices = (0.1, 0.5, 1.0, 3.0)
    tighter = 0
    for reports in (1, 5, 8):
        for mix in combinations_with_replacement(prices, reports):
            shown = of_unknown_reports(sum(mix), prices, delta)
            assert exact_unequal(mix, delta) - 1e-9 <= shown <= sum(mix)
            tighter += shown < sum(mix) * 0.99
    assert tighter or delta < 1e-2


def test_many_small_reports_are_shown_well_below_their_sum() -> None:
    assert of_unknown_reports(10.0, {0.1, 0.05}) < 6
    assert of_unknown_reports(10.0, {10.0}) == pytest.approx(10.0, rel=1e-3)


def test_nothing_spent_is_nothing() -> None:
    assert of_unknown_reports(0.0, {1.0}) == 0.0
    assert of_unknown_reports(3.0, ()) == 3.0  # after a recovery, without fresh-noise metrics

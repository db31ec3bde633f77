"""Composition: the reference's figures, and bounds that are bounds."""

import json
import math
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from estimator.ledger.composition import (
    by_renyi,
    from_renyi,
    kairouz_oh_viswanath,
    of_equal_reports,
    of_unknown_reports,
    renyi,
)

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("composition.json").read_text())
EXACT = {"rel": 1e-9, "abs": 1e-9}


@pytest.mark.parametrize("case", GOLDEN["equal"], ids=lambda case: case["id"])
def test_equal_reports_as_in_the_reference(case: dict[str, Any]) -> None:
    epsilons, delta = [case["eps"]] * case["k"], case["delta"]
    assert kairouz_oh_viswanath(epsilons, delta) == pytest.approx(case["kov_closed"], **EXACT)
    assert by_renyi(epsilons, delta) == pytest.approx(case["rdp_cks"], **EXACT)
    exact = of_equal_reports(case["eps"], case["k"], delta)
    assert exact == pytest.approx(case["exact_rr"], **EXACT)
    # What is shown when only the sum is known is the exact figure here, and never above the sum.
    shown = of_unknown_reports(case["basic"], {case["eps"]}, delta)
    assert shown == pytest.approx(case["exact_rr"], **EXACT) and shown <= case["basic"]


@pytest.mark.parametrize("case", GOLDEN["unequal"], ids=lambda case: case["id"])
def test_unequal_reports_as_in_the_reference(case: dict[str, Any]) -> None:
    found = kairouz_oh_viswanath(case["eps_list"], case["delta"])
    assert found == pytest.approx(case["kov_hetero"], **EXACT)


@pytest.mark.parametrize("case", GOLDEN["orders"], ids=lambda case: case["id"])
def test_single_orders_as_in_the_reference(case: dict[str, Any]) -> None:
    assert renyi(1.0, case["alpha"]) == pytest.approx(case["rr_eps1"], **EXACT)
    found = from_renyi(1.0, case["alpha"], 1e-6)
    assert found == pytest.approx(case["cks_delta1e-6_of_rdp1"], **EXACT)


def test_huge_epsilons_and_orders_do_not_overflow() -> None:
    assert renyi(40.0, 256.0) == pytest.approx(40.0, rel=1e-3)
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

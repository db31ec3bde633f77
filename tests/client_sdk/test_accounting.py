"""Rules of composition: the reference's figures, the mistakes it warns of, and bounds that hold."""

import json
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from client_sdk.accounting import Fresh, Remembered, account, worst_law
from client_sdk.accounting.account import LOSSES, SUM, rules
from client_sdk.accounting.advanced import advanced, kairouz_oh_viswanath, optimal_pairs
from client_sdk.accounting.concentrated import by_concentrated, concentrated, from_concentrated
from client_sdk.accounting.law import Law, merged
from client_sdk.accounting.loss_distribution import by_losses, delta_at
from client_sdk.accounting.renyi import ORDERS, by_renyi, from_renyi, renyi
from client_sdk.errors import ParameterError
from client_sdk.mechanisms import build

GOLDEN: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("golden_accounting.json").read_text()
)["composition"]
EXACT = {"rel": 1e-9, "abs": 1e-9}


def golden(prefix: str) -> Any:
    cases = [case for case in GOLDEN if case["id"].startswith(prefix)]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=lambda case: case["id"])


def of(*groups: tuple[float, int]) -> tuple[Fresh, ...]:
    return merged(groups)


HETERO = next(case for case in GOLDEN if case["id"] == "comp-hetero")
MIXED = of(*((epsilon, 1) for epsilon in HETERO["eps_list"]))


@golden("comp-0")
def test_small_equal_reports_as_in_the_reference(case: dict[str, Any]) -> None:
    compare_equal(case)


@golden("comp-1")
def test_larger_equal_reports_as_in_the_reference(case: dict[str, Any]) -> None:
    compare_equal(case)


def compare_equal(case: dict[str, Any]) -> None:
    fresh, delta, reports = of((case["eps"], case["k"])), case["delta"], case["k"]
    assert advanced(fresh, delta) == pytest.approx(case["advanced_drv"], **EXACT)
    assert kairouz_oh_viswanath(fresh, delta) == pytest.approx(case["kov_closed"], **EXACT)
    assert by_losses(fresh, delta) == pytest.approx(case["exact_rr"], **EXACT)
    assert by_renyi(fresh, delta) == pytest.approx(case["rdp_cks"], **EXACT)
    assert by_concentrated(fresh, delta) == pytest.approx(case["zcdp_tanh"], **EXACT)
    # The conversions that are improved on here, on the same divergences.
    mironov = min(
        reports * renyi(fresh[0].law, order) + math.log(1 / delta) / (order - 1) for order in ORDERS
    )
    assert mironov == pytest.approx(case["rdp_mironov"], **EXACT)
    blunt = from_concentrated(reports * case["eps"] ** 2 / 2, delta)
    assert blunt == pytest.approx(case["zcdp_bs"], **EXACT)
    assert by_renyi(fresh, delta) <= mironov and by_concentrated(fresh, delta) <= blunt
    found = account([(case["eps"], reports)], delta=delta)
    assert (found.rule, found.enforced) == (LOSSES, round(case["basic"] * 1e6))
    assert found.epsilon == pytest.approx(case["exact_rr"], **EXACT)
    assert found.figures[SUM] == pytest.approx(case["basic"], **EXACT)


def test_unequal_reports_as_in_the_reference() -> None:
    delta = HETERO["delta"]
    assert advanced(MIXED, delta) == pytest.approx(HETERO["adv_hetero"], **EXACT)
    assert kairouz_oh_viswanath(MIXED, delta) == pytest.approx(HETERO["kov_hetero"], **EXACT)
    # 6.80 (reference 11); the grid adds at most 3/8192 of 9.
    assert by_losses(MIXED, delta) == pytest.approx(6.80, abs=5e-3)


@golden("kov-")
def test_the_optimal_family_is_the_references_and_lies_on_the_exact_curve(
    case: dict[str, Any],
) -> None:
    pairs = optimal_pairs(case["eps"], case["k"])
    assert pairs[case["i"]] == pytest.approx((case["eps_i"], case["delta_i"]), **EXACT)
    assert pairs[0] == (case["k"] * case["eps"], 0.0)
    fresh = Fresh(worst_law(case["eps"]), case["k"])
    for epsilon, delta in pairs:
        assert delta_at(fresh, epsilon) == pytest.approx(delta, rel=1e-9, abs=1e-300)


def test_the_optimal_family_of_thousands_of_reports_lies_on_the_exact_curve() -> None:
    fresh = Fresh(worst_law(0.05), 2000)
    for epsilon, delta in optimal_pairs(0.05, 2000)[600:1000:50]:
        assert delta_at(fresh, epsilon) == pytest.approx(delta, rel=1e-8, abs=1e-300)


@golden("rdp-")
def test_divergences_of_single_reports_as_in_the_reference(case: dict[str, Any]) -> None:
    order = case["alpha"]
    assert renyi(worst_law(1), order) == pytest.approx(case["rr_eps1"], **EXACT)
    ten = Law(Decimal(1), Fraction(math.e / (math.e + 9)))
    assert renyi(ten, order) == pytest.approx(case["grr_eps1_d10"], **EXACT)
    converted = from_renyi(1.0, order, 1e-6)
    assert converted == pytest.approx(case["cks_delta1e-6_of_rdp1"], **EXACT)
    assert converted <= case["mironov_delta1e-6_of_rdp1"]


@golden("zcdp-")
def test_rho_is_the_sharp_one(case: dict[str, Any]) -> None:
    assert concentrated(case["eps"]) == pytest.approx(case["rho_tight"], **EXACT)
    assert concentrated(case["eps"]) <= case["rho_bs"]
    # It is the supremum of divergence over order, met as the order tends to 1.
    law = worst_law(case["eps"])
    ratios = [renyi(law, order) / order for order in (1 + 1e-6, *ORDERS)]
    assert max(ratios) <= case["rho_tight"] + 1e-9
    assert ratios[0] == pytest.approx(case["rho_tight"], rel=1e-5)


# Mistakes that are often made (reference 19)


def test_unequal_reports_are_not_taken_for_as_many_of_the_largest() -> None:
    largest = of((1.0, len(HETERO["eps_list"])))
    wrong = advanced(largest, HETERO["delta"])
    assert wrong == pytest.approx(HETERO["adv_with_max_eps"], **EXACT)  # 135.6 against 9.0
    found = account([(epsilon, 1) for epsilon in HETERO["eps_list"]])
    assert found.enforced == 9_000_000
    assert all(figure <= 9.0 for figure in found.figures.values()) and found.epsilon < 7


def test_the_second_term_of_advanced_composition_is_not_k_epsilon_squared() -> None:
    delta = 1e-6
    for epsilon, reports in ((0.1, 30), (1.0, 365)):
        spread = math.sqrt(2 * reports * math.log(1 / delta)) * epsilon
        drift = advanced(of((epsilon, reports)), delta) - spread
        assert drift == pytest.approx(reports * epsilon * math.expm1(epsilon))
        assert drift > reports * epsilon**2 * 1.04


def test_divergences_are_added_at_each_order_and_converted_once() -> None:
    one, many = of((0.1, 1)), of((0.1, 100))
    converted_each = 100 * min(by_renyi(one, 1e-6 / 100), 0.1)
    assert converted_each == pytest.approx(10.0)  # that is the plain sum, with delta on top
    assert by_renyi(many, 1e-6) == pytest.approx(5.0731526291, rel=1e-9)


def test_a_conversion_above_the_sum_is_never_shown() -> None:
    fresh = of((1.0, 5))
    raw = (advanced(fresh, 1e-6), by_renyi(fresh, 1e-6), by_concentrated(fresh, 1e-6))
    assert all(figure > 5 for figure in raw)
    assert all(figure <= 5 for figure in account([(1.0, 5)]).figures.values())


def test_no_remembered_noise_enters_the_rules() -> None:
    memoized = build("memoized_symmetric_unary", domain=3, epsilon="1", epsilon_permanent="2")
    with pytest.raises(ParameterError, match="fresh noise compose"):
        account([(memoized, 3)])


# What every rule must keep

EPSILONS = st.floats(0.01, 4).map(lambda number: round(number, 3))
REPORTS = st.integers(1, 200)
DELTAS = st.floats(1e-12, 0.3)
BY = {
    "advanced": advanced,
    "kairouz-oh-viswanath": kairouz_oh_viswanath,
    "concentrated": by_concentrated,
    "renyi": by_renyi,
    LOSSES: by_losses,
}


@given(EPSILONS, REPORTS, st.integers(0, 50), DELTAS, st.floats(1, 100))
@settings(max_examples=40, deadline=None)
def test_every_rule_grows_with_reports_and_falls_with_delta(
    epsilon: float, reports: int, more: int, delta: float, factor: float
) -> None:
    assume(delta * factor < 0.9)
    for rule in BY.values():
        figure = rule(of((epsilon, reports)), delta)
        assert figure <= rule(of((epsilon, reports + more)), delta) + 1e-9
        assert rule(of((epsilon, reports)), delta * factor) <= figure + 1e-9


@given(st.lists(st.tuples(EPSILONS, st.integers(1, 40)), min_size=1, max_size=3), DELTAS)
@settings(max_examples=40, deadline=None)
def test_no_rule_is_above_the_sum_or_below_the_exact_distribution(
    groups: list[tuple[float, int]], delta: float
) -> None:
    fresh = of(*groups)
    found = rules(fresh, delta)
    plain = sum(epsilon * reports for epsilon, reports in groups)
    exact = by_losses(fresh, delta)
    grid = 0.0 if len(fresh) == 1 else len(fresh) * plain / 8192
    assert exact is not None
    for rule, figure in found.items():
        assert exact - grid - 1e-9 <= figure <= plain + 1e-9, rule


@given(st.lists(st.tuples(EPSILONS, st.integers(1, 30)), min_size=2, max_size=3), DELTAS)
@settings(max_examples=25, deadline=None)
def test_more_reports_beside_others_reveal_more_but_for_the_grid(
    groups: list[tuple[float, int]], delta: float
) -> None:
    (epsilon, reports), *others = groups
    fewer, more = of(*groups), of((epsilon, reports + 1), *others)
    before, after = by_losses(fewer, delta), by_losses(more, delta)
    grid = len(groups) * sum(each * number for each, number in groups) / 8192
    assert before is not None and after is not None and before <= after + grid


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 1e-40, math.nan])
def test_a_delta_that_says_nothing_is_refused(delta: float) -> None:
    with pytest.raises(ParameterError, match="delta must lie in"):
        account([(1, 1)], delta=delta)


def test_wrong_reports_and_epsilons_are_refused() -> None:
    with pytest.raises(ParameterError, match="reports must be at least 0, got reports=-1"):
        account([(1, -1)])
    with pytest.raises(ParameterError, match="epsilon must be positive"):
        account([(0, 1)])


def test_nothing_sent_is_nothing() -> None:
    found = account([])
    assert (found.enforced, found.epsilon, found.rule) == (0, 0.0, SUM)
    assert account([(1, 0)]) == found


def test_so_many_reports_that_no_distribution_is_computed_have_the_other_rules() -> None:
    found = account([(0.001, 2_000_000)])
    assert LOSSES not in found.figures and found.rule == "renyi"
    assert found.epsilon < found.enforced / 1e6


def test_a_hosts_decimal_context_shapes_no_figure() -> None:
    memoized = build("memoized_symmetric_unary", domain=3, epsilon="1", epsilon_permanent="2")

    def found() -> Any:
        return account([("0.123456789", 7), ("0.7", 3)], [Remembered(memoized, (3, 1))])

    usual = found()
    with localcontext(Context(prec=3)):
        assert found() == usual


@pytest.mark.parametrize("epsilon", ["1e-6", "1e-4", "0.01", "0.9", "30"])
@pytest.mark.parametrize("order", [1.1, 2.0, 100.0])
def test_divergences_of_tiny_epsilons_keep_their_digits(epsilon: str, order: float) -> None:
    exact, above = Decimal(epsilon), Decimal(order) - 1
    with localcontext(Context(prec=60)):
        kept = exact.exp() / (1 + exact.exp())
        high, low = (above * exact).exp(), (-above * exact).exp()
        wanted = (kept * high + (1 - kept) * low).ln() / above
    assert renyi(worst_law(epsilon), order) == pytest.approx(float(wanted), rel=1e-8, abs=0)

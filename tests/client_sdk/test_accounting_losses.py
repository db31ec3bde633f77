"""Loss distributions against what they stand for: real channels, and sums over all outcomes."""

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.accounting import Fresh, Law, grid, law_of, worst_law
from client_sdk.accounting.grid import Losses, all_convolved, convolved, on_grid
from client_sdk.accounting.law import merged
from client_sdk.accounting.loss_distribution import by_losses, chances, delta_at
from client_sdk.audit import law as law_of_code
from client_sdk.mechanisms import (
    CountMeanSketch,
    GeneralizedRandomizedResponse,
    Mechanism,
    OptimizedUnary,
    RandomizedResponse,
    SymmetricUnary,
    build,
)
from client_sdk.mechanisms.local_hashing import OptimizedLocalHashing

GOLDEN: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("golden_accounting.json").read_text()
)["composition"]
EXACT = {"rel": 1e-9, "abs": 1e-9}

THREE_POINTS = [
    RandomizedResponse.from_epsilon(1),
    GeneralizedRandomizedResponse.from_epsilon(2, "0.3"),
    GeneralizedRandomizedResponse.from_epsilon(5, 2),
    SymmetricUnary.from_epsilon(3, 1),
    OptimizedUnary.from_epsilon(4, "0.7"),
    build("subset_selection", domain=5, epsilon="0.5", size=2),
    OptimizedLocalHashing.from_epsilon(9, 1, 3),
    build("binary_local_hashing", domain=5, epsilon=1),
    build("hadamard_response", domain=5, epsilon=1),
    CountMeanSketch.from_epsilon(5, 1, 1),
]


def laws(mechanism: Mechanism) -> list[dict[int, Fraction]]:
    """The channel that the shipped code has, value by value."""
    values: Any = range(mechanism.domain or 0)
    if mechanism.domain is None:
        values = list({mechanism.cells_for(text, 0): text for text in "abcdefghij"}.values())

    def send(value: Any) -> Any:
        return lambda coin: mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin)

    return [law_of_code(send(value))[0] for value in values]


@pytest.mark.parametrize("mechanism", THREE_POINTS, ids=lambda each: each.name)
def test_a_mechanisms_law_is_that_of_its_code_for_every_two_values(mechanism: Mechanism) -> None:
    found = law_of(mechanism)
    assert found.epsilon == mechanism.epsilon
    stated = {1: found.gain, 0: found.zero, -1: found.minus}
    channel = laws(mechanism)
    assert len(channel) > 1
    for one, other in product(channel, repeat=2):
        if one is other:
            continue
        law = dict.fromkeys(stated, Fraction(0))
        for response, chance in one.items():
            loss = math.log(chance / other[response]) / found.size
            assert abs(loss - round(loss)) < 1e-9
            law[round(loss)] += chance
        for sign, chance in law.items():
            assert abs(chance - stated[sign]) < Fraction(1, 10**50), sign


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse.from_probabilities("0.6", "0.1"),
        RandomizedResponse.from_probabilities("0.3", "0.9"),
        RandomizedResponse.from_probabilities("0.999", "0.9"),
        build("exponential", domain=4, epsilon=1),
        build("block_hadamard_response", domain=5, epsilon=2),
        build("square_wave", domain=4, epsilon=1),
        *THREE_POINTS,
    ],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize("reports", [1, 2])
def test_no_two_values_lose_more_than_the_law_that_stands_for_a_mechanism(
    mechanism: Mechanism, reports: int
) -> None:
    channel = laws(mechanism)[:4]
    stated = Fresh(law_of(mechanism), reports)
    if reports == 2 and max(map(len, channel)) > 40:
        channel = channel[:2]
    for epsilon in (0.0, 0.1, 0.5, 0.9, 1.5):
        allowed = delta_at(stated, epsilon)
        for one, other in product(channel, repeat=2):
            assert hockey_stick(one, other, reports, epsilon) <= allowed + 1e-12


def hockey_stick(
    one: dict[int, Fraction], other: dict[int, Fraction], reports: int, epsilon: float
) -> float:
    """sum max(0, P - e^epsilon Q) over all outcomes of so many reports."""
    p = np.array([float(one[each]) for each in one])
    q = np.array([float(other[each]) for each in one])
    for _ in range(reports - 1):
        p, q = np.multiply.outer(p, p).ravel(), np.multiply.outer(q, q).ravel()
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


@given(st.floats(0.05, 3), st.integers(1, 7), st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_randomized_response_is_what_all_its_outcomes_add_up_to(
    epsilon: float, reports: int, part: float
) -> None:
    law = worst_law(epsilon)
    keep = law.gain
    at = part * reports * epsilon
    power = Fraction(math.exp(at))
    beyond = Fraction(0)
    for flips in product((False, True), repeat=reports):
        p = math.prod((1 - keep if flip else keep for flip in flips), start=Fraction(1))
        q = math.prod((keep if flip else 1 - keep for flip in flips), start=Fraction(1))
        beyond += max(Fraction(0), p - power * q)
    assert delta_at(Fresh(law, reports), at) == pytest.approx(float(beyond), rel=1e-9, abs=1e-13)
    if beyond > Fraction(1, 10**9):
        found = by_losses([Fresh(law, reports)], float(beyond))
        assert found == pytest.approx(at, abs=1e-6) and found >= at - 1e-9


@pytest.mark.parametrize("reports", [1, 2, 7, 25])
@pytest.mark.parametrize("law", [worst_law(1), law_of(OptimizedUnary.from_epsilon(9, 1))])
def test_chances_are_the_exact_powers_of_the_law(law: Law, reports: int) -> None:
    exact = [Fraction(1)]
    single = [law.gain, law.zero, law.minus]
    for _ in range(reports):
        exact = [
            sum(
                (exact[at - i] * single[i] for i in range(3) if 0 <= at - i < len(exact)),
                Fraction(0),
            )
            for at in range(len(exact) + 2)
        ]
    found = chances(Fresh(law, reports))
    assert len(found) == reports + 1
    for mine, theirs in zip(found, exact, strict=False):
        assert mine == pytest.approx(float(theirs), rel=1e-12, abs=1e-40)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "20", "40"])
@pytest.mark.parametrize("reports", [3000, 20_000])
def test_thousands_of_reports_neither_overflow_nor_lose_digits(epsilon: str, reports: int) -> None:
    # Chance of a flip in 1/2**40 parts, so that exact binomials stay small: only 0 to 3 flips.
    law = worst_law(epsilon)
    found = chances(Fresh(law, reports))
    flip = float(law.minus)
    for flips in range(4):
        log = (
            math.log(math.comb(reports, flips))
            + flips * math.log(flip)
            + (reports - flips) * math.log1p(-flip)
        )
        assert found[2 * flips] == pytest.approx(math.exp(log), rel=1e-9, abs=1e-290)
    figure = by_losses([Fresh(law, reports)], 1e-6)
    assert figure is not None and 0 < figure <= reports * law.size


@pytest.mark.parametrize(
    "case", [case for case in GOLDEN if case["id"].startswith("pld-")], ids=lambda case: case["id"]
)
def test_three_point_laws_compose_as_in_the_reference(case: dict[str, Any]) -> None:
    epsilon, cells = case["eps"], case["d_or_g"]
    mechanisms = {
        "grr": lambda: law_of(GeneralizedRandomizedResponse.from_epsilon(cells, epsilon)),
        "oue": lambda: law_of(OptimizedUnary.from_epsilon(3, epsilon)),
        "sue": lambda: law_of(SymmetricUnary.from_epsilon(3, epsilon)),
        # Random functions: two values share a cell of g with 1/g; our own balanced ones do with
        # less, so here the reference's law is taken.
        "olh": lambda: Law(
            worst_law(epsilon).epsilon,
            (1 - Fraction(1, cells))
            * GeneralizedRandomizedResponse.from_epsilon(cells, epsilon).p_true,
        ),
    }
    law = mechanisms[case["mechanism"]]()
    for chance, key in ((law.gain, "p_plus"), (law.zero, "p_zero"), (law.minus, "p_minus")):
        assert float(chance) == pytest.approx(case[key], **EXACT)
    found = by_losses([Fresh(law, case["k"])], case["delta"])
    assert found == pytest.approx(case["exact_eps_at_delta"], **EXACT)
    randomized = by_losses([Fresh(worst_law(epsilon), case["k"])], case["delta"])
    assert randomized == pytest.approx(case["exact_rr_same_eps"], **EXACT)


def test_balanced_hash_functions_tell_a_little_more_than_random_ones() -> None:
    mechanism = OptimizedLocalHashing.from_epsilon(9, 1, 3)
    kept = GeneralizedRandomizedResponse.from_epsilon(3, 1).p_true
    assert law_of(mechanism).gain > (1 - Fraction(1, 3)) * kept


# Unequal reports


def exact_mixture(groups: list[tuple[Law, int]], delta: float) -> float:
    """The figure from all sums of losses, none of them rounded to a grid."""
    atoms = {0.0: 1.0}
    for law, reports in groups:
        single = {law.size: float(law.gain), 0.0: float(law.zero), -law.size: float(law.minus)}
        for _ in range(reports):
            step: dict[float, float] = {}
            for loss, chance in atoms.items():
                for more, part in single.items():
                    at = round(loss + more, 9)
                    step[at] = step.get(at, 0.0) + chance * part
            atoms = step
    low, high = 0.0, sum(law.size * reports for law, reports in groups)
    for _ in range(60):
        middle = (low + high) / 2
        beyond = sum(c * -math.expm1(middle - loss) for loss, c in atoms.items() if loss > middle)
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_unequal_reports_are_exact_but_for_a_grid_that_is_rounded_up(delta: float) -> None:
    mixes = [
        [(worst_law("0.1"), 20), (worst_law("0.7"), 4)],
        [(worst_law("0.31"), 3), (law_of(OptimizedUnary.from_epsilon(5, 1)), 6)],
        [
            (worst_law(3), 2),
            (law_of(GeneralizedRandomizedResponse.from_epsilon(8, "0.5")), 9),
            (worst_law("0.05"), 12),
        ],
    ]
    for mix in mixes:
        fresh = merged(mix)
        found, exact = by_losses(fresh, delta), exact_mixture(mix, delta)
        plain = sum(law.size * reports for law, reports in mix)
        assert found is not None
        assert exact - 1e-8 <= found <= exact + len(mix) * plain / 8192 + 1e-8


def test_a_grid_rounds_losses_and_chances_up() -> None:
    found = on_grid([(0.25, 0.5), (0.3125, 1 / 4), (-0.3125, 1 / 4)], 0.125)
    assert found == (-2, (1 << 126, 0, 0, 0, 1 << 127, 1 << 126))
    third = on_grid([(0.0, 1 / 3 * 2.0**-100)], 1.0).units[0]  # not a whole number of units
    assert Fraction(third, 1 << 128) >= Fraction(1 / 3 * 2.0**-100)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
@settings(max_examples=50, deadline=None)
def test_products_of_numbers_are_sums_of_losses(one: list[float], other: list[float]) -> None:
    first = on_grid(enumerate(one, -3), 1.0)
    second = on_grid(enumerate(other), 1.0)
    found = convolved(first, second)
    wanted = np.convolve(one, other)
    mine = np.array([unit / 2.0**128 for unit in found.units])
    assert found.lowest == -3 and np.allclose(mine, wanted, rtol=1e-12, atol=1e-36)
    assert sum(found.units) << 128 >= sum(first.units) * sum(second.units)


def test_hundreds_of_laws_are_added_up_in_few_long_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = 0

    def counted(one: Losses, other: Losses) -> Losses:
        nonlocal points
        both = convolved(one, other)
        points += len(both.units)
        return both

    monkeypatch.setattr(grid, "convolved", counted)
    part = on_grid([(-3.0, 0.25), (4.0, 0.75)], 1.0)
    found = all_convolved([part] * 256)
    # Eight rounds in which all points are read; one after the other it would be 128.
    assert points == sum(2**rounds * (7 * 2 ** (8 - rounds) + 1) for rounds in range(8))
    assert found.lowest == -3 * 256 and len(found.units) == 7 * 256 + 1
    top = [Fraction(units, 1 << 128) for units in found.units[-8:]]
    assert top[-1] == pytest.approx(0.75**256, abs=2.0**-100) and not any(top[1:-1])
    assert top[0] == pytest.approx(256 * 0.25 * 0.75**255, abs=2.0**-100)

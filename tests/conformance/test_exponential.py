"""The exponential mechanism: exact laws of drawn utilities, golden values, and a solved scale."""

import json
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.audit import audit, law
from client_sdk.errors import OptionError, ParameterError, RegistryError
from client_sdk.mechanisms import Exponential, build
from client_sdk.mechanisms.exponential import inverted
from client_sdk.mechanisms.utility import checked_utility, sensitivity
from client_sdk.randomness import ONE, Coin
from client_sdk.registry import loads
from estimator.document import parse
from estimator.inversion.scores import channel_rows

GOLDEN = {
    case["id"]: case
    for case in json.loads(Path(__file__).with_name("golden_matrix.json").read_text())[
        "exponential"
    ]
}
LOPSIDED = [[3, 2, 0], [0, 5, 1], [1, 1, Decimal("1.5")]]


def identity(domain: int) -> Any:
    return checked_utility([[int(x == y) for y in range(domain)] for x in range(domain)], domain)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_drawn_utilities_have_the_channel_and_the_loss_that_they_state(data: st.DataObject) -> None:
    domain = data.draw(st.integers(2, 6))
    numbers = st.integers(-50, 50).map(lambda number: Decimal(number) / 10)
    rows = st.lists(numbers, min_size=domain, max_size=domain)
    written = data.draw(st.lists(rows, min_size=domain, max_size=domain))
    epsilon = data.draw(st.decimals("0.05", "12", places=3))
    try:
        mechanism = Exponential.from_epsilon(domain, epsilon, checked_utility(written, domain))
    except ParameterError as error:
        assert "utility" in str(error) or "inverted" in str(error)
        return
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon
    # Rounding of the smallest threshold is the finest step there is.
    least = min(min(row) for row in mechanism.thresholds)
    assert float(epsilon - mechanism.epsilon) < max(1e-12, 8 / least)


def test_golden_ordinal_is_met_without_rescaling() -> None:
    case = GOLDEN["expmech-ordinal"]
    utility = checked_utility(case["U"], 4)
    assert sensitivity(utility) == case["Delta"]
    mechanism = Exponential.from_epsilon(4, str(case["eps"]), utility, rescale=False)
    assert channel_rows(mechanism) == pytest.approx(np.array(case["P"]), rel=1e-9)
    assert float(mechanism.epsilon) == pytest.approx(case["exact_eps"], rel=1e-9)
    by_name = build("exponential", domain=4, epsilon=2, rescale=False)
    assert by_name.parameters() == mechanism.parameters()  # "distance", up to a constant


@pytest.mark.parametrize("rescale", [False, True])
def test_golden_identity_is_met_with_and_without_the_factor_of_two(rescale: bool) -> None:
    case = GOLDEN["expmech-identity-nofactor" if rescale else "expmech-identity-factor2"]
    domain = case["d"]
    mechanism = Exponential.from_epsilon(domain, 2, identity(domain), rescale=rescale)
    assert float(mechanism.p_true) == pytest.approx(case["p_keep"], rel=1e-9)
    assert float(mechanism.epsilon) == pytest.approx(case["exact_eps"], rel=1e-9)
    if rescale:
        grr = build("generalized_randomized_response", domain=domain, epsilon=2)
        assert float(mechanism.p_true) == pytest.approx(float(grr.p_true), rel=1e-15)


@pytest.mark.parametrize("domain", [2, 4, 24])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "2.5", "7", "20"])
@pytest.mark.parametrize("rescale", [True, False])
def test_the_loss_is_at_most_the_asked_one_and_close_to_it_when_rescaled(
    domain: int, epsilon: str, rescale: bool
) -> None:
    try:
        mechanism = build("exponential", domain=domain, epsilon=epsilon, rescale=rescale)
    except ParameterError as error:
        assert "cannot be inverted" in str(error) and domain == 24 and epsilon == "0.01"
        return
    gap = float(Decimal(epsilon) - mechanism.epsilon)
    assert 0 <= gap
    if rescale:
        assert gap < max(1e-12, 8 / min(min(row) for row in mechanism.thresholds))


def test_twenty_utilities_never_exceed_the_asked_loss_without_rescaling() -> None:
    """The reference's check of the theorem, on the integers."""
    chance = np.random.default_rng(5)
    for _ in range(20):
        utility = checked_utility(chance.integers(0, 10, (5, 5)).tolist(), 5)
        assert Exponential.from_epsilon(5, 2, utility, rescale=False).epsilon < 2


@pytest.mark.parametrize("epsilon", [1, 20, 40])
def test_every_response_is_possible_for_every_value(epsilon: int) -> None:
    mechanism = Exponential.from_epsilon(60, epsilon)
    assert all(min(row) >= 1 and sum(row) == ONE for row in mechanism.thresholds)
    assert mechanism.epsilon.is_finite() and mechanism.epsilon <= epsilon


def test_rounding_lies_with_the_likeliest_response() -> None:
    """Every other threshold is rounded up, equal chances to equal ones; at 40 that shows."""
    for value, row in enumerate(Exponential.from_epsilon(9, 40).thresholds):
        assert max(row) == row[value]
        for step in range(1, min(value, 8 - value) + 1):
            assert row[value - step] == row[value + step]


def test_near_answers_are_likelier_than_far_ones() -> None:
    row = build("exponential", domain=7, epsilon=3).channel(3, 0)
    assert row[3] > row[2] > row[1] > row[0]
    assert row[3] > row[4] > row[5] > row[6]


def test_one_word_is_drawn_for_a_response() -> None:
    mechanism = Exponential.from_epsilon(3, 1)
    for value in range(3):
        outcomes, branches = law(partial(mechanism.instantaneous, value))
        assert branches == 3
        assert outcomes == dict(enumerate(mechanism.channel(value, 0)))


class ForgetsTheNormaliser(Exponential):
    """Keeps cut points of value 0 for everybody but its own."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return (coin.pick(self._cuts[0]) + permanent) % self.cells


def test_another_law_than_the_stated_one_is_convicted() -> None:
    assert not audit(ForgetsTheNormaliser.from_epsilon(5, 1)).sound


def test_the_sample_holds_two_values_of_the_largest_loss() -> None:
    utility = [[0] * 9 for _ in range(9)]
    for x in range(9):
        utility[x][x] = 1
    utility[3][5], utility[6][5] = 4, -4
    mechanism = Exponential.from_epsilon(9, 1, checked_utility(utility, 9))
    first, second = (mechanism.channel(value, 0) for value in mechanism.sample(2))
    ratios = [max(p / q, q / p) for p, q in zip(first, second, strict=True)]
    assert float(max(ratios)) == pytest.approx(float(mechanism.epsilon.exp()), rel=1e-12)


def test_the_utility_is_part_of_the_channel() -> None:
    plain = build("exponential", domain=3, epsilon=1)
    table = build("exponential", domain=3, epsilon=1, utility=LOPSIDED)
    assert plain.parameters() != table.parameters()
    again = [[0, -1, -2], [-1, 0, -1], [-2, -1, 0]]
    assert build("exponential", domain=3, epsilon=1, utility=again).parameters() == (
        plain.parameters()
    )


@pytest.mark.parametrize(
    ("utility", "rule"),
    [
        ("near", 'must be "distance" or 3 rows of 3 numbers'),
        ([[1, 2], [3, 4]], "3 rows of 3 numbers"),
        ([[1, 2, 3], [1, 2, 3], [1, 2]], "3 rows of 3 numbers"),
        ([[1, 2, "3"], [1, 2, 3], [1, 2, 3]], "numbers only"),
        ([[1, 2, True], [1, 2, 3], [1, 2, 3]], "numbers only"),
        ([[1, 2, Decimal("NaN")], [1, 2, 3], [1, 2, 3]], "numbers of size"),
        ([[1, 2, Decimal("1e999999")], [1, 2, 3], [1, 2, 3]], "numbers of size"),
        ([[1, 2, Decimal("1e-999999")], [1, 2, 3], [1, 2, 3]], "numbers of size"),
        ([[1, 2, 3]] * 3, "its rows are all the same, got utility=..1.0, 2.0, 3.0"),
        ([[1, 2, 3], [2, 3, 4], [0, 1, 2]], "tell inputs apart"),
    ],
)
def test_a_utility_that_is_none_is_refused_by_name(utility: object, rule: str) -> None:
    with pytest.raises(OptionError, match=rule) as caught:
        build("exponential", domain=3, epsilon=1, utility=utility)
    assert caught.value.option == "utility"


def test_a_channel_that_cannot_be_inverted_is_refused_with_advice() -> None:
    """Trap 25: rows 0 and 1 are the same, so no count tells these values apart."""
    with pytest.raises(ParameterError, match="take a larger epsilon, fewer values"):
        build("exponential", domain=3, epsilon=1, utility=[[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    with pytest.raises(ParameterError, match="take a larger epsilon, fewer values"):
        build("exponential", domain=200, epsilon="0.01")
    with pytest.raises(ParameterError, match="domain must have 2 to 256 values"):
        build("exponential", domain=257, epsilon=1)
    with pytest.raises(OptionError, match="rescale must be true or false"):
        build("exponential", domain=3, epsilon=1, rescale=1)
    with pytest.raises(OptionError, match="utilities is not a known key"):
        build("exponential", domain=3, epsilon=1, utilities=[])
    with pytest.raises(ParameterError, match="threshold of at least 1"):
        Exponential(((ONE, 0), (ONE // 2, ONE // 2)))


def test_the_inverse_is_that_of_linear_algebra() -> None:
    rows = channel_rows(build("exponential", domain=9, epsilon=2))
    assert np.array(inverted(rows.tolist())) == pytest.approx(np.linalg.inv(rows), rel=1e-9)


def test_the_rare_variance_is_the_one_by_definition() -> None:
    mechanism = build("exponential", domain=5, epsilon=2, utility=identity_rows(5))
    grr = build("generalized_randomized_response", domain=5, epsilon=2)
    assert mechanism.rare_variance == pytest.approx(grr.rare_variance, rel=1e-9)


def identity_rows(domain: int) -> list[list[int]]:
    return [[int(x == y) for y in range(domain)] for x in range(domain)]


METRIC = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"
[metrics.size]
question = "How large is the library?"
type = "ordinal"
values = ["small", "middle", "large"]
missing = "small"
sensitivity = "product"
epsilon = 1.0
epoch = "month"
starts = 2026-11-30
expires = 2027-12-31
owners = ["library-team@example.org"]
mechanism = MECHANISM
"""


def test_a_file_writes_the_utility_as_a_table_of_numbers() -> None:
    table = '{ name = "exponential", utility = [[3, 2, 0], [0, 5, 1], [1, 1, 1.5]] }'
    metric = loads(METRIC.replace("MECHANISM", table)).metrics["size"]
    made = build("exponential", domain=3, epsilon=1, utility=LOPSIDED)
    assert metric.mechanism.parameters() == made.parameters()
    plain = loads(METRIC.replace("MECHANISM", '"exponential"')).metrics["size"]
    assert plain.fingerprint != metric.fingerprint
    with pytest.raises(RegistryError, match=r"mechanism.utility: must be .distance. or 3 rows"):
        loads(METRIC.replace("MECHANISM", '{ name = "exponential", utility = [1, 2, 3] }'))


def test_a_tally_document_writes_the_same_options() -> None:
    described = {"name": "exponential", "epsilon": 1, "rescale": False, "utility": "distance"}
    document = {
        "metric": {"type": "ordinal", "values": ["a", "b", "c"], "mechanism": described},
        "reports": [30],
        "counts": [[10, 10, 10]],
    }
    mechanism = parse(json.dumps(document)).mechanism
    made = build("exponential", domain=3, epsilon=1, rescale=False)
    assert mechanism.parameters() == made.parameters()
    assert Fraction(mechanism.epsilon) < Fraction(1)

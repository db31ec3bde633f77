"""Several options in one report: one epsilon for all of it, and shares that do not add up."""

from decimal import Decimal
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.audit import audit
from client_sdk.errors import RegistryError, WrongType
from client_sdk.mechanisms import (
    MultiHotUnary,
    OptimizedUnary,
    PaddingAndSampling,
    choose_several,
)
from client_sdk.mechanisms.selections import members, selections
from client_sdk.metric import Metric
from client_sdk.preview import in_words
from client_sdk.randomness import Coin
from client_sdk.report import response_to_json
from estimator.estimate import estimate
from estimator.plausibility import popcount_law
from sottovoce.population import Population, recordable, truth

TOML = """
schema = 1
[project]
name = "a"
lifetime_epsilon = 50
contact = "a@example.org"
[metrics.tools]
question = "Which of these do you use? ..."
type = "multi_select"
values = ["brush", "pen", "fill", "text", "zoom"]
sensitivity = "product"
epsilon = 2
epoch = "week"
starts = 2026-12-01
expires = 2027-02-01
"""


def tools(extra: str = "") -> Metric:
    return loads(TOML + extra).metrics["tools"]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([MultiHotUnary, PaddingAndSampling]),
    st.integers(2, 6),
    st.data(),
    st.decimals("0.01", "12", places=2),
)
def test_any_parameters_pass_the_exact_audit(
    kind: type[MultiHotUnary | PaddingAndSampling],
    options: int,
    data: st.DataObject,
    epsilon: Decimal,
) -> None:
    most = data.draw(st.integers(1, options))
    mechanism = kind.from_epsilon(options, most, epsilon)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst <= mechanism.epsilon <= epsilon
    if 2 * most <= options or kind is MultiHotUnary:
        assert found.worst == mechanism.epsilon


@pytest.mark.parametrize("options", [3, 40, 256])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
def test_the_realised_epsilon_is_just_below_the_one_that_was_asked(
    options: int, epsilon: str
) -> None:
    for most in (1, options // 2, options):
        for kind in (MultiHotUnary, PaddingAndSampling):
            realised = kind.from_epsilon(options, most, epsilon).epsilon
            assert Decimal(epsilon) * Decimal("0.999999") < realised <= Decimal(epsilon)


def test_charging_once_for_each_option_alone_would_be_a_lie() -> None:
    # Reference section 3: optimized unary encoding of 3 selected options at "epsilon 1" loses 3.
    for_one = OptimizedUnary.from_epsilon(8, 1)
    naive = MultiHotUnary(8, 3, for_one.one_if_one, for_one.one_if_zero)
    assert float(naive.epsilon) == pytest.approx(3)
    assert float(audit(naive).worst) == pytest.approx(3)


def test_the_default_has_the_least_variance_for_rare_options() -> None:
    # Few of many: one is told. Any of all: every bit is sent, at a quarter of the variance.
    assert choose_several(100, 3, Decimal(1)) == "padding_and_sampling"
    assert choose_several(10, 10, Decimal(1)) == "multi_hot_unary"
    all_bits = MultiHotUnary.from_epsilon(20, 20, 1).rare_variance
    one_of_them = PaddingAndSampling.from_epsilon(20, 20, 1).rare_variance
    assert one_of_them / all_bits == pytest.approx(4, rel=0.1)


def test_selections_for_an_audit_are_all_or_far_apart() -> None:
    every = {sum(1 << i for i in c) for size in (0, 1, 2) for c in combinations(range(5), size)}
    assert set(selections(5, 2, 64)) == every
    some = selections(100, 30, 64)
    assert len(some) <= 64
    assert all(len(members(one)) <= 30 and one < 1 << 100 for one in some)
    assert any(one & other == 0 and one and other for one, other in combinations(some, 2))


def test_what_a_host_records_becomes_a_set_of_options() -> None:
    metric = tools("most = 2\n")
    assert metric.encode(["pen", "text"]) == (0b01010, False)
    assert metric.encode(("text", "pen", "pen")) == (0b01010, False)
    assert metric.encode([]) == (0, False)
    assert metric.encode(None) == (0, False)
    assert metric.encode({"zoom", "pen", "brush"}) == (0b00011, True)  # too many: the first ones
    assert metric.encode(["hammer", "zoom"]) == (0b10000, True)
    assert metric.decode(0b01010) == ["pen", "text"]
    for wrong in ("pen", 3, [3], [True], {"pen": 1}.items(), iter(["pen"])):
        with pytest.raises(WrongType):
            metric.encode(wrong)


@pytest.mark.parametrize(
    ("extra", "key", "rule"),
    [
        ("most = 6\n", "most", "integer in 1..5"),
        ('catch_all = "pen"\n', "catch_all", "not a known key"),
        ('mechanism = "optimized_unary"\n', "mechanism", "must be one of multi_hot_unary"),
        (
            "memoize = { epsilon_permanent = 4, distinct_values = 1 }\n",
            "memoize",
            "must be left out",
        ),
        (
            'mechanism = { name = "multi_hot_unary", most = 2 }\n',
            "mechanism.most",
            "is a key of the metric, beside its values: move it there",
        ),
        ('when_absent = ["hammer"]\n', "when_absent", "must be a value"),
    ],
)
def test_a_declaration_that_breaks_a_rule_is_named(extra: str, key: str, rule: str) -> None:
    with pytest.raises(RegistryError, match=rule) as refused:
        tools(extra)
    assert refused.value.key == f"metrics.tools.{key}"


def test_the_number_of_options_that_can_be_chosen_is_part_of_the_version() -> None:
    versions = {tools(f"most = {most}\n").fingerprint for most in (1, 2, 3, 5)}
    assert len(versions) == 4
    assert tools().fingerprint == tools("most = 5\n").fingerprint
    assert tools("when_absent = []\n").when_absent == 0


@pytest.mark.parametrize("most", [2, 5])
def test_shares_are_found_from_reports_of_real_devices(most: int) -> None:
    metric = tools(f"most = {most}\n")
    population = Population(("", "pen", "pen|text", "brush|zoom"), np.array([0.1, 0.4, 0.3, 0.2]))
    true = truth(metric, population)
    assert true == pytest.approx({"brush": 0.2, "pen": 0.7, "fill": 0, "text": 0.3, "zoom": 0.2})
    n, coin, mechanism = 4000, Coin(), metric.mechanism
    counts = np.zeros(5, np.int64)
    for text in population.draw(n, np.random.default_rng(1)):
        encoded, clamped = metric.encode(recordable(metric, text))
        response = mechanism.instantaneous(mechanism.permanent(encoded, 0, coin), coin)
        assert not clamped
        assert len(str(response_to_json(mechanism, response))) == 2
        counts += [response >> cell & 1 for cell in range(5)]
    found = estimate(metric, Tally.of(counts, [n]))
    for entry in found.entries:
        assert entry.share is not None and entry.standard_error is not None
        # |z| > 5.5 has probability 4e-8; ten such looks are below one in a million.
        assert abs(entry.share - true[str(entry.value)]) < 5.5 * entry.standard_error
        assert entry.consistent == min(max(entry.share, 0), 1)
    assert popcount_law(mechanism) is None  # how many options apply is the answer, not the noise


def test_a_report_is_put_into_words() -> None:
    metric = tools("most = 2\n")
    report = {"metric": "tools", "fingerprint": metric.fingerprint, "epoch": 2970, "cohort": 0}
    assert "chosen any of 'pen', 'text'" in in_words(report | {"response": "0a"}, metric)
    assert "any of the options" in in_words(report | {"response": "00"}, metric)

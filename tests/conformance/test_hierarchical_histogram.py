"""The tree: its levels, its exact loss at every parameter, and what its reports say."""

import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.fold import popcounts, summed
from aggregator.group import Group
from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.audit import audit
from client_sdk.errors import OptionError, ParameterError, RegistryError
from client_sdk.mechanisms import Declared, HierarchicalHistogram, OptimizedUnary, build
from client_sdk.metric import Metric
from client_sdk.preview import in_words
from client_sdk.randomness import Coin
from client_sdk.recorder import cohort_of_report
from client_sdk.report import Report, report_to_json
from estimator.estimate import estimate
from estimator.plausibility import judge
from tests import registries

GOLDEN = json.loads(Path(__file__).with_name("golden_hierarchical_histogram.json").read_text())


def load_seconds(branching: int = 3, **keys: Any) -> Metric:
    """A number that is asked once through a tree."""
    shape = {"buckets": 32} | keys
    tree = {"name": "hierarchical_histogram", "branching": branching}
    text = registries.load_seconds(
        range=[0, 16], mechanism=tree, epsilon=2.0, epoch="once", **shape
    )
    return loads(registries.registry(text)).metrics["load_seconds"]


class OneDraw(Coin):
    """Notes every draw and answers it with all ones."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[tuple[int, int, int, int]] = []

    def word(self) -> int:
        raise AssertionError("the tree draws other than through flip_bits")

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        self.draws.append((bits, width, if_one, if_zero))
        return (1 << width) - 1


@settings(max_examples=25, deadline=None)
@given(
    domain=st.integers(2, 6),
    branching=st.integers(2, 5),
    epsilon=st.decimals("0.01", "20", places=2),
)
def test_any_small_tree_has_the_channel_and_the_loss_that_it_states(
    domain: int, branching: int, epsilon: Decimal
) -> None:
    mechanism = HierarchicalHistogram.from_epsilon(domain, epsilon, branching)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon


@settings(max_examples=30, deadline=None)
@given(domain=st.integers(2, 1024), branching=st.integers(2, 40), data=st.data())
def test_a_report_is_one_draw_of_its_levels_nodes_and_nothing_else(
    domain: int, branching: int, data: st.DataObject
) -> None:
    mechanism = HierarchicalHistogram.from_epsilon(domain, "1.5", branching)
    value = data.draw(st.integers(0, domain - 1))
    for level, width in enumerate(mechanism.widths):
        coin = OneDraw()
        permanent = mechanism.permanent(value, level, coin)
        assert mechanism.instantaneous(permanent, coin) == (1 << width) - 1
        node = mechanism.node(value, level)
        thresholds = (mechanism.one_if_one, mechanism.one_if_zero)
        assert coin.draws == [(1 << node, width, *thresholds)]
        assert mechanism.cells_for(value, level) == (node,)
        chances = mechanism.channel(value, level)
        assert chances[node] == mechanism.p_true
        assert chances.count(mechanism.p_false) == width - 1
        assert chances.count(0) == domain - width


@settings(max_examples=50, deadline=None)
@given(domain=st.integers(2, 1024), branching=st.integers(2, 1024))
def test_levels_are_whole_nested_and_never_of_one_node(domain: int, branching: int) -> None:
    mechanism = HierarchicalHistogram.from_epsilon(domain, 1, branching)
    assert mechanism.cohorts == len(mechanism.widths)
    assert mechanism.widths[-1] == mechanism.cells == domain
    assert 2 <= mechanism.widths[0] <= branching or mechanism.cohorts == 1
    for level, width in enumerate(mechanism.widths):
        assert {mechanism.node(leaf, level) for leaf in range(domain)} == set(range(width))
    for above, below in pairwise(range(mechanism.cohorts)):
        for leaf in {0, domain // 3, domain - 1}:
            assert mechanism.node(leaf, below) // branching == mechanism.node(leaf, above)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3.7", "12", "20"])
def test_the_realised_loss_never_exceeds_the_one_that_was_asked_for(epsilon: str) -> None:
    mechanism = build("hierarchical_histogram", domain=500, epsilon=epsilon)
    assert Decimal(epsilon) * Decimal("0.999999") < mechanism.epsilon <= Decimal(epsilon)


@pytest.mark.parametrize("case", GOLDEN["node_variance"], ids=lambda case: case["id"])
def test_a_node_has_the_variance_of_users_split_among_levels(case: dict[str, float]) -> None:
    levels = int(case["levels"])
    mechanism = HierarchicalHistogram.from_epsilon(2**levels, case["eps"], 2)
    assert mechanism.cohorts == levels
    split_users = case["user_split_node_var_times_n"]
    assert mechanism.node_variance == pytest.approx(split_users, rel=1e-9)
    part = Decimal(str(case["eps"])) / levels
    split_budget = OptimizedUnary.from_epsilon(2, part).rare_variance
    assert split_budget == pytest.approx(case["budget_split_node_var_times_n"], rel=1e-9)
    assert split_users < split_budget


def test_the_name_alone_is_enough() -> None:
    mechanism = build("hierarchical_histogram", Declared(100, epsilon=1))
    assert isinstance(mechanism, HierarchicalHistogram)
    assert mechanism.branching == 4 and mechanism.widths == (2, 7, 25, 100)


@pytest.mark.parametrize("wrong", [1, 0, -2, 1025, 2.5, True, "4"])
def test_a_wrong_branching_is_named(wrong: object) -> None:
    with pytest.raises(OptionError, match=r"branching must be an integer in 2\.\.1024, got"):
        build("hierarchical_histogram", Declared(8, epsilon=1, options={"branching": wrong}))


def test_unknown_options_missing_epsilons_and_open_domains_are_refused() -> None:
    with pytest.raises(OptionError, match="levels is not a known key"):
        build("hierarchical_histogram", Declared(8, epsilon=1, options={"levels": 2}))
    with pytest.raises(ParameterError, match="epsilon is required"):
        build("hierarchical_histogram", Declared(8))
    with pytest.raises(ParameterError, match="closed list"):
        build("hierarchical_histogram", Declared(None, epsilon=1))
    with pytest.raises(ParameterError, match="at least 2 values, got domain=1"):
        HierarchicalHistogram.from_epsilon(1, 1)
    with pytest.raises(ParameterError, match="branching must be at least 2, got branching=1"):
        HierarchicalHistogram.from_epsilon(8, 1, 1)
    with pytest.raises(ParameterError, match="one_if_zero < one_if_one"):
        HierarchicalHistogram(8, 2, 5, 5)


def test_a_number_with_too_many_buckets_is_refused_by_name() -> None:
    rule = r"load_seconds\.mechanism: domain must have at most 1024 values or buckets, got"
    with pytest.raises(RegistryError, match=rule):
        load_seconds(buckets=1025)


def test_another_branching_is_another_channel() -> None:
    assert load_seconds(branching=3).fingerprint != load_seconds(branching=4).fingerprint


def test_an_ordinal_may_have_a_tree() -> None:
    values = {"values": ["low", "mid", "high"], "missing": "low"}
    text = registries.load_seconds(kind="ordinal", mechanism="hierarchical_histogram", **values)
    metric = loads(registries.registry(text)).metrics["load_seconds"]
    assert metric.mechanism.cells == 3
    tally = Tally(np.full(metric.mechanism.cohorts, 500), np.full((1, 3), 150))
    assert estimate(metric, tally).quantiles == ()


def test_a_file_becomes_reports_and_reports_become_the_truth() -> None:
    """Real noise. 40 intervals at a level of 1 - 1e-8, the 32 of the shares together: one of
    them misses the truth with probability below 1e-6."""
    metric = load_seconds()
    coin, secret, n = Coin(), bytes(32), 6000
    chance = np.random.default_rng(7)
    recorded = np.clip(chance.gamma(4.0, 1.0, n), 0, 15.99)
    group = Group.of(metric, 0)
    rows = bytearray()
    for seconds in recorded.tolist():
        value, clamped = metric.encode(seconds)
        cohort = cohort_of_report(secret, metric, coin)
        permanent = metric.mechanism.permanent(value, cohort, coin)
        response = metric.mechanism.instantaneous(permanent, coin)
        report = Report(metric.name, metric.fingerprint, 0, cohort, response)
        sent = json.loads(report_to_json(report, metric.mechanism))
        assert not clamped and len(sent["response"]) == 8
        assert "you may or may not" in in_words(sent, metric)
        rows += group.row(sent["cohort"], int(sent["response"], 16))
    packed = np.frombuffer(bytes(rows), np.uint8).reshape(-1, group.row_bytes)
    cohorts, sums = summed(group, packed)
    assert cohorts == [0, 1, 2, 3]
    tally = Tally(sums[:, 0], sums[:, 1:])
    found = estimate(metric, tally, 1 - 1e-8)
    truth = np.histogram(recorded, [float(edge) for edge in metric.edges])[0] / n
    for entry, share in zip(found.entries, truth, strict=True):
        assert entry.simultaneous_interval is not None
        low, high = entry.simultaneous_interval
        assert low < share < high
    assert sum(entry.share or 0 for entry in found.entries) == pytest.approx(1)
    assert [quantile.part for quantile in found.quantiles] == [0.05, 0.25, 0.5, 0.75, 0.95]
    for quantile in found.quantiles:
        low, high = quantile.interval
        assert low <= np.quantile(recorded, quantile.part) <= high
        assert {Decimal(low), Decimal(high)} <= set(metric.edges)
    median = found.quantiles[2]
    assert median.interval[1] - median.interval[0] < 4
    # p-values of honest reports are uniform: below 1e-7 with that probability.
    seen = judge(metric.mechanism, tally, popcounts(group, packed).tolist())
    assert seen.popcount_p is not None and seen.popcount_p > 1e-7
    assert seen.cohort_p is not None and seen.cohort_p > 1e-7

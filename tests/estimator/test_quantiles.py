"""Quantiles: where they lie, that their intervals hold them, and when there are none."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import factorial, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import build
from client_sdk.metric import Metric
from estimator.debias import Channel
from estimator.estimate import estimate
from estimator.estimates import Quantile
from estimator.inversion.cumulative import cumulative_error, quantiles_of
from estimator.quantiles import PARTS, quantiles, toward_ends
from estimator.uncertainty import covariance
from tests.conformance.simulated import tallies
from tests.registries import load_seconds, registry

EDGES = tuple(Decimal(edge) for edge in (0, 1, 2, 4, 8))
GAMMA = np.diff(stats.gamma.cdf(np.arange(13), 4.0))
GAMMA[-1] += 1 - GAMMA.sum()
STEPS = np.array([0.05, 0.2, 0, 0, 0, 0.25, 0.25, 0, 0, 0, 0.2, 0.05])
"""Every part is reached just at an edge: there an interval has no room to spare."""


def metric_of(mechanism: str | dict[str, Any], buckets: int = 12, epsilon: str = "2.0") -> Metric:
    cut = {"range": [0, 12], "buckets": buckets, "epsilon": Decimal(epsilon)}
    text = registry(load_seconds(mechanism=mechanism, epoch="once", **cut))
    return loads(text).metrics["load_seconds"]


def bucket_of(shares: np.ndarray, part: float) -> int:
    """The bucket in which a quantile lies: the first whose upper edge reaches the part."""
    return int(np.searchsorted(np.cumsum(shares)[:-1], part))


def holds(found: Quantile, shares: np.ndarray, edges: tuple[Decimal, ...]) -> bool:
    """Whether an interval holds the whole true bucket."""
    bucket = bucket_of(shares, found.part)
    low, high = found.interval
    return low <= float(edges[bucket]) and float(edges[bucket + 1]) <= high


def test_a_quantile_is_interpolated_inside_its_bucket() -> None:
    found = quantiles(EDGES, [0.1, 0.4, 0.8], [0.001] * 3, 0.95)
    assert [each.part for each in found] == list(PARTS)
    assert [each.value for each in found] == pytest.approx([0.5, 1.5, 2.5, 3.75, 7])
    assert [each.interval for each in found] == [(0, 1), (1, 2), (2, 4), (2, 4), (4, 8)]


def test_an_interval_ends_where_the_cumulative_share_is_surely_on_one_side() -> None:
    # At 95 % the shares reach from 0.23 to 0.43, 0.45 to 0.65 and 0.79 to 0.99.
    half = 0.1 / stats.norm.isf(0.025)
    found = {each.part: each for each in quantiles(EDGES, [0.33, 0.55, 0.89], [half] * 3, 0.95)}
    assert found[0.05].interval == (0, 1)
    assert found[0.25].interval == (0, 2)
    assert found[0.5].interval == (1, 4)
    assert found[0.75].interval == (2, 4)
    assert found[0.95].interval == (2, 8)


def test_shares_that_descend_are_averaged_first() -> None:
    found = quantiles(EDGES, [0.6, 0.2, 0.9], [0.3] * 3, 0.95)
    # Isotonic regression makes 0.4, 0.4, 0.9 of them.
    assert found[1].value == pytest.approx(0.25 / 0.4)
    assert found[2].value == pytest.approx(2 + 2 * 0.1 / 0.5)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_values_ascend_and_lie_in_intervals_that_end_at_edges(data: st.DataObject) -> None:
    inner = data.draw(st.integers(1, 12))
    edges = tuple(Decimal(edge) for edge in range(inner + 2))
    number = st.floats(-3, 4)
    cdf = data.draw(st.lists(number, min_size=inner, max_size=inner))
    error = data.draw(st.lists(st.floats(0, 3), min_size=inner, max_size=inner))
    found = quantiles(edges, cdf, error, 0.9)
    for each in found:
        low, high = each.interval
        assert low - 1e-9 <= each.value <= high + 1e-9 and low < high
        assert {Decimal(low), Decimal(high)} <= set(edges)
    for one, other in pairwise(found):
        assert one.value <= other.value
        assert one.interval[0] <= other.interval[0] and one.interval[1] <= other.interval[1]


def test_the_error_of_a_cumulative_share_is_that_of_the_covariance_matrix() -> None:
    truth = np.array([0.4, 0.0, 0.25, 0.3, 0.05])
    below = np.tril(np.ones((5, 5)))[:-1]
    normed = np.eye(5) - 1 / 5
    for name in ("generalized_randomized_response", "symmetric_unary", "optimized_unary"):
        mechanism = build(name, domain=5, epsilon=1)
        channel = Channel.of(mechanism)
        spread = covariance(truth, 700, channel, mechanism.kind, population=True)
        weights = below @ normed
        expected = np.sqrt(np.einsum("iv,vw,iw->i", weights, spread, weights))
        found = cumulative_error(truth, 700, channel, mechanism.kind)
        assert found == pytest.approx(expected, rel=1e-9)


def test_variances_are_those_of_two_more_answers_at_either_end() -> None:
    assert toward_ends(np.array([1.0, 0.0, 0.0]), 16) == pytest.approx([0.9, 0, 0.1])
    settled = np.cumsum(toward_ends(np.array([0.5, 0.3, 0.2]), 96))
    assert settled == pytest.approx([0.5, 0.788, 1])


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (0.25, 0.25, 0.5), (0.96, 0.04, 0.0)])
@pytest.mark.parametrize("epsilon", [1, 3, 12])
def test_intervals_of_one_cell_cover_by_exact_enumeration(
    shares: tuple[float, ...], epsilon: int
) -> None:
    """Every tally of 40 reports. Normal intervals may fall short of 95 % by two points."""
    n, held = 40, np.array(shares)
    mechanism = build("generalized_randomized_response", domain=3, epsilon=epsilon)
    channel = Channel.of(mechanism)
    law = channel.support(held)
    edges = EDGES[:4]
    covered = np.zeros(len(PARTS))
    total = Fraction(0)
    for a in range(n + 1):
        for b in range(n + 1 - a):
            counts = np.array([a, b, n - a - b])
            ways = factorial(n) // prod(factorial(int(k)) for k in counts)
            weight = ways * float(np.prod(law**counts))
            total += Fraction(weight)
            found = quantiles_of(mechanism, edges, channel.invert(counts / n), n, 0.95)
            covered += weight * np.array([holds(each, held, edges) for each in found])
    assert float(total) == pytest.approx(1)
    assert covered.min() > 0.93


def test_two_buckets_have_quantiles_too() -> None:
    metric = metric_of("randomized_response", buckets=2)
    p, q = metric.mechanism.p_true, metric.mechanism.p_false
    upper = round(10_000 * float(q + (p - q) * Fraction(1, 5)))
    tally = Tally(np.array([10_000]), np.array([[upper]]))
    low, *_, high = estimate(metric, tally).quantiles
    assert low.value == pytest.approx(0.05 / 0.8 * 6, rel=1e-2)
    assert (low.interval, high.interval) == ((0, 6), (6, 12))


@pytest.mark.parametrize(
    "mechanism",
    ["generalized_randomized_response", "optimized_unary", "hierarchical_histogram"],
)
def test_no_reports_are_no_quantiles(mechanism: str) -> None:
    metric = metric_of(mechanism)
    shape = metric.mechanism.cohorts, metric.mechanism.cells
    nothing = Tally(np.zeros(shape[0], np.int64), np.zeros(shape, np.int64))
    found = estimate(metric, nothing)
    assert found.quantiles == () and "quantiles" not in found.to_dict()
    assert all(entry.share is None for entry in found.entries)


def test_documents_list_quantiles_with_plain_values() -> None:
    metric = metric_of("optimized_unary")
    tally = Tally(np.array([1000]), np.full((1, 12), 160))
    document = estimate(metric, tally).to_dict()
    assert [each["part"] for each in document["quantiles"]] == list(PARTS)
    assert all(set(each) == {"part", "value", "interval"} for each in document["quantiles"])
    assert all(type(end) is float for each in document["quantiles"] for end in each["interval"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epsilon", "n"),
    [
        ("generalized_randomized_response", "2.0", 2000),
        ("symmetric_unary", "2.0", 2000),
        ("optimized_unary", "2.0", 200),
        ("hierarchical_histogram", "8.0", 1000),
        ({"name": "hierarchical_histogram", "branching": 2}, "2.0", 300),
    ],
)
def test_intervals_of_quantiles_cover_as_often_as_they_say(
    mechanism: str | dict[str, Any], epsilon: str, n: int
) -> None:
    """2,000 collections. At an edge only one end can miss, and 97.5 % of intervals hold. It may be
    96.5 % where normal laws stand in for binomial ones; less than the bound is what a part covers
    with probability 2e-8, 1e-7 for the five of them."""
    metric, collections = metric_of(mechanism, epsilon=epsilon), 2000
    chance = np.random.default_rng(11)
    drawn = tallies(metric.mechanism, range(12), STEPS.tolist(), n, collections, chance)
    covered = np.zeros(len(PARTS))
    for reports, counts in zip(*drawn, strict=True):
        found = estimate(metric, Tally(reports, counts)).quantiles
        covered += [holds(each, STEPS, metric.edges) for each in found]
    assert covered.min() > stats.binom.ppf(2e-8, collections, 0.965)

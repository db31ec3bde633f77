"""Errors and intervals: golden values, an independent library, and exact coverage."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from client_sdk.mechanisms import build
from estimator import uncertainty
from estimator.debias import Channel

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
TWO_COINS = Channel.from_probabilities(0.75, 0.25)


def channel_of(case) -> Channel:
    return Channel.from_probabilities(case["p_star"], case["q_star"])


@pytest.mark.parametrize("case", GOLDEN["frequency"], ids=lambda case: case["id"])
def test_golden_errors_and_intervals(case):
    channel, n, count = channel_of(case), case["n"], case["tally_count"]
    close = pytest.approx
    population = uncertainty.standard_error_population(count, n, channel)
    reporters = uncertainty.standard_error_reporters(count, n, channel)
    assert population == close(case["se_sampling_hat"], rel=1e-9, abs=0)
    assert reporters == close(case["se_fixed_hat"], rel=1e-9, abs=0)
    sampled = uncertainty.variance_population(case["f"], n, channel)
    fixed = uncertainty.variance_reporters(case["f"], n, channel)
    assert sampled == close(case["var_sampling"], rel=1e-9, abs=0)
    assert fixed == close(case["var_fixed"], rel=1e-9, abs=0)
    for method in ("wald", "wilson", "clopper_pearson"):
        ends = uncertainty.interval(count, n, channel, level=0.95, method=method)
        # The reference found Clopper-Pearson ends by bisection, good to 2e-12: near a share of 0
        # that is more than 1e-9 of it. (Ours leave a binomial tail of 0.025 to within 1e-15.)
        wanted = close(case[f"ci95_{method}"], rel=1e-9, abs=1e-11)
        assert [float(end) for end in ends] == wanted


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_intervals_agree_with_statsmodels(data):
    n = data.draw(st.integers(1, 10**6))
    count = data.draw(st.integers(0, n))
    level = data.draw(st.sampled_from([0.8, 0.95, 0.999]))
    names = {"wilson": "wilson", "clopper_pearson": "beta", "wald": "normal"}
    for method, theirs in names.items():
        low, high = proportion_confint(count, n, alpha=1 - level, method=theirs)
        if method == "wald":  # theirs is cut to [0, 1]
            half = stats.norm.isf((1 - level) / 2) * math.sqrt(count / n * (1 - count / n) / n)
            low, high = count / n - half, count / n + half
        ours = uncertainty.interval(count, n, TWO_COINS, level=level, method=method)
        assert ours[0] == pytest.approx(float(TWO_COINS.invert(low)), abs=1e-9)
        assert ours[1] == pytest.approx(float(TWO_COINS.invert(high)), abs=1e-9)


def coverage(channel: Channel, n: int, share: float, method: str = "wilson") -> float:
    """Probability, summed over every count, that the 95 % interval holds the true share."""
    every = np.arange(n + 1)
    low, high = uncertainty.interval(every, n, channel, level=0.95, method=method)
    inside = (low - 1e-12 <= share) & (share <= high + 1e-12)
    return float(stats.binom.pmf(every, n, channel.support(share))[inside].sum())


@pytest.mark.parametrize("n", [500, 1000, 5000, 20000])
@pytest.mark.parametrize(
    ("name", "domain", "epsilon"),
    [
        ("randomized_response", 2, 0.5),
        ("randomized_response", 2, 1),
        ("randomized_response", 2, 3),
        ("generalized_randomized_response", 4, 1),
        ("generalized_randomized_response", 16, 2),
        ("generalized_randomized_response", 100, 4),
        ("symmetric_unary", 16, 1),
        ("symmetric_unary", 128, 4),
        ("optimized_unary", 16, 1),
        ("optimized_unary", 128, 4),
    ],
)
def test_intervals_cover_as_often_as_they_say(name, domain, epsilon, n):
    """Every case expects at least 3 supports and 3 non-supports; most expect hundreds."""
    channel = Channel.of(build(name, domain=domain, epsilon=epsilon))
    for share in (0, 0.01, 0.1, 0.5, 0.9, 1):
        lam = float(channel.support(share))
        assert n * min(lam, 1 - lam) > 3
        assert 0.93 <= coverage(channel, n, share) <= 0.98, (share, lam)


def test_coverage_figures_of_the_reference_are_met():
    """Reference 0.3: OUE epsilon 4, n = 200, f = 0; and two coins, n = 100, f = 0.1."""
    rare = Channel.of(build("optimized_unary", domain=128, epsilon=4))
    found = [coverage(rare, 200, 0, m) for m in ("wald", "wilson", "clopper_pearson")]
    assert found == pytest.approx([0.873, 0.971, 0.989], abs=5e-4)
    found = [coverage(TWO_COINS, 100, 0.1, m) for m in ("wald", "wilson", "clopper_pearson")]
    assert found == pytest.approx([0.950, 0.937, 0.963], abs=5e-4)


def test_a_negative_gap_keeps_interval_ends_in_order():
    """Case C11: Warner's cards with p = 1/6; divisor -2/3 = p_true - p_false."""
    cards = Channel.from_probabilities(1 / 6, 5 / 6)
    for method in ("wilson", "clopper_pearson", "wald"):
        low, high = uncertainty.interval(750, 1000, cards, level=0.95, method=method)
        assert low < 0.125 < high
    assert uncertainty.standard_error_population(750, 1000, cards) == pytest.approx(0.0205396, 1e-5)
    assert 0.93 <= coverage(cards, 1000, 0.125) <= 0.98
    assert not uncertainty.significant(833, 1000, cards, level=0.95)
    assert uncertainty.significant(750, 1000, cards, level=0.95)


@pytest.mark.parametrize(
    ("p_true", "p_false", "n", "yes", "error"),
    [
        pytest.param(0.75, 0.25, 1000, 230, 0.0266158, id="C01"),
        pytest.param(1.0, 0.5, 100, 52, 0.0999, id="C13"),
        pytest.param(1.0, 0.5, 100, 47, 0.0998, id="C13-below-zero"),
        pytest.param(0.8, 0.2, 1000, 508, 0.0263489, id="C18"),
    ],
)
def test_standard_errors_of_survey_designs(p_true, p_false, n, yes, error):
    channel = Channel.from_probabilities(p_true, p_false)
    found = uncertainty.standard_error_population(yes, n, channel)
    assert found == pytest.approx(error, abs=5e-5 if error > 0.09 else 5e-8)


def test_wald_interval_of_case_c01():
    ends = uncertainty.interval(230, 1000, TWO_COINS, level=0.95, method="wald")
    assert ends == pytest.approx((-0.092166, 0.012166), abs=1e-6)


def test_standard_errors_of_case_c07():
    channel = Channel.of(build("generalized_randomized_response", domain=5, epsilon=1))
    found = uncertainty.standard_error_population([400, 165, 150, 145, 140], 1000, channel)
    assert found == pytest.approx([0.06057, 0.04589, 0.04415, 0.04353, 0.04290], abs=5e-6)


def test_significance_holds_its_level_exactly():
    """Nobody holds the value: the chance of a call, summed over every count, is at most alpha/M,
    and so near to it that a test at twice the level would not pass."""
    for cells in (1, 100):
        for p_true, p_false in ((0.75, 0.25), (0.5, 0.018), (1 / 6, 5 / 6)):
            channel = Channel.from_probabilities(p_true, p_false)
            every = np.arange(5001)
            called = uncertainty.significant(every, 5000, channel, level=0.95, cells=cells)
            chance = float(stats.binom.pmf(every, 5000, p_false)[called].sum())
            assert 0.5 * 0.05 / cells < chance <= 0.05 / cells


@pytest.mark.parametrize("case", GOLDEN["planner"], ids=lambda case: case["id"])
def test_golden_plans(case):
    if "target_se" in case:
        found = uncertainty.reports_needed(case["target_se"], case["f"], channel_of(case))
        assert found == case["n"]
    elif "critical_level" in case:
        shape = {"level": 1 - case["alpha"], "cells": case["cells"]}
        level = uncertainty.decision_level(case["n"], channel_of(case), **shape)
        limit = uncertainty.detection_limit(case["n"], channel_of(case), **shape, power=0.95)
        assert level == pytest.approx(case["critical_level"], rel=1e-9, abs=0)
        assert limit == pytest.approx(case["detection_limit_power95"], rel=1e-9, abs=0)
    else:
        found = [uncertainty.normal_quantile(1 - case["alpha"], m) for m in case["cells"]]
        assert found == pytest.approx(case["z"], rel=1e-9, abs=0)


def test_what_cannot_be_seen_at_this_n_is_said():
    assert uncertainty.detection_limit(4, TWO_COINS) is None
    assert uncertainty.counted_detection_limit(4, TWO_COINS) is None
    assert uncertainty.counted_detection_limit(1, TWO_COINS) is None


@settings(max_examples=200, deadline=None)
@example(n=1000, supports=0.00249, over=1.0, cells=20, turned=False)  # one support is just enough
@given(
    n=st.integers(1, 5000),
    supports=st.floats(1e-4, 1e3),
    over=st.floats(0.01, 1),
    cells=st.sampled_from([1, 20, 4096]),
    turned=st.booleans(),
)
def test_counted_limits_are_those_of_significant_counts(n, supports, over, cells, turned):
    q = min(supports / n, 0.9)
    chances = (q + (1 - q) * over, q)
    if turned:  # a report then speaks against the value
        chances = (1 - chances[0], 1 - q)
    channel = Channel.from_probabilities(*chances)
    counts = np.arange(n + 1)
    called = uncertainty.significant(counts, n, channel, level=0.95, cells=cells)
    level = uncertainty.counted_decision_level(n, channel, cells=cells)
    estimates = channel.invert(counts / n)
    sure = abs(estimates - level) > 1e-9 * max(1, level)
    assert ((estimates > level) == called)[sure].all()
    limit = uncertainty.counted_detection_limit(n, channel, cells=cells)
    last = counts[called][-1 if turned else 0] if called.any() else None

    def power(share):
        if last is None or share > 1:
            return float(last is not None)
        law = stats.binom(n, channel.support(share))
        return law.cdf(last) if turned else law.sf(last - 1)

    if limit is None:
        assert power(1 / 1.2) < 0.95
    else:
        assert power(0.8 * limit) < 0.95 < power(1.2 * limit)


def test_limits_of_many_supports_are_normal():
    for n in (10**8, 10**10, 10**12):
        normal = uncertainty.detection_limit(n, TWO_COINS, cells=172)
        exact = uncertainty.counted_detection_limit(n, TWO_COINS, cells=172)
        assert exact == pytest.approx(normal, rel=1e-3)


def test_the_worst_standard_error_is_the_largest_over_all_shares():
    for p_true, p_false in ((0.75, 0.25), (0.5, 0.018), (0.2, 0.05), (1 / 6, 5 / 6)):
        channel = Channel.from_probabilities(p_true, p_false)
        grid = np.sqrt(uncertainty.variance_population(np.linspace(0, 1, 2001), 400, channel))
        assert uncertainty.worst_standard_error(400, channel) == pytest.approx(grid.max(), rel=1e-6)


def test_golden_covariances():
    three, *_ = cases = GOLDEN["covariance"]
    channel = Channel.of(build("generalized_randomized_response", domain=3, epsilon=1))
    for case, population in zip(cases[:2], (False, True), strict=True):
        found = uncertainty.covariance(case["f"], case["n"], channel, "cell", population)
        assert found == pytest.approx(np.array(case["cov"]), rel=1e-9, abs=0)
        # A sum over all cells is known: raw shares of this mechanism add up to one.
        assert found.sum() == pytest.approx(0, abs=1e-15)
    oue = Channel.of(build("optimized_unary", domain=3, epsilon=1))
    found = uncertainty.covariance(three["f"], 1000, oue, "bits", True)
    assert found[0, 1] == pytest.approx(cases[2]["cov_01"], rel=1e-9, abs=0)
    assert uncertainty.covariance(three["f"], 1000, oue, "bits", False)[0, 1] == 0
    variances = uncertainty.variance_population(three["f"], 1000, oue)
    assert np.diag(found) == pytest.approx(variances, rel=1e-9, abs=0)


def test_a_design_effect_counts_direct_answers():
    """Reference 16: OUE, epsilon 1, f = 0.1, standard error 0.005 takes 154,908 reports, where
    direct answers would take f (1 - f) / 0.005**2 = 3,600."""
    effect, certain = uncertainty.design_effects(
        np.array([0.005, 0.1]), np.array([0.1, 1.0]), 154_908
    )
    assert effect == pytest.approx(154_908 / 3600, rel=1e-9)
    assert certain is None


def test_no_error_has_no_ratio():
    assert uncertainty.signal_to_noise(0.3, 0.1) == pytest.approx(3)
    assert uncertainty.signal_to_noise(1.0, 0.0) is None


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_simultaneous_intervals_hold_all_together_where_few_supports_are_expected(n: int) -> None:
    """At least 95 % of 4,000 collections, less six standard errors (1e-9); Wilson held 78 %."""
    mechanism = build("generalized_randomized_response", domain=16, epsilon=8)
    channel = Channel.of(mechanism)
    shares = np.array([0.6, 0.03, 0.02, *[0.05] * 7, *[0.0] * 6])
    law = channel.support(shares)
    counts = np.random.default_rng(n).multinomial(n, law / law.sum(), size=4000)
    low, high = uncertainty.simultaneous_interval(counts, n, channel, level=0.95, cells=16)
    held = ((low <= shares) & (shares <= high)).all(axis=1).mean()
    assert held > 0.95 - 6 * math.sqrt(0.95 * 0.05 / 4000)

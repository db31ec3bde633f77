"""The inversion: exact on golden values, unbiased in exact expectation, honest about no data."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from aggregator.tally import Tally
from client_sdk.mechanisms import RandomizedResponse, build
from estimator.debias import Channel, shares
from estimator.errors import NoReports

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())["frequency"]
NAMES = {
    "binary_rr": "randomized_response",
    "grr": "generalized_randomized_response",
    "sue": "symmetric_unary",
    "oue": "optimized_unary",
    "unary_general": "optimized_unary",
}


def mechanism_of(case):
    """The shipped mechanism of a golden case: by epsilon where the case has one."""
    written = case["params"]
    domain = written.get("d", 2)
    if "eps" in written:
        return build(NAMES[case["mechanism"]], domain=domain, epsilon=written["eps"])
    probabilities = {"p_true": case["p_star"], "p_false": case["q_star"]}
    return build(NAMES[case["mechanism"]], domain=domain, **probabilities)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden_tallies_are_inverted(case):
    mechanism = mechanism_of(case)
    counts = np.full((1, mechanism.cells), case["tally_count"], np.int64)
    found = shares(Tally(np.array([case["n"]]), counts), mechanism)
    assert float(mechanism.p_true) == pytest.approx(case["p_star"], rel=1e-9)
    assert float(mechanism.p_false) == pytest.approx(case["q_star"], rel=1e-9)
    assert float(mechanism.epsilon) == pytest.approx(case["eps"], rel=1e-9)
    assert found == pytest.approx([case["estimate"]] * mechanism.cells, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse.from_epsilon(0.5),
        RandomizedResponse.from_probabilities(Fraction(1, 6), Fraction(5, 6)),
        build("generalized_randomized_response", domain=16, epsilon=2),
        build("symmetric_unary", domain=16, epsilon=1),
        build("optimized_unary", domain=128, epsilon=4),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_the_estimate_is_unbiased_in_exact_expectation(mechanism, share):
    """Summed over every possible count, both for sampled reporters and for these reporters."""
    n, channel = 40, Channel.of(mechanism)
    every = np.arange(n + 1)
    sampled = stats.binom.pmf(every, n, channel.support(share))
    holders = round(n * share)
    fixed = np.convolve(
        stats.binom.pmf(np.arange(holders + 1), holders, channel.p_true),
        stats.binom.pmf(np.arange(n - holders + 1), n - holders, channel.p_false),
    )
    assert sampled @ channel.invert(every / n) == pytest.approx(share, abs=1e-12)
    assert fixed @ channel.invert(every / n) == pytest.approx(holders / n, abs=1e-12)


@pytest.mark.parametrize(
    ("p_true", "p_false", "n", "yes", "share"),
    [
        pytest.param(0.75, 0.25, 1000, 230, -0.04, id="C01-below-zero-is-published"),
        pytest.param(1 / 6, 5 / 6, 1000, 750, 0.125, id="C11-negative-divisor"),
        pytest.param(1.0, 0.5, 100, 52, 0.04, id="C13-absurd-question"),
        pytest.param(1.0, 0.5, 100, 50, 0.0, id="C13-exactly-none"),
        pytest.param(1.0, 0.5, 100, 47, -0.06, id="C13-below-zero"),
        pytest.param(0.8, 0.2, 1000, 508, 0.5133333333333333, id="C18-equal-forced-answers"),
    ],
)
def test_binary_designs_of_surveys_are_inverted(p_true, p_false, n, yes, share):
    found = Channel.from_probabilities(p_true, p_false).invert(yes / n)
    assert found == pytest.approx(share, abs=1e-12)


def test_raw_shares_of_randomized_response_add_up_to_one_unclipped():
    """Case C07: five values at epsilon 1."""
    mechanism = build("generalized_randomized_response", domain=5, epsilon=1)
    tally = Tally(np.array([1000]), np.array([[400, 165, 150, 145, 140]]))
    found = shares(tally, mechanism)
    assert found == pytest.approx([0.98198, 0.06315, 0.00451, -0.01504, -0.03459], abs=5e-6)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_the_gap_is_exact_where_floats_cancel():
    """At epsilon 1e-9 p_true and p_false agree to nine digits; none may be lost."""
    mechanism = build("randomized_response", domain=2, epsilon="1e-9")
    assert Channel.of(mechanism).gap == pytest.approx(5e-10, rel=1e-9, abs=0)


def test_no_reports_is_an_error_and_not_a_number():
    mechanism = RandomizedResponse.from_epsilon(1)
    with pytest.raises(NoReports):
        shares(Tally.zero(mechanism), mechanism)


def test_equal_probabilities_cannot_be_inverted():
    with pytest.raises(ValueError, match="must differ"):
        Channel.from_probabilities(0.3, 0.3)

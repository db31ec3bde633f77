"""Hashed values: fast supports are the plain sums, golden figures, and what reports turn into."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import hadamard

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import (
    BinaryLocalHashing,
    HadamardResponse,
    LocalHashing,
    OptimizedLocalHashing,
    build,
)
from estimator import real_reports, uncertainty
from estimator.debias import Channel
from estimator.empirical_audit import collision_chance, lower_bound
from estimator.estimate import estimate
from estimator.hadamard import walsh_hadamard
from estimator.inversion.hashed import supports
from estimator.plausibility import judge, popcount_law, worst_shift
from estimator.releases.release import compose
from tests.registries import registry, theme

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "conformance" / "golden_hashing.json").read_text()
)
NAMES = ["optimized_local_hashing", "binary_local_hashing", "hadamard_response"]


def described(mechanism):
    """What an inversion needs to know of a metric."""
    labels = tuple(f"value {index}" for index in range(mechanism.domain))
    return SimpleNamespace(mechanism=mechanism, labels=labels, candidates=(), edges=())


def plain_supports(mechanism, counts):
    own = [list(mechanism.cells_for(value, 0)) for value in range(mechanism.domain)]
    return np.stack([counts[..., cells].sum(axis=-1) for cells in own], axis=-1)


SIZES = [2, 3, 4, 5, 7, 8, 11, 13, 16, 32]
SHAPES = [(size, d) for size in SIZES for d in {2, 3, size, size + 1, 40, size**2, 300} if d > 1]


@pytest.mark.parametrize(("size", "domain"), SHAPES)
def test_supports_by_digits_are_the_sums_over_each_values_cells(size, domain):
    mechanism = OptimizedLocalHashing.from_epsilon(domain, 1, size)
    counts = np.random.default_rng(size).integers(0, 1000, (2, 3, mechanism.cells))
    found = supports(mechanism, counts)
    assert found.dtype == np.int64
    assert (found == plain_supports(mechanism, counts)).all()


@pytest.mark.parametrize("domain", [2, 3, 4, 7, 8, 63, 64, 100, 127])
def test_supports_by_signs_are_the_sums_over_each_values_cells(domain):
    for mechanism in (
        HadamardResponse.from_epsilon(domain, 1),
        BinaryLocalHashing.from_epsilon(domain, 1, 2),
    ):
        counts = np.random.default_rng(domain).integers(0, 1000, (2, mechanism.cells))
        before = counts.copy()
        assert (supports(mechanism, counts) == plain_supports(mechanism, counts)).all()
        assert (counts == before).all()  # the caller's array is the caller's: trap 26


@pytest.mark.parametrize("order", [1, 2, 4, 64, 256])
def test_the_fast_transform_is_the_product_with_sylvesters_matrix(order):
    numbers = np.random.default_rng(order).integers(-(10**9), 10**9, (3, order))
    assert (walsh_hadamard(numbers) == numbers @ hadamard(order, dtype=np.int64)).all()


def test_large_counts_are_summed_exactly():
    mechanism = HadamardResponse.from_epsilon(7, 1)
    counts = np.full(mechanism.cells, 2**50 + 1)
    assert (supports(mechanism, counts) == 8 * (2**50 + 1)).all()


def golden_mechanism(case):
    """The shipped mechanism; of local hashing on a list so long that q* is 1/g to 24 digits."""
    written = case["params"]
    if case["mechanism"] == "hadamard_response":
        return HadamardResponse.from_epsilon(written["d"], written["eps"])
    kind = {"blh": BinaryLocalHashing, "olh": OptimizedLocalHashing}[case["mechanism"]]
    return kind.from_epsilon(written["g"] ** 40, written["eps"], written["g"])


@pytest.mark.parametrize("case", GOLDEN["frequency"], ids=lambda case: case["id"])
def test_golden_channels_estimates_and_errors(case):
    mechanism, n, count = golden_mechanism(case), case["n"], case["tally_count"]
    channel = Channel.of_values(mechanism)

    def close(name):
        return pytest.approx(case[name], rel=1e-9, abs=0)

    assert float(mechanism.support_true) == close("p_star")
    assert float(mechanism.support_false) == close("q_star")
    assert float(mechanism.epsilon) == close("eps")
    assert float(channel.invert(count / n)) == close("estimate")
    assert float(n * channel.support(case["f"])) == close("expected_count")
    assert float(channel.invert(case["expected_count"] / n)) == close("expected_estimate")
    assert float(uncertainty.variance_population(case["f"], n, channel)) == close("var_sampling")
    assert float(uncertainty.variance_reporters(case["f"], n, channel)) == close("var_fixed")
    assert float(uncertainty.standard_error_population(count, n, channel)) == close(
        "se_sampling_hat"
    )
    assert float(uncertainty.standard_error_reporters(count, n, channel)) == close("se_fixed_hat")
    for method in ("wald", "wilson", "clopper_pearson"):
        ends = uncertainty.interval(count, n, channel, level=0.95, method=method)
        # As in test_uncertainty: the reference bisected Clopper-Pearson ends of counts to 2e-12.
        wanted = pytest.approx(case[f"ci95_{method}"], rel=1e-9, abs=2e-12 / channel.gap)
        assert [float(end) for end in ends] == wanted


@pytest.mark.parametrize(
    "case", [c for c in GOLDEN["frequency"] if "d" in c["params"]], ids=lambda case: case["id"]
)
def test_golden_hadamard_tallies_become_entries(case):
    mechanism, n, count = golden_mechanism(case), case["n"], case["tally_count"]
    assert mechanism.columns == case["params"]["K"]
    value = mechanism.domain - 1
    own = list(mechanism.cells_for(value, 0))
    counts = np.zeros((1, mechanism.cells), np.int64)
    counts[0, own[:2]] = count - 7, 7
    counts[0, [cell for cell in range(mechanism.cells) if cell not in own][:1]] = n - count
    found = estimate(described(mechanism), Tally.of(counts))
    entry = found.entries[value]
    assert entry.share == pytest.approx(case["estimate"], rel=1e-9)
    assert entry.standard_error == pytest.approx(case["se_sampling_hat"], rel=1e-9)
    assert entry.standard_error_reporters == pytest.approx(case["se_fixed_hat"], rel=1e-9)
    assert entry.interval == pytest.approx(tuple(case["ci95_wilson"]), rel=1e-9)


@pytest.mark.parametrize("case", GOLDEN["poisoning"], ids=lambda case: case["id"])
def test_golden_worst_shifts(case):
    mechanism = (
        HadamardResponse.from_epsilon(100, 1)
        if "hr1" in case["id"]
        else OptimizedLocalHashing.from_epsilon(4**40, 1, 4)
    )
    share, fakes = case["f"], case["malicious_fraction"]
    channel = Channel.of_values(mechanism)
    honest = (1 - fakes) * channel.support(share)
    up, down = (float(channel.invert(honest + fakes * sent)) - share for sent in (1, 0))
    assert (up, down) == pytest.approx((case["max_up"], case["max_down"]), rel=1e-9)
    assert up + fakes * share == pytest.approx(fakes * case["per_report_gain_factor"], rel=1e-9)
    assert max(up, -down) <= worst_shift(mechanism, fakes)


@pytest.mark.parametrize("case", GOLDEN["planner"], ids=lambda case: case["id"])
def test_golden_plans(case):
    channel = Channel.of_values(OptimizedLocalHashing.from_epsilon(4**40, 1, 4))
    assert uncertainty.reports_needed(case["target_se"], case["f"], channel) == case["n"]


def test_the_largest_lists_are_inverted_without_a_table_of_values_and_seeds():
    for domain, size in ((63_001, 251), (60_000, 65_003), (16_000, 4), (32_768, 2)):
        mechanism = OptimizedLocalHashing.from_epsilon(domain, 1, size)
        counts = np.random.default_rng(1).integers(0, 9, mechanism.cells)
        found = supports(mechanism, counts)
        for value in (0, 1, domain // 2, domain - 1):
            assert found[value] == counts[list(mechanism.cells_for(value, 0))].sum()


@pytest.mark.parametrize("name", NAMES)
def test_no_reports_are_no_estimates(name):
    mechanism = build(name, domain=12, epsilon=1)
    found = estimate(described(mechanism), Tally.zero(mechanism))
    assert found.n == 0 and [entry.share for entry in found.entries] == [None] * 12
    assert judge(mechanism, Tally.zero(mechanism), ()).cohort_p is None


@pytest.mark.parametrize("name", NAMES)
def test_a_crowd_that_names_one_seed_shows_and_an_honest_one_does_not(name):
    """Honest seeds are even whatever the values: an alarm of them has a chance of 2e-4, the seed
    is fixed. 600 fakes among 10,000 in one of at most 63 seeds are over 30 standard errors."""
    mechanism = build(name, domain=40, epsilon=1)
    law = np.array([float(p) for p in mechanism.channel(3, 0)])
    honest = np.random.default_rng(5).multinomial(10_000, law / law.sum())
    assert popcount_law(mechanism) is None
    found = judge(mechanism, Tally.of(honest), ())
    assert found.cohort_p is not None and not found.alarm and found.popcount_p is None
    fakes = honest.copy()
    fakes[mechanism.cells_for(3, 0)[0]] += 600
    assert judge(mechanism, Tally.of(fakes), ()).alarm


def test_values_of_one_digit_are_counted_directly():
    mechanism = build("optimized_local_hashing", domain=10, epsilon=4)
    assert isinstance(mechanism, LocalHashing) and mechanism.seeds == 1
    direct = build("generalized_randomized_response", domain=11, epsilon=4)
    assert (mechanism.cells, mechanism.rare_variance) == (11, direct.rare_variance)


VALUES = [f"v{number}" for number in range(19)] + ["other"]


@pytest.mark.parametrize("name", NAMES)
def test_real_reports_bound_epsilon_closely_from_below(name):
    """The empirical audit looks at the cells that only one of two values has. At a confidence of
    1 - 1e-6 the bound is above the truth with a probability below that."""
    text = registry(theme(*VALUES, mechanism=name))
    metric = loads(text).metrics["theme"]
    pair = real_reports.hardest_pair(metric)

    def rows(value):
        return lambda n: real_reports.describe(
            metric, pair, real_reports.draw(loads(text), metric, value, n)
        )

    found = lower_bound(rows(pair[0]), rows(pair[1]), 10_000, 1 - 1e-6)
    assert 0.35 < found.epsilon <= float(metric.mechanism.epsilon)
    encoded, _ = metric.encode(pair[0])
    assert 0 < collision_chance(metric.mechanism, encoded) < 1 / metric.mechanism.even_parts


@pytest.mark.parametrize("name", NAMES)
def test_a_release_states_the_probabilities_of_values_and_not_of_cells(name):
    metric = loads(registry(theme(*VALUES, mechanism=name))).metrics["theme"]
    counts = np.full((1, metric.mechanism.cells), 100)
    estimates = estimate(metric, Tally.of(counts))
    channels = compose(metric, "shop-app", 2970, estimates, now=1_797_000_000.0).channels
    of_values = Channel.of_values(metric.mechanism)
    assert (channels.p_true, channels.p_false) == (of_values.p_true, of_values.p_false)
    # From them alone anybody recomputes a share.
    supported = int(supports(metric.mechanism, counts[0])[4]) / counts.sum()
    again = (supported - channels.p_false) / (channels.p_true - channels.p_false)
    assert estimates.entries[4].share == pytest.approx(again, abs=1e-12)

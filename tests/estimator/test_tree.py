"""Trees: levels that agree, ranges that are more exact than flat ones, and what fakes can do."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from aggregator.tally import Tally
from client_sdk.mechanisms import HierarchicalHistogram, OptimizedUnary
from estimator.canary import evidence
from estimator.canary.truth import Truth
from estimator.canary.utility import score
from estimator.debias import Channel
from estimator.estimate import estimate
from estimator.estimates import Estimate
from estimator.inversion.tree import Histogram, fit, nodes_of
from estimator.plausibility import FAKES, popcount_law
from estimator.releases.release import compose
from estimator.uncertainty import variance_population
from tests.conformance.simulated import tallies
from tests.estimator.test_quantiles import GAMMA, metric_of

TREE = HierarchicalHistogram.from_epsilon(11, 1, 3)
TRUTH = np.array([0.3, 0.0, 0.0, 0.05, 0.1, 0.25, 0.0, 0.02, 0.08, 0.0, 0.2])


def expected_counts(
    mechanism: HierarchicalHistogram, reports: np.ndarray, truth: np.ndarray
) -> np.ndarray:
    """What the levels count on average, not rounded."""
    counts = np.zeros((mechanism.cohorts, mechanism.cells))
    for level, width in enumerate(mechanism.widths):
        held = nodes_of(truth, mechanism, level)
        counts[level, :width] = reports[level] * Channel.of(mechanism).support(held)
    return counts


def test_expected_counts_are_inverted_to_the_truth_whatever_the_levels_weigh() -> None:
    for reports in ([100, 100, 100], [7, 5000, 40], [0, 0, 3], [0, 10, 2]):
        counts = expected_counts(TREE, np.array(reports), TRUTH)
        assert fit(TREE, np.array(reports)).shares(counts) == pytest.approx(TRUTH, abs=1e-12)


def test_the_fit_is_the_best_one_under_the_constraint() -> None:
    """Against a solver that is told nothing of trees: all nodes as rows, the total by far the
    heaviest row."""
    reports = np.array([300, 500, 200])
    chance = np.random.default_rng(3)
    counts = chance.binomial(reports[:, None], 0.3, (3, 11))
    channel = Channel.of(TREE)
    rows, answers = [np.full(11, 1e6)], [1e6]
    for level, width in enumerate(TREE.widths):
        for node in range(width):
            inside = [TREE.node(leaf, level) == node for leaf in range(11)]
            weight = np.sqrt(reports[level])
            rows.append(weight * np.array(inside))
            answers.append(weight * float(channel.invert(counts[level, node] / reports[level])))
    expected = np.linalg.lstsq(np.array(rows), np.array(answers), rcond=None)[0]
    assert fit(TREE, reports).shares(counts) == pytest.approx(expected, abs=1e-6)


def test_counts_of_cells_that_a_level_does_not_have_change_nothing() -> None:
    reports = np.array([300, 500, 200])
    counts = np.zeros((3, 11), np.int64)
    stray = counts.copy()
    for level, width in enumerate(TREE.widths):
        stray[level, width:] = 100
    assert np.array_equal(fit(TREE, reports).shares(counts), fit(TREE, reports).shares(stray))


def test_all_on_the_first_leaf_are_found_there() -> None:
    """pure-ldp's hierarchical local hashing counts index 0 as another item: .01 instead of 1."""
    only = np.eye(11)[0]
    reports = np.array([1000, 1000, 1000])
    found = Histogram.of(TREE, Tally(reports, expected_counts(TREE, reports, only)))
    assert found.leaves == pytest.approx(only, abs=1e-12)
    assert found.range_share(0, 0)[0] == pytest.approx(1)
    assert found.range_share(1, 10)[0] == pytest.approx(0)


@pytest.mark.parametrize(("domain", "branching"), [(2, 4), (16, 2), (100, 4), (37, 6), (300, 400)])
def test_the_variance_to_plan_with_is_that_of_the_fit(domain: int, branching: int) -> None:
    mechanism = HierarchicalHistogram.from_epsilon(domain, 1, branching)
    sums = fit(mechanism, np.full(mechanism.cohorts, 50))
    parts_left = sum((pull**2).sum(axis=1) for pull in sums.pulls)
    expected = parts_left.max() * mechanism.node_variance
    assert mechanism.rare_variance == pytest.approx(expected, rel=1e-9)
    assert mechanism.rare_variance < mechanism.node_variance


def test_ranges_are_more_exact_than_those_of_a_flat_histogram() -> None:
    """256 buckets, epsilon 1, 100,000 reports, all ranges that begin and end at a multiple of 9."""
    d, n = 256, 100_000
    flat = np.full(d, 1 / d)
    tree = HierarchicalHistogram.from_epsilon(d, 1)
    sums = fit(tree, np.full(tree.cohorts, n // tree.cohorts))
    ends = [(low, high) for low in range(0, d, 9) for high in range(low, d, 9)]
    found = np.array([sums.between(*pair).errors(flat)[0][0] for pair in ends])
    channel = Channel.of(OptimizedUnary.from_epsilon(d, 1))
    sizes = np.array([high - low + 1 for low, high in ends])
    # Bits are independent given the value; of the total nothing is known in a plain sum.
    noise = sizes * float(variance_population(0.0, n, channel))
    summed = np.sqrt(noise + sizes / d * (1 - sizes / d) / n)
    assert np.sqrt(np.mean(found**2)) < 0.4 * np.sqrt(np.mean(summed**2))
    assert found.max() < 0.03 < 0.09 < summed.max()
    # The price: a single bucket is known less well.
    leaf = float(sums.errors(flat)[0].max())
    assert leaf > 1.5 * np.sqrt(noise[0])


def test_a_range_and_its_complement_have_one_error_and_add_up_to_one() -> None:
    reports = np.array([400, 500, 600])
    counts = np.random.default_rng(5).binomial(reports[:, None], 0.3, (3, 11))
    found = Histogram.of(TREE, Tally(reports, counts))
    low, error = found.range_share(0, 4)
    high, same = found.range_share(5, 10)
    assert low + high == pytest.approx(1) and error == pytest.approx(same)
    assert found.range_share(3, 3)[0] == pytest.approx(found.leaves[3])
    assert found.range_share(0, 10) == pytest.approx((1, 0), abs=1e-7)
    with pytest.raises(ValueError, match="low <= high < 11, got 3 and 11"):
        found.range_share(3, 11)


def test_without_reports_of_leaves_there_is_no_estimate() -> None:
    metric = metric_of("hierarchical_histogram")
    reports = np.array([500, 0])
    found = estimate(metric, Tally(reports, np.full((2, 12), 0)))
    assert found.n == 500 and found.quantiles == ()
    assert all(entry.share is None for entry in found.entries)
    assert [entry.value for entry in found.entries] == list(metric.labels)
    json.dumps(found.to_dict(), allow_nan=False)


def test_one_report_is_an_estimate_without_nan() -> None:
    metric = metric_of("hierarchical_histogram")
    counts = np.zeros((2, 12), np.int64)
    found = estimate(metric, Tally(np.array([0, 1]), counts))
    json.dumps(found.to_dict(), allow_nan=False)
    assert all(entry.standard_error for entry in found.entries)


def test_fakes_move_a_share_by_the_worst_shift_at_most() -> None:
    reports = np.array([1000, 1000, 1000])
    honest = expected_counts(TREE, reports, TRUTH)
    sums = fit(TREE, reports)
    fakes = round(FAKES * 3000)
    worst = sums.worst_shift()
    moved = 0.0
    for level, width in enumerate(TREE.widths):
        rate = honest[level, :width] / reports[level]
        for pull in sums.pulls[level]:
            for wanted in (pull > 0, pull < 0):
                counts = honest.copy()
                counts[level, :width] += fakes * (wanted - rate)
                moved = max(moved, np.abs(sums.shares(counts) - TRUTH).max())
    assert 0.5 * worst < moved <= worst


def test_the_law_of_popcounts_is_that_of_a_level_drawn_at_random() -> None:
    small = HierarchicalHistogram.from_epsilon(5, 1, 2)
    p, q = float(small.p_true), float(small.p_false)
    expected = np.zeros(6)
    for width in (2, 3, 5):
        noise = stats.binom.pmf(np.arange(width), width - 1, q)
        expected[:width] += (1 - p) * noise / 3
        expected[1 : width + 1] += p * noise / 3
    assert popcount_law(small) == pytest.approx(expected, abs=1e-15)


def test_a_canary_with_a_tree_is_judged_without_supposing_independent_values() -> None:
    """30 epochs of an estimator that works raise no alarm, of one that halves its errors they do.
    The seed is fixed; anew, p-values would lie below 5e-8 with that probability each."""
    metric = metric_of("hierarchical_histogram")
    mechanism, n = metric.mechanism, 500
    chance = np.random.default_rng(21)
    drawn = tallies(mechanism, range(12), GAMMA.tolist(), n, 30, chance)
    known = tuple(zip(metric.labels, GAMMA.tolist(), strict=True))
    truth = [Truth(metric.name, "once", metric.fingerprint, known, n) for _ in range(30)]
    assert evidence.independent_values(mechanism.name, 12) is None
    found = [estimate(metric, Tally(*each)) for each in zip(*drawn, strict=True)]
    releases = [compose(metric, "shop-app", 0, each, now=1_796_600_000.0) for each in found]
    result = score(list(zip(releases, truth, strict=True)))
    assert result.alarms == () and min(result.p_coverage, result.p_error) > 5e-8
    assert result.p_standard_error is None
    sure = [
        replace(each, entries=tuple(_halved(entry) for entry in each.entries)) for each in found
    ]
    releases = [compose(metric, "shop-app", 0, each, now=1_796_600_000.0) for each in sure]
    assert score(list(zip(releases, truth, strict=True))).alarms


def _halved(entry: Estimate) -> Estimate:
    """An entry that claims half its error."""
    assert entry.standard_error is not None and entry.share is not None
    error = entry.standard_error / 2
    ends = (entry.share - 1.96 * error, entry.share + 1.96 * error)
    return replace(entry, standard_error=error, interval=ends)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "n"), [("1.0", 300), ("2.0", 2000), ("8.0", 100)])
def test_intervals_of_leaves_cover_as_often_as_they_say(epsilon: str, n: int) -> None:
    """2,000 collections of 16 leaves, four of them held. 95 % may be 93.5 % where other laws stand
    in for those of few supports; less is covered with probability 1e-8 for each leaf."""
    truth = np.zeros(16)
    truth[[0, 3, 4, 15]] = 0.4, 0.41, 0.09, 0.1
    mechanism = HierarchicalHistogram.from_epsilon(16, epsilon)
    metric = metric_of("hierarchical_histogram", buckets=16)._replace(mechanism=mechanism)
    chance, collections = np.random.default_rng(31), 2000
    drawn = tallies(mechanism, range(16), truth.tolist(), n, collections, chance)
    covered, together = np.zeros(16), 0
    for each in zip(*drawn, strict=True):
        entries = estimate(metric, Tally(*each)).entries
        low, high = np.array([entry.interval for entry in entries]).T
        covered += (low <= truth) & (truth <= high)
        low, high = np.array([entry.simultaneous_interval for entry in entries]).T
        together += bool(((low <= truth) & (truth <= high)).all())
    least = stats.binom.ppf(1e-8, collections, 0.935)
    assert covered.min() > least and together > least


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "n"), [("2.0", 2000), ("7.0", 1500)])
def test_empty_leaves_are_seldom_called_present(epsilon: str, n: int) -> None:
    """In one of 20 collections at most any of them is; in 2,000 more with probability 1e-8. At
    epsilon 7 an empty leaf has half a support: the normal law alone calls twice too often."""
    truth = np.zeros(64)
    truth[:2] = 0.5
    mechanism = HierarchicalHistogram.from_epsilon(64, epsilon)
    metric = metric_of("hierarchical_histogram", buckets=64)._replace(mechanism=mechanism)
    chance, collections = np.random.default_rng(32), 2000
    drawn = tallies(mechanism, range(64), truth.tolist(), n, collections, chance)
    called = sum(
        any(entry.significant for entry in estimate(metric, Tally(*each)).entries[2:])
        for each in zip(*drawn, strict=True)
    )
    assert called < stats.binom.isf(1e-8, collections, 0.05)

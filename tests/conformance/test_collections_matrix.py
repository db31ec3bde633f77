"""Subsets, Hadamard blocks and exponential channels: predicted errors, and whole ways of a value.

10,000 simulated collections each; a standard deviation of so many is off by 0.7 % (one sigma), and
3 % is more than four of them. Reporters' errors are drawn with the holders fixed.
"""

import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk.audit import law
from client_sdk.errors import ParameterError
from client_sdk.mechanisms import BlockHadamardResponse, Mechanism, SubsetSelection, build
from client_sdk.metric import Metric
from client_sdk.preview import in_words
from client_sdk.randomness import Coin
from client_sdk.recorder import cohort_of_report
from client_sdk.registry import loads
from client_sdk.report import Report, report_to_json
from estimator import real_reports
from estimator.debias import Channel
from estimator.empirical_audit import collision_chance
from estimator.estimate import estimate
from estimator.inversion.blocks import block_estimate
from estimator.inversion.scores import Linear, channel_rows, linear_estimate, unbiased_scores
from estimator.plausibility import judge, popcount_law
from estimator.releases.release import Channels
from estimator.uncertainty import variance_population, variance_reporters
from tests.conformance.simulated import COLLECTIONS, WITHIN, tallies

SHARES = (0.5, 0.3, 0.15, 0.05, 0.0)
N = 2000
OPTIONS = [
    pytest.param("subset_selection", {}, id="subset"),
    pytest.param("subset_selection", {"size": 3}, id="subset-of-3"),
    pytest.param("block_hadamard_response", {"blocks": 1}, id="one-block"),
    pytest.param("block_hadamard_response", {"blocks": 2}, id="two-blocks"),
    pytest.param("exponential", {}, id="distance"),
    pytest.param("exponential", {"rescale": False}, id="distance-not-rescaled"),
    pytest.param(
        "exponential",
        {"utility": [[int(x == y) + (x < y) for y in range(5)] for x in range(5)]},
        id="lopsided",
    ),
]


def estimated(mechanism: Mechanism, counts: np.ndarray, n: np.ndarray) -> Linear:
    """Estimates of many collections, by the shipped inversion of score mechanisms."""
    if isinstance(mechanism, BlockHadamardResponse):
        return block_estimate(counts, mechanism, n)
    rows = channel_rows(mechanism)
    return linear_estimate(counts, unbiased_scores(rows), rows, n)


def shares_and_predicted(
    mechanism: Mechanism, counts: np.ndarray, variance: Callable[..., np.ndarray], which: str
) -> tuple[np.ndarray, np.ndarray]:
    """Estimated shares of all collections, and the error that is stated for them on average."""
    if isinstance(mechanism, SubsetSelection):
        channel = Channel.of_values(mechanism)
        return channel.invert(counts / N), np.sqrt(variance(SHARES, N, channel))
    found = estimated(mechanism, counts, np.full(len(counts), N))
    return found.shares, np.sqrt((getattr(found, which) ** 2).mean(axis=0))


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_the_error_about_the_population_is_the_predicted_one(name: str, options: dict) -> None:
    mechanism = build(name, domain=5, epsilon="1.5", **options)
    chance = np.random.default_rng(8)
    _, counts = tallies(mechanism, range(5), SHARES, N, COLLECTIONS, chance)
    found, predicted = shares_and_predicted(
        mechanism, counts[:, 0], variance_population, "population"
    )
    assert np.abs(found.mean(axis=0) - SHARES).max() < 6 * predicted.max() / COLLECTIONS**0.5
    assert np.abs(found.std(axis=0) / predicted - 1).max() < WITHIN


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_the_error_about_the_reporters_is_the_predicted_one(name: str, options: dict) -> None:
    mechanism = build(name, domain=5, epsilon="1.5", **options)
    chance = np.random.default_rng(9)
    counts = np.zeros((COLLECTIONS, mechanism.cells), np.int64)
    for value, share in enumerate(SHARES):
        alone = np.eye(5)[value]
        holders = round(N * share)
        counts += tallies(mechanism, range(5), alone, holders, COLLECTIONS, chance)[1][:, 0]
    found, predicted = shares_and_predicted(mechanism, counts, variance_reporters, "reporters")
    assert np.abs(found.mean(axis=0) - SHARES).max() < 6 * predicted.max() / COLLECTIONS**0.5
    assert np.abs(found.std(axis=0) / predicted - 1).max() < WITHIN


METRIC = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"
[metrics.version]
question = "Which version runs?"
type = "ordinal"
values = ["1", "2", "3", "4", "5"]
missing = "1"
sensitivity = "product"
epsilon = 1.5
epoch = "month"
starts = 2026-11-30
expires = 2027-12-31
owners = ["release-team@example.org"]
mechanism = MECHANISM
"""
WRITTEN = [
    '"subset_selection"',
    '{ name = "subset_selection", size = 3 }',
    '"block_hadamard_response"',
    '{ name = "block_hadamard_response", blocks = 2 }',
    '"exponential"',
    '{ name = "exponential", utility = '
    "[[1,0,0,0,0], [0,1,0,0,0], [0,0,1,0,0], [0,0,0,1,0], [0,0,0,0,2]] }",
]


def metric_of(mechanism: str) -> Metric:
    return loads(METRIC.replace("MECHANISM", mechanism)).metrics["version"]


def collected(metric: Metric, answers: list[str]) -> tuple[Tally, list[int]]:
    """What a server counts of reports that devices make, by way of their JSON."""
    mechanism, coin = metric.mechanism, Coin()
    tally, popcounts = Tally.zero(mechanism), [0] * (mechanism.cells + 1)
    for answer in answers:
        value, _ = metric.encode(answer)
        cohort = cohort_of_report(b"", metric, coin)
        response = mechanism.instantaneous(mechanism.permanent(value, cohort, coin), coin)
        text = report_to_json(
            Report(metric.name, metric.fingerprint, 0, cohort, response), mechanism
        )
        sent = json.loads(text)
        received = sent["response"]
        cells = mechanism.support(int(received, 16) if isinstance(received, str) else received)
        assert all(0 <= cell < mechanism.cells for cell in cells)
        tally.reports[sent["cohort"]] += 1
        tally.counts[sent["cohort"], list(cells)] += 1
        popcounts[len(cells)] += 1
    return tally, popcounts if mechanism.kind == "bits" else []


@pytest.mark.parametrize("written", WRITTEN)
def test_from_a_file_over_reports_to_estimates_that_find_the_truth(written: str) -> None:
    """4,000 real reports; each of 30 shares is beyond 5 standard errors once in 1.7 million."""
    metric = metric_of(written)
    truth = dict(zip(metric.labels, (0.5, 0.25, 0.2, 0.05, 0.0), strict=True))
    answers = [label for label, share in truth.items() for _ in range(round(4000 * share))]
    tally, popcounts = collected(metric, [str(answer) for answer in answers])
    found = estimate(metric, tally)
    assert found.n == 4000 and found.epsilon <= 1.5
    for entry in found.entries:
        assert entry.value is not None and entry.share is not None
        assert entry.standard_error is not None and entry.standard_error_reporters is not None
        assert abs(entry.share - truth[entry.value]) < 5.3 * entry.standard_error_reporters
        # Outside of 0..1 the one is taken at the estimate, the other at the nearest share.
        inside = 0 <= entry.share <= 1
        assert entry.standard_error >= entry.standard_error_reporters or not inside
    assert sum(entry.consistent or 0 for entry in found.entries) == pytest.approx(1)
    assert found.worst_shift is not None and found.worst_shift > 0.01
    json.dumps(found.to_dict(), allow_nan=False)
    assert not judge(metric.mechanism, tally, popcounts).alarm
    # The largest share is far beyond noise in the least exact of these.
    assert found.entries[0].significant


@pytest.mark.parametrize("written", WRITTEN)
def test_no_reports_give_no_estimates(written: str) -> None:
    metric = metric_of(written)
    found = estimate(metric, Tally.zero(metric.mechanism))
    assert found.n == 0 and found.worst_shift is None
    assert all(entry.share is None for entry in found.entries)


@pytest.mark.parametrize("written", WRITTEN)
def test_one_report_gives_estimates_with_errors(written: str) -> None:
    metric = metric_of(written)
    tally, _ = collected(metric, ["2"])
    for entry in estimate(metric, tally).entries:
        assert entry.standard_error is not None and np.isfinite(entry.standard_error)
        assert entry.interval is not None and entry.interval[0] < entry.interval[1]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_value_that_is_none_is_refused_and_not_counted_as_another(written: str) -> None:
    for value in (-1, 5):
        with pytest.raises(ParameterError, match=r"value must be an index in 0\.\.4"):
            metric_of(written).mechanism.permanent(value, 0, Coin())


@pytest.mark.parametrize("written", WRITTEN)
def test_a_release_states_two_chances_only_where_they_are_all(written: str) -> None:
    channels = Channels.of(metric_of(written))
    assert (channels.p_true is None) == (channels.p_false is None) == ("subset" not in written)


def test_a_set_of_another_size_is_no_honest_report() -> None:
    mechanism = metric_of(WRITTEN[1]).mechanism
    tally = Tally.of(np.full((1, 5), 300), [500])
    assert popcount_law(mechanism) is None
    honest = judge(mechanism, tally, [0, 0, 0, 500, 0, 0])
    assert (honest.popcount_p, honest.alarm) == (1.0, False)
    assert judge(mechanism, tally, [0, 0, 0, 499, 1, 0]).alarm
    assert judge(mechanism, Tally.zero(mechanism), [0] * 6).popcount_p is None


@pytest.mark.parametrize("size", [1, 2, 4])
def test_two_sets_are_equal_as_often_as_is_stated(size: int) -> None:
    mechanism = SubsetSelection.from_epsilon(5, 1, size)
    outcomes, _ = law(partial(mechanism.instantaneous, 1))
    expected = float(sum(chance * chance for chance in outcomes.values()))
    assert collision_chance(mechanism, 0) == pytest.approx(expected, rel=1e-12)


def test_a_user_is_told_which_answers_a_report_speaks_for() -> None:
    words = []
    for written, response in ((WRITTEN[1], "13"), (WRITTEN[3], 0), (WRITTEN[4], 3)):
        metric = metric_of(written)
        sent = Report(metric.name, metric.fingerprint, 0, 0, 0)._asdict() | {"response": response}
        words.append(in_words(sent, metric).split(": ")[-1])
    assert words == [
        "you may or may not have answered '1' or '2' or '5'",
        "you may or may not have answered '1' or '3' or '5'",
        "you may or may not have answered '4'",
    ]


@pytest.mark.parametrize("written", WRITTEN)
def test_the_empirical_audit_describes_reports_by_what_tells_two_values_apart(written: str) -> None:
    metric = metric_of(written)
    pair = real_reports.hardest_pair(metric)
    assert pair[0] != pair[1]
    index = metric.index_of[pair[0]]
    rows = channel_rows(metric.mechanism)
    if metric.mechanism.kind == "cell":
        other = metric.mechanism.cells_for(metric.index_of[pair[1]], 0)
        own = set(metric.mechanism.cells_for(index, 0)) - set(other)
        coin = Coin()
        draws = [[(0, metric.mechanism.instantaneous(index, coin))] for _ in range(2000)]
        described = real_reports.describe(metric, pair, draws)
        # 2,000 draws: six standard errors.
        assert abs(described[:, 0].mean() - rows[index, list(own)].sum()) < 6 * 0.5 / 2000**0.5

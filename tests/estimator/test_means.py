"""From a declared number to its mean, and what is published about it."""

import json
import math
from decimal import Decimal

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import POSITIONS, NumberGrid, OneBitMean, build
from client_sdk.metric import Metric
from client_sdk.preview import in_words
from client_sdk.randomness import Coin
from client_sdk.recorder import cohort_of_report
from client_sdk.report import Report, report_to_json
from estimator.document import parse
from estimator.estimate import estimate
from estimator.plausibility import judge, popcount_law
from tests.registries import registry

GOLDEN = {  # golden.json, section numeric: 1bitmean-1, 1bitmean-2
    "1": (24, 1000, 560, 15.116092915783662),
    "2": (100, 1000, 560, 57.878211712995984),
}
MECHANISMS = ["one_bit_mean", "piecewise", "discrete_laplace"]


def number(mechanism: str, bounds: str = "[0, 24]", epsilon: str = "1.0") -> Metric:
    table = f"""[metrics.hours]
question = "How many hours was the app open?"
type = "number"
range = {bounds}
missing = {bounds.split(",")[1].strip("] ")}
mechanism = {mechanism}
sensitivity = "product"
epsilon = {epsilon}
epoch = "week"
starts = 2026-11-02
expires = 2027-12-31"""
    return loads(registry(table)).metrics["hours"]


def collected(metric: Metric, values: list[float]) -> Tally:
    """Reports of the client's own code with the system's randomness, counted as they arrive."""
    mechanism, coin = metric.mechanism, Coin()
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    for value in values:
        encoded, _ = metric.encode(value)
        cohort = cohort_of_report(b"", metric, coin)
        permanent = mechanism.permanent(encoded, cohort, coin)
        response = mechanism.instantaneous(permanent, coin)
        sent = json.loads(
            report_to_json(Report("hours", metric.fingerprint, 1, cohort, response), mechanism)
        )
        assert "hours" in in_words(sent, metric)
        said = sent["response"]
        read = int(said, 16) if isinstance(said, str) else said
        counts[cohort, list(mechanism.support(read))] += 1
    return Tally(np.array([len(values)], np.int64), counts)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["1.0", "6.0"])
def test_the_mean_of_what_apps_record_is_found(name: str, epsilon: str) -> None:
    metric = number(f'"{name}"', epsilon=epsilon)
    values = [0.0, 0.25, 3.7, 8, 8, 24, 100]  # the last is clamped
    truth = (0.25 + 3.7 + 8 + 8 + 24 + 24) / 7
    found = estimate(metric, collected(metric, values * 500))
    assert found.n == 3500
    assert found.entries == ()
    assert found.mean is not None
    # Five standard errors: false alarm 6e-7.
    assert abs(found.mean.value - truth) < 5 * found.mean.standard_error
    low, high = found.mean.interval
    assert low < found.mean.value < high
    assert high - low == pytest.approx(2 * 1.96 * found.mean.standard_error, rel=0.01)
    assert found.mean.standard_error_reporters <= found.mean.standard_error


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_one_bit_gives_the_published_mean(epsilon: str) -> None:
    top, n, ones, mean = GOLDEN[epsilon]
    metric = number('"one_bit_mean"', f"[0, {top}]", epsilon)
    tally = Tally(np.array([n], np.int64), np.array([[ones]], np.int64))
    found = estimate(metric, tally).mean
    assert found is not None
    assert found.value == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_range_may_lie_anywhere(name: str) -> None:
    around, above = number(f'"{name}"', "[-2, 2]"), number(f'"{name}"', "[1000, 1004]")
    tally = collected(around, [-1.0, 2.0] * 50)
    low, high = estimate(around, tally), estimate(above, tally)
    assert low.mean is not None
    assert high.mean is not None
    assert high.mean.value == pytest.approx(low.mean.value + 1002)
    assert high.mean.standard_error == low.mean.standard_error
    assert high.worst_shift == low.worst_shift


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_reports_are_no_mean_and_one_report_has_an_error(name: str) -> None:
    metric = number(f'"{name}"')
    nothing = estimate(metric, collected(metric, []))
    assert (nothing.mean, nothing.worst_shift, nothing.n) == (None, None, 0)
    assert "mean" not in nothing.to_dict()
    one = estimate(metric, collected(metric, [12.0]))
    assert one.mean is not None
    least = math.sqrt(metric.mechanism.rare_variance - 0.25) * 24 * 0.8
    assert one.mean.standard_error > least
    json.dumps(one.to_dict(), allow_nan=False)


def test_reports_that_agree_completely_do_not_make_the_mean_certain() -> None:
    metric = number('"one_bit_mean"')
    tally = Tally(np.array([50], np.int64), np.array([[50]], np.int64))
    found = estimate(metric, tally).mean
    assert found is not None
    assert found.standard_error > 1


def test_the_worst_shift_is_that_of_fakes_at_the_end_of_the_scale() -> None:
    metric = number('"piecewise"')
    tally = collected(metric, [0.0] * 99)
    before, shift = estimate(metric, tally).mean, estimate(metric, tally).worst_shift
    counts = tally.counts.copy()
    counts[0, -1] += 1
    after = estimate(metric, Tally(np.array([100], np.int64), counts)).mean
    assert before is not None and after is not None and shift is not None
    # One report in a hundred; the honest ones are at 0 on average.
    assert after.value - 0.99 * before.value == pytest.approx(shift)


def test_the_mean_stands_in_the_document() -> None:
    metric = number('"discrete_laplace"')
    found = estimate(metric, collected(metric, [6.0] * 100))
    document = found.to_dict()
    assert set(document["mean"]) == {
        "value",
        "standard_error",
        "standard_error_reporters",
        "interval",
    }
    assert document["estimates"] == []


def test_a_tally_document_has_the_range_in_place_of_values() -> None:
    document = {
        "metric": {
            "type": "number",
            "range": [0, 24],
            "mechanism": {"name": "one_bit_mean", "epsilon": 1.0},
        },
        "reports": [1000],
        "counts": [[560]],
    }
    parsed = parse(json.dumps(document))
    found = estimate(parsed, parsed.tally).mean
    assert found is not None
    assert found.value == pytest.approx(GOLDEN["1"][3], rel=1e-9)


def test_bits_of_a_number_are_no_sign_of_dishonesty() -> None:
    metric = number('"one_bit_mean"')
    assert popcount_law(metric.mechanism) is None
    seen = judge(metric.mechanism, collected(metric, [0.0] * 20), (20, 0))
    assert not seen.alarm


def test_a_version_with_other_steps_has_another_fingerprint() -> None:
    coarse = number('{ name = "piecewise", steps = 16 }')
    assert coarse.fingerprint != number('"piecewise"').fingerprint
    assert coarse.mechanism.parameters()["steps"] == 16


def test_mechanisms_without_a_name_in_the_file_are_those_of_the_design() -> None:
    for name in MECHANISMS:
        mechanism = build(name, epsilon=Decimal(1))
        assert isinstance(mechanism, OneBitMean | NumberGrid)
        assert mechanism.domain == POSITIONS + 1

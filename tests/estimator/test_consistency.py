"""The simplex projection against golden values and brute force over supports."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.consistency import simplex_projection

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())["simplex"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_golden_projections(case):
    assert simplex_projection(case["in"]) == pytest.approx(case["projection"], rel=1e-9, abs=1e-12)


def nearest_by_brute_force(raw):
    """On each support the nearest point with sum 1 is a shift; keep the nearest feasible one."""
    best, distance = None, np.inf
    for size in range(1, len(raw) + 1):
        for support in map(list, itertools.combinations(range(len(raw)), size)):
            point = np.zeros(len(raw))
            point[support] = raw[support] + (1 - raw[support].sum()) / size
            if point.min() >= -1e-12 and np.sum((point - raw) ** 2) < distance:
                best, distance = point, np.sum((point - raw) ** 2)
    return best


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=1, max_size=7))
def test_the_projection_is_the_nearest_point_of_the_simplex(values):
    found = simplex_projection(values)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(nearest_by_brute_force(np.array(values)), abs=1e-9)


def test_case_c07_is_projected_and_not_rescaled():
    raw = [0.98198, 0.06315, 0.00451, -0.01504, -0.03459]
    assert simplex_projection(raw) == pytest.approx([0.95941, 0.04059, 0, 0, 0], abs=1e-5)


def test_the_projection_is_the_same_on_every_run_and_in_every_order():
    raw = np.random.default_rng(1).normal(size=1000)
    first = simplex_projection(raw)
    assert (simplex_projection(raw) == first).all()
    assert (simplex_projection(raw[::-1])[::-1] == first).all()

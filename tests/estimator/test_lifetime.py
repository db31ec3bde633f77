"""The ledger's distribution: exact integers in, known figures out."""

import pytest

from estimator.ledger.lifetime import lifetime


def test_figures_of_a_known_ledger():
    found = lifetime(iter([1_000_000, 2_000_000, 3_000_000, 24_000_000]), 24_000_000)
    assert (found.devices, found.highest, found.mean, found.median) == (4, 24.0, 7.5, 2.5)
    assert (found.lowest, found.p95, found.cap, found.exhausted) == (1.0, 24.0, 24.0, 1)


def test_a_device_is_exhausted_when_its_rest_pays_for_nothing():
    spent = [20_000_000, 23_500_000, 23_500_001, 24_000_000]
    assert lifetime(spent, 24_000_000, 500_000).exhausted == 2
    assert lifetime(spent, 24_000_000, 4_000_000).exhausted == 3


def test_p95_is_what_95_of_100_devices_stay_within():
    assert lifetime(range(1, 101), 1000).p95 == pytest.approx(95e-6)


def test_a_cap_reached_in_small_steps_is_reached_exactly():
    """Case C46: ten charges of 0.1 are 1.0; as floats they would add up to less."""
    assert sum([0.1] * 10) < 1
    assert lifetime([sum([100_000] * 10), 999_999], 1_000_000).exhausted == 1


def test_no_devices_is_none_and_not_zero():
    found = lifetime([], 24_000_000)
    assert (found.devices, found.highest, found.mean, found.p95) == (0, None, None, None)
    assert found.to_dict()["median"] is None

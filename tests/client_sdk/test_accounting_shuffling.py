"""Shuffling: the closed form, its assumptions, and the exact law that it bounds."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from client_sdk.accounting import account, shuffled
from client_sdk.errors import ParameterError

GOLDEN: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("golden_accounting.json").read_text()
)["shuffle"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_the_closed_form_is_the_references_and_none_where_it_says_nothing(
    case: dict[str, Any],
) -> None:
    found = shuffled(case["eps0"], case["n"], case["delta"])
    if case["eps_closed"] is None:
        assert found is None
    else:
        assert found is not None and found.delta == case["delta"]
        assert found.epsilon == pytest.approx(case["eps_closed"], rel=1e-9)


def clone_pair_delta(one: float, devices: int, epsilon: float) -> float:
    """Exact delta of the pair of laws that dominates shuffled reports (reference 12)."""
    others = np.arange(devices)
    clones = stats.binom.pmf(others, devices - 1, math.exp(-one))
    likely = np.flatnonzero(clones > 1e-16)
    kept = math.exp(one) / (1 + math.exp(one))
    p = np.zeros((devices + 2, devices + 2))
    q = np.zeros_like(p)
    for number in others[likely]:
        first = np.arange(number + 1)
        chance = clones[number] * stats.binom.pmf(first, number, 0.5)
        p[first + 1, number - first] += chance * kept
        p[first, number - first + 1] += chance * (1 - kept)
        q[first + 1, number - first] += chance * (1 - kept)
        q[first, number - first + 1] += chance * kept
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


@pytest.mark.parametrize(
    ("one", "devices", "delta"), [(0.5, 500, 1e-6), (1.0, 1000, 1e-6), (0.1, 400, 1e-8)]
)
def test_the_closed_form_is_safe_and_loose(one: float, devices: int, delta: float) -> None:
    found = shuffled(one, devices, delta)
    assert found is not None and found.epsilon < one
    assert clone_pair_delta(one, devices, found.epsilon) < delta
    assert clone_pair_delta(one, devices, found.epsilon / 8) > delta


@given(st.floats(0.01, 6), st.integers(1, 10**7), st.floats(1e-12, 0.1), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_more_devices_and_larger_deltas_hide_more_and_it_never_exceeds_the_report(
    one: float, devices: int, delta: float, more: int
) -> None:
    found = shuffled(one, devices, delta)
    if found is None:
        return
    assert 0 < found.epsilon <= one
    for better in (shuffled(one, devices + more, delta), shuffled(one, devices, delta * 2)):
        assert better is not None and better.epsilon <= found.epsilon


def test_assumptions_are_said_in_words_and_no_ledger_knows_of_it() -> None:
    found = shuffled(1, 10_000, 1e-6)
    assert found is not None
    said = " ".join(found.assumptions)
    for word in ("trusted", "collude", "one report", "compose", "cohort", "fakes", "another value"):
        assert word in said
    assert account([(1, 1)]).enforced == 1_000_000


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(ParameterError, match="devices must be at least 1, got devices=0"):
        shuffled(1, 0, 1e-6)
    with pytest.raises(ParameterError, match="delta must lie in"):
        shuffled(1, 10, 0)

"""Buckets through a window: exact channels at drawn parameters, and published figures."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.audit import audit
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import GeneralizedRandomizedResponse, SquareWave, build
from client_sdk.mechanisms.square_wave import best_half_width, best_part

GOLDEN = [
    entry
    for entry in json.loads((Path(__file__).parent / "golden_numbers.json").read_text())["numeric"]
    if entry["id"].startswith("sw-") and "b" in entry
]


@settings(max_examples=20, deadline=None)
@given(st.decimals("0.01", "20", places=3), st.integers(2, 10), st.data())
def test_square_wave_of_any_size_is_sound(
    epsilon: Decimal, domain: int, data: st.DataObject
) -> None:
    half_width = data.draw(st.integers(0, domain // 2))
    mechanism = SquareWave.from_epsilon(domain, epsilon, half_width)
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon <= epsilon
    assert mechanism.epsilon > epsilon * Decimal("0.99")


@pytest.mark.parametrize("entry", GOLDEN, ids=[entry["id"] for entry in GOLDEN])
def test_the_window_is_as_wide_and_as_high_as_published(entry: dict[str, Any]) -> None:
    assert float(best_part(Decimal(str(entry["eps"])))) == pytest.approx(entry["b"], rel=1e-9)
    buckets = 10**12
    mechanism = SquareWave.from_epsilon(buckets, entry["eps"])
    assert float(mechanism.p_true) * buckets == pytest.approx(entry["p"], rel=1e-9)
    assert float(mechanism.p_false) * buckets == pytest.approx(entry["q"], rel=1e-9)
    assert mechanism.half_width / buckets == pytest.approx(entry["b"], rel=1e-9)


def test_the_window_shrinks_with_epsilon_from_half_of_the_range() -> None:
    epsilons = ["1e-30", "0.001", "0.5", "1", "2", "8", "40"]
    parts = [float(best_part(Decimal(epsilon))) for epsilon in epsilons]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] == pytest.approx(0.5, abs=1e-9)
    assert best_half_width(8, 16) == 0


def test_one_cell_wide_it_is_generalized_randomized_response() -> None:
    narrow = SquareWave.from_epsilon(12, 1, half_width=0)
    direct = GeneralizedRandomizedResponse.from_epsilon(12, 1)
    assert [narrow.channel(v, 0) for v in range(12)] == [direct.channel(v, 0) for v in range(12)]
    assert narrow.rare_variance == direct.rare_variance


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3", "8", "20", "40"])
def test_a_name_alone_works_and_never_loses_more_than_asked(epsilon: str) -> None:
    mechanism = build("square_wave", domain=64, epsilon=Decimal(epsilon))
    assert Decimal("0.99") * Decimal(epsilon) < mechanism.epsilon <= Decimal(epsilon)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(OptionError) as caught:
        build("square_wave", domain=8, epsilon=1, half_width=5)
    assert caught.value.option == "half_width"
    with pytest.raises(ParameterError, match="at most 256"):
        build("square_wave", domain=257, epsilon=1)
    with pytest.raises(ParameterError, match="closed list"):
        build("square_wave", epsilon=1)

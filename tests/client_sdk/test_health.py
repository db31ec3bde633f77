"""Health tests of the generator: broken ones are caught, and nothing is drawn from them."""

import os
from collections.abc import Callable
from fractions import Fraction
from math import comb

import pytest

from client_sdk.errors import NoRandomness
from client_sdk.health import MOST_EQUAL, REPETITIONS, STARTUP_BYTES, WINDOW, CheckedSource


def tail(count: int) -> Fraction:
    """P(at least `count` of the 511 later bytes equal the first)."""
    p, n = Fraction(1, 256), WINDOW - 1
    return sum((comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count, n + 1)), Fraction(0))


def test_the_cutoffs_have_the_stated_false_alarm() -> None:
    alpha = Fraction(1, 2**64)
    assert Fraction(1, 256) ** (REPETITIONS - 1) == alpha
    assert tail(MOST_EQUAL) <= alpha < tail(MOST_EQUAL - 1)


def test_good_randomness_passes_unchanged() -> None:
    kept = []

    def source(count: int) -> bytes:
        kept.append(os.urandom(count))
        return kept[-1]

    checked = CheckedSource(source)
    drawn = [checked(size) for size in (1, 8, 512, 700, 3)]
    assert drawn == kept[1:]
    assert len(kept[0]) == STARTUP_BYTES


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(lambda count: bytes(count), id="all zero"),
        pytest.param(lambda count: b"\xff" * count, id="all ones"),
        pytest.param(lambda count: (b"ab" * count)[:count], id="two values in turn"),
        pytest.param(lambda count: bytes(b & 7 for b in os.urandom(count)), id="three bits"),
        pytest.param(lambda count: os.urandom(count - 1), id="too few"),
    ],
)
def test_a_broken_generator_is_caught_at_the_first_draw(source: Callable[[int], bytes]) -> None:
    with pytest.raises(NoRandomness):
        CheckedSource(source)(8)


def test_a_generator_that_breaks_later_is_caught_within_nine_bytes() -> None:
    good = [True]
    checked = CheckedSource(lambda count: os.urandom(count) if good[0] else b"\x55" * count)
    checked(64)
    good[0] = False
    with pytest.raises(NoRandomness, match="stuck"):
        for _ in range(REPETITIONS):
            checked(1)


@pytest.mark.parametrize("error", [OSError("no device"), NotImplementedError("no source")])
def test_a_failing_source_is_told_plainly(error: Exception) -> None:
    def source(count: int) -> bytes:
        raise error

    with pytest.raises(NoRandomness, match="gives no random bytes"):
        CheckedSource(source)(8)


def test_a_device_without_randomness_reports_and_charges_nothing(
    client_of, clock, server, monkeypatch, caplog
) -> None:
    def stuck(count: int) -> bytes:
        return bytes(count)

    client = client_of()
    client.record("theme", "dark")
    assert client.flush(5)
    monkeypatch.setattr("client_sdk.randomness.random_bytes._source", stuck)
    client.close(5)
    again = client_of()
    clock.now += 86_400
    again.record("theme", "light")
    assert not again.flush(5)
    assert "no randomness, no report" in again.status().summary
    assert len(server.reports) == 1
    assert again.status().spent_epsilon in (None, 1.0)
    assert sum("no randomness" in record.message for record in caplog.records) == 1

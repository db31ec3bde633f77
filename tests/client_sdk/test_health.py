"""Health tests of the generator: broken ones are caught, and nothing is drawn from them."""

import io
import os
import random
from collections.abc import Callable
from fractions import Fraction
from math import comb

import pytest

from client_sdk.errors import NoRandomness
from client_sdk.health import (
    MOST_EQUAL,
    REPETITIONS,
    STARTUP_BYTES,
    WINDOW,
    CheckedSource,
    may_repeat,
)


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


@pytest.mark.parametrize("size", [1, 8, 600])
def test_a_generator_that_was_found_biased_is_not_believed_at_the_next_draw(size: int) -> None:
    checked = CheckedSource(lambda count: bytes(b & 7 for b in os.urandom(count)))
    for _ in range(3):
        with pytest.raises(NoRandomness):
            checked(size)


def test_a_window_that_failed_by_short_draws_stays_failed() -> None:
    stream = iter([os.urandom(STARTUP_BYTES), *(b"\x55%c" % each for each in range(30))])
    checked = CheckedSource(lambda count: next(stream))
    raised = 0
    for _ in range(30):
        try:
            checked(2)
        except NoRandomness:
            raised += 1
    assert raised == 30 - MOST_EQUAL
    stream = iter([b"\x01\x02", b"\x03\x04"])
    for _ in range(2):
        with pytest.raises(NoRandomness):
            checked(2)


def test_a_generator_that_breaks_later_is_caught_within_nine_bytes() -> None:
    good = [True]
    checked = CheckedSource(lambda count: os.urandom(count) if good[0] else b"\x55" * count)
    checked(64)
    good[0] = False
    with pytest.raises(NoRandomness, match="stuck"):
        for _ in range(REPETITIONS):
            checked(1)


def alarm(stream: bytes) -> int | None:
    """The place of the byte at which SP 800-90B raises an alarm, worded byte by byte."""
    run = seen = equal = 0
    last = first = -1
    for place, byte in enumerate(stream):
        run = run + 1 if byte == last else 1
        last = byte
        if seen == 0:
            first, equal = byte, 0
        elif byte == first:
            equal += 1
        seen = (seen + 1) % WINDOW
        if run >= REPETITIONS or equal >= MOST_EQUAL:
            return place
    return None


def biased(chance: random.Random, length: int) -> bytes:
    """A stream with runs of 1 to 9 equal bytes, from few or many values."""
    values, stay = chance.choice([2, 16, 40, 256]), chance.choice([0.0, 0.3, 0.6])
    stream = bytearray(chance.randrange(values) for _ in range(length))
    for place in range(1, length):
        if chance.random() < stay:
            stream[place] = stream[place - 1]
    return bytes(stream)


@pytest.mark.parametrize("most", [1, 3, 9, 40, 200, 1500])
def test_every_byte_is_tested_however_the_stream_is_cut(most: int) -> None:
    chance = random.Random(most)
    alarms = 0
    for _ in range(60):
        # What a process starts with is good, or the first draw would be the last.
        stream = chance.randbytes(STARTUP_BYTES) + biased(chance, 2500)
        expected = alarm(stream)
        checked = CheckedSource(io.BytesIO(stream).read)
        at = STARTUP_BYTES
        while at < len(stream):
            count = min(chance.randint(1, most), len(stream) - at)
            if expected is not None and expected < at + count:
                with pytest.raises(NoRandomness):
                    checked(count)
                alarms += 1
                break
            assert checked(count) == stream[at : at + count]
            at += count
    assert 10 < alarms < 60  # both happened


@pytest.mark.parametrize("length", range(REPETITIONS, 40))
def test_no_run_hides_between_the_bytes_that_are_compared_first(length: int) -> None:
    plain = bytes(range(100, 100 + length))
    assert not may_repeat(plain)
    for start in range(length - REPETITIONS + 1):
        for byte in (0, 7, 255):
            end = start + REPETITIONS
            assert may_repeat(plain[:start] + bytes([byte]) * REPETITIONS + plain[end:])


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

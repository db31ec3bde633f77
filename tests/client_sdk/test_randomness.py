"""Chance, enumerated: every possible random word of a small coin, and the source of real ones."""

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk.randomness import ONE, Coin, PrfStream, keyed_tag, random_bytes

Draw = Callable[[Coin], object]


class Exhausted(Exception):
    """The scripted bytes are used up."""


def scripted(script: bytes) -> Callable[[int], bytes]:
    """A source that gives exactly these bytes."""
    left = iter(script)

    def take(count: int) -> bytes:
        try:
            return bytes(next(left) for _ in range(count))
        except RuntimeError as error:
            raise Exhausted from error

    return take


def words(width: int, digit_bits: int, rest_bits: int) -> list[bytes]:
    """Every stream that `width` lanes of such small words can draw, all equally likely.

    A digit for each lane, one spare rest for each threshold, and one for each further tie.
    """
    digits = [range(1 << digit_bits)] * width
    rests = [[rest << 8 - rest_bits for rest in range(1 << rest_bits)]] * (2 * width)
    return list(map(bytes, product(*digits, *rests)))


@pytest.mark.parametrize("bit", [0, 1])
def test_flip_bits_of_one_lane_has_exactly_the_stated_probabilities(bit: int) -> None:
    every = words(1, 2, 2)
    for if_one, if_zero in product(range(17), repeat=2):
        ones = sum(Coin(scripted(w), 4, 2).flip_bits(bit, 1, if_one, if_zero) for w in every)
        assert 16 * ones == (if_one if bit else if_zero) * len(every)


@pytest.mark.parametrize("threshold", [0, 1, 3, 4, 5, 509, 512, 514, 1019, 1020, 1023, 1024])
def test_flip_bits_is_exact_with_digits_of_a_whole_byte(threshold: int) -> None:
    # 10-bit words: 8 bits of digit, 2 of rest. The other threshold's spare is never looked at.
    for bit in (0, 1):
        ones = sum(
            Coin(scripted(bytes([digit, rest << 6, rest << 6])), 10).flip_bits(
                bit, 1, threshold if bit else 0, 0 if bit else threshold
            )
            for digit, rest in product(range(256), range(4))
        )
        assert ones == threshold


@pytest.mark.parametrize(("width", "digit_bits"), [(2, 2), (3, 1)])
def test_flip_bits_of_several_lanes_are_independent(width: int, digit_bits: int) -> None:
    # Also where all lanes tie with both thresholds: the joint law must factor.
    every, sure = words(width, digit_bits, 1), 1 << digit_bits + 1
    for if_one, if_zero in product(range(sure + 1), repeat=2):
        for bits in range(1 << width):
            counts = Counter(
                Coin(scripted(w), digit_bits + 1, digit_bits).flip_bits(
                    bits, width, if_one, if_zero
                )
                for w in every
            )
            chance = [if_one if bits >> lane & 1 else if_zero for lane in range(width)]
            for outcome in range(1 << width):
                expected = len(every)
                for lane in range(width):
                    expected *= chance[lane] if outcome >> lane & 1 else sure - chance[lane]
                assert counts[outcome] * sure**width == expected


def test_flip_bits_gives_each_lane_a_byte_of_its_own() -> None:
    # A threshold of one half is decided by the first bit of each lane's byte, and a lane is 1
    # where that bit is 0.
    first = os.urandom(4096)
    flipped = Coin(lambda n: (first + os.urandom(n))[:n]).flip_bits(0, 4096, ONE // 2, ONE // 2)
    assert f"{flipped:04096b}" == "".join("01"[byte < 128] for byte in first)


@pytest.mark.parametrize("side", [0, 1])
def test_flip_bits_compares_whole_words_with_strictly_below(side: int) -> None:
    threshold = 0x0123456789ABCDEF
    for word in (threshold - 1, threshold, threshold + 1):
        digit, rest = word.to_bytes(8, "big")[:1], word.to_bytes(8, "big")[1:]
        source = scripted(digit + 2 * rest)
        flipped = Coin(source).flip_bits(side, 1, threshold if side else 0, threshold)
        assert flipped == (word < threshold)


@pytest.mark.parametrize("width", [1, 128, 1024])
def test_flip_bits_draws_the_same_whatever_the_bits_are(width: int) -> None:
    # Thresholds with ties, and streams for which the spare words do not suffice.
    for number in range(200):
        asked = set()
        for bits in (0, 1, (1 << width) - 1):
            counts: list[int] = []
            stream = PrfStream(b"k" * 32, b"%d" % number)

            def source(count: int, stream: PrfStream = stream, counts: list[int] = counts) -> bytes:
                counts.append(count)
                return stream(count)

            Coin(source).flip_bits(bits, width, 3 * ONE // 7, ONE // 7)
            asked.add(tuple(counts))
        assert len(asked) == 1


@pytest.mark.parametrize(("if_one", "if_zero", "result"), [(ONE, 0, 0b0101), (0, ONE, 0b1010)])
def test_sure_and_impossible_events_are_just_that(if_one: int, if_zero: int, result: int) -> None:
    for _ in range(50):
        assert Coin().flip_bits(0b0101, 4, if_one, if_zero) == result


def test_a_word_equal_to_the_threshold_is_a_zero() -> None:
    # P must be T / 2**64, not (T + 1) / 2**64.
    threshold = 0x0123456789ABCDEF
    equal = scripted(threshold.to_bytes(8, "big"))
    assert not Coin(equal).bernoulli(threshold)
    below = scripted((threshold - 1).to_bytes(8, "big"))
    assert Coin(below).bernoulli(threshold)


@pytest.mark.parametrize("threshold", range(17))
def test_bernoulli_is_exact(threshold: int) -> None:
    # word_bits=4 keeps the upper half of a byte: 16 words, each from 16 of the 256 bytes.
    heads = sum(Coin(scripted(bytes([b])), 4).bernoulli(threshold) for b in range(256))
    assert heads == 16 * threshold


@pytest.mark.parametrize("bound", range(1, 17))
def test_uniform_gives_every_value_equally_often_and_rejects_the_rest(bound: int) -> None:
    counts: Counter[int] = Counter()
    rejected = 0
    for byte in range(256):
        try:
            counts[Coin(scripted(bytes([byte])), 4).uniform(bound)] += 1
        except Exhausted:
            rejected += 1
    assert counts == dict.fromkeys(range(bound), 16 * (16 // bound))
    assert rejected == 16 * (16 % bound)


@pytest.mark.parametrize("cuts", [[16], [3, 16], [0, 5, 5, 16], [1, 2, 3, 16]])
def test_pick_gives_every_outcome_its_own_width(cuts: list[int]) -> None:
    # word_bits=4 keeps the upper half of a byte: 16 words, each from 16 of the 256 bytes.
    counts = Counter(Coin(scripted(bytes([b])), 4).pick(cuts) for b in range(256))
    widths = [16 * (cut - before) for before, cut in zip([0, *cuts], cuts, strict=False)]
    assert counts == {index: width for index, width in enumerate(widths) if width}


@pytest.mark.parametrize(("size", "of"), [(0, 3), (1, 4), (2, 4), (2, 3), (3, 3)])
def test_every_subset_is_drawn_equally_often(size: int, of: int) -> None:
    # Words of 2 bits: all streams of one byte per member, rejected ones left out.
    counts: Counter[int] = Counter()
    for stream in product(range(0, 256, 64), repeat=size):
        with suppress(Exhausted):
            counts[Coin(scripted(bytes(stream)), 2).subset(size, of)] += 1
    assert len(counts) == comb(of, size)
    assert len(set(counts.values())) == 1
    assert {outcome.bit_count() for outcome in counts} == {size}


def test_a_rejected_word_is_followed_by_a_fresh_one() -> None:
    # bound 10 of 16: the word 15 is rejected, the word 3 is taken.
    assert Coin(scripted(bytes([0xF0, 0x30])), 4).uniform(10) == 3


@pytest.mark.parametrize("bound", [0, -1, ONE + 1])
def test_uniform_refuses_bounds_that_would_never_end(bound: int) -> None:
    with pytest.raises(ValueError, match=rf"bound must lie in 1\.\.2\*\*64, got bound={bound}"):
        Coin().uniform(bound)


def test_the_operating_system_is_the_default_source() -> None:
    assert Coin()._source is random_bytes
    assert random_bytes._source is os.urandom


def test_seeding_the_random_module_does_not_repeat_noise() -> None:
    # Case C28. Two equal draws of 4096 fair bits happen once in 2**4096 runs.
    draws = set()
    for _ in range(2):
        random.seed(0)
        draws.add(Coin().flip_bits(0, 4096, ONE // 2, ONE // 2))
    assert len(draws) == 2


def test_an_error_of_the_source_ends_the_draw() -> None:
    def broken(count: int) -> bytes:
        raise OSError("no entropy")

    for draw in (
        lambda coin: coin.bernoulli(1),
        lambda coin: coin.uniform(2),
        lambda coin: coin.flip_bits(0, 8, 1, 1),
    ):
        with pytest.raises(OSError, match="no entropy"):
            draw(Coin(broken))


@pytest.mark.parametrize("numerator", [1, 3, 8, 13])
def test_real_draws_have_the_stated_frequency(numerator: int) -> None:
    # 400,000 lanes; |C - nP| <= 5 sqrt(nP(1-P)) fails by chance with probability 5.7e-7
    # (MECHANISMS.md section 18). A threshold wrong by 1 % of a sixteenth's share is 5+ sigma off
    # for the middle cases: n = 400,000 resolves 0.0040 at P = 1/2.
    threshold, lanes = numerator * ONE // 16, 4000
    ones = sum(Coin().flip_bits(0, lanes, 0, threshold).bit_count() for _ in range(100))
    n, p = 100 * lanes, numerator / 16
    assert abs(ones - n * p) <= 5 * (n * p * (1 - p)) ** 0.5


def test_two_forked_children_draw_different_noise() -> None:
    coin = Coin()
    coin.word()
    draws = [in_a_child(lambda: coin.word().to_bytes(8, "big")) for _ in range(2)]
    assert draws[0] != draws[1]  # equal by chance once in 2**64 runs


def in_a_child(act: Callable[[], bytes]) -> bytes:
    """What `act` returns in a forked copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, act())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return data


@given(st.lists(st.integers(0, 200), max_size=8))
def test_a_prf_stream_does_not_depend_on_how_it_is_cut(chunks: list[int]) -> None:
    whole = PrfStream(b"k" * 32, b"context")(sum(chunks))
    stream = PrfStream(b"k" * 32, b"context")
    assert b"".join(stream(count) for count in chunks) == whole


parts = st.lists(st.binary(max_size=6), max_size=4).map(tuple)


@given(parts, parts)
def test_prf_streams_of_different_contexts_differ(
    one: tuple[bytes, ...], other: tuple[bytes, ...]
) -> None:
    # Equal 16 bytes by chance: once in 2**128.
    same = PrfStream(b"k" * 32, *one)(16) == PrfStream(b"k" * 32, *other)(16)
    assert same == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((b"ab", b"c"), (b"a", b"bc")),
        ((b"a",), (b"a", b"")),
        # A context that ends like another's first counter block.
        ((b"a",), (b"a\x00\x00\x00\x00",)),
        ((b"a", b"\x00\x00\x00\x00"), (b"a",)),
    ],
)
def test_no_context_is_the_beginning_of_another(
    one: tuple[bytes, ...], other: tuple[bytes, ...]
) -> None:
    long_one, long_other = PrfStream(b"k" * 32, *one)(320), PrfStream(b"k" * 32, *other)(320)
    blocks = {long_one[i : i + 32] for i in range(0, 320, 32)}
    assert blocks.isdisjoint(long_other[i : i + 32] for i in range(0, 320, 32))


def test_keys_separate_streams_and_tags() -> None:
    assert PrfStream(b"1" * 32, b"x")(32) != PrfStream(b"2" * 32, b"x")(32)
    assert keyed_tag(b"1" * 32, b"x") != keyed_tag(b"2" * 32, b"x")
    assert len(keyed_tag(b"1" * 32, b"x")) == 16

"""The one source of chance: integer thresholds against the operating system's CSPRNG.

Every random decision of every mechanism goes through a `Coin`. A probability is an integer
threshold T, meaning exactly T / 2**64; there is no float between configuration and draw, and
the ledger and the estimators use the same integers (reference: Mironov, "On Significance of
the Least Significant Bits for Differential Privacy", CCS 2012, for why floats leak).

There is no pool in user space, so a forked or resumed process cannot repeat draws, and no
fallback: if the operating system cannot give randomness the error ends the draw, and nothing
is charged or sent. What a decision needs is asked of the source in one go, for a question to the
operating system costs more than the bytes.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from client_sdk.hashing import hmac_sha256
from client_sdk.health import CheckedSource

WORD_BITS = 64
DIGIT_BITS = 8
ONE = 1 << WORD_BITS
"""The threshold of a sure event."""

Source = Callable[[int], bytes]
"""Gives the next n bytes of a random stream."""

_from_bytes = int.from_bytes

random_bytes = CheckedSource(os.urandom)
"""The operating system's CSPRNG, tested on the way; the only source outside tests."""


class Coin:
    """Random decisions from a byte source, by default the operating system's.

    Args:
        source: Gives n random bytes. Anything but `random_bytes` or a `PrfStream` of a secret
            key is for tests only: whoever can predict the source removes the noise.
        word_bits: Precision of thresholds; other values than 64 exist so that a test can
            enumerate every possible word.
        digit_bits: Size of a word's first digit in `flip_bits`, below `word_bits`; with other
            values than 8 the source must give bytes below 2**digit_bits for the digits.
    """

    def __init__(
        self,
        source: Source = random_bytes,
        word_bits: int = WORD_BITS,
        digit_bits: int = DIGIT_BITS,
    ) -> None:
        self._source = source
        self._word_bits = word_bits
        self._word_bytes = (word_bits + 7) // 8
        self._excess = 8 * self._word_bytes - word_bits
        self._rest_bits = word_bits - digit_bits
        self._rest_bytes = (self._rest_bits + 7) // 8
        self._rest_excess = 8 * self._rest_bytes - self._rest_bits

    def word(self) -> int:
        """Return a uniform integer in [0, 2**64)."""
        return _from_bytes(self._source(self._word_bytes), "big") >> self._excess

    def bernoulli(self, threshold: int) -> bool:
        """Return True with probability exactly threshold / 2**64, threshold in [0, 2**64]."""
        return self.word() < threshold

    def uniform(self, bound: int) -> int:
        """Return a uniform integer in [0, bound), by rejection: a modulus would favour some.

        Raises:
            ValueError: bound is not in [1, 2**64].
        """
        span = 1 << self._word_bits
        if not 1 <= bound <= span:
            raise ValueError(f"bound must lie in 1..2**{self._word_bits}, got bound={bound}")
        word = self.word()
        # Words below the last multiple of bound are taken; nearly all are even a bound below 2**64.
        while word > span - bound and word >= span - span % bound:
            word = self.word()
        return word % bound

    def pick(self, cuts: Sequence[int]) -> int:
        """Return i with probability exactly (cuts[i] - cuts[i - 1]) / 2**64.

        Args:
            cuts: Ascending, the last one 2**64; before the first stands 0.
        """
        return bisect_right(cuts, self.word())

    def subset(self, size: int, of: int) -> int:
        """Return a uniform subset of {0, ..., of - 1}, bit i for member i.

        Floyd's algorithm (Bentley, "Programming Pearls: a sample of brilliance", CACM 1987): one
        uniform integer for each member, none thrown away.

        Args:
            size: Members, in [0, of].
            of: At least 1.
        """
        chosen = 0
        for last in range(of - size, of):
            member = 1 << self.uniform(last + 1)
            chosen |= 1 << last if chosen & member else member
        return chosen

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        """Send `width` bits through independent binary channels at once.

        Each output bit is 1 with probability if_one / 2**64 where `bits` has a 1, and
        if_zero / 2**64 where it has a 0, independently of all others.

        Every lane compares a word of its own with both thresholds, and `bits` chooses between the
        two outcomes in the end. A lane's first byte decides unless it equals a threshold's; only
        then the rest of the word is looked at. So the work depends on thresholds and random
        bytes, never on `bits`.

        Args:
            bits: Input, an integer below 2**width; bit i is lane i.
            width: Number of lanes, at least 1.
            if_one: Threshold of lanes that hold a 1, in [0, 2**64].
            if_zero: Threshold of lanes that hold a 0, in [0, 2**64].
        """
        rest_bits = self._rest_bits
        spare = self._rest_bytes * (1 + (width >> 7))  # twice the ties to expect, and one
        drawn = self._source(width + 2 * spare)
        digits = drawn[:width]
        table, digit, rest = _split(if_one, rest_bits)
        ones = int(digits.translate(table), 2)
        if rest and digit in digits:
            ones |= self._ties(digits, digit, rest, drawn[width : width + spare])
        table, digit, rest = _split(if_zero, rest_bits)
        zeros = int(digits.translate(table), 2)
        if rest and digit in digits:
            zeros |= self._ties(digits, digit, rest, drawn[width + spare :])
        return zeros ^ (bits & (ones ^ zeros))

    def _ties(self, digits: bytes, digit: int, rest: int, words: bytes) -> int:
        """Return the lanes among those with this digit whose words go on below `rest`.

        Args:
            digits: Of all lanes, the highest lane's first.
            digit: Of the threshold.
            rest: Of the threshold.
            words: Spare bytes of this call's draw for the rests of the lanes' words.
        """
        size = self._rest_bytes
        below, start = 0, 0
        at = digits.find(digit)
        while at >= 0:
            word = words[start : start + size] or self._source(size)
            if _from_bytes(word, "big") >> self._rest_excess < rest:
                below |= 1 << len(digits) - 1 - at
            at = digits.find(digit, at + 1)
            start += size
        return below


@lru_cache(maxsize=64)
def _split(threshold: int, rest_bits: int) -> tuple[bytes, int, int]:
    """Return a threshold's first digit and its rest, after a table that compares bytes with it.

    The table holds the digit "1" for each byte below the threshold's first, "0" for all others.
    """
    digit, rest = divmod(threshold, 1 << rest_bits)
    return b"1" * digit + b"0" * (256 - digit), digit, rest


class PrfStream:
    """A deterministic byte stream: HMAC-SHA-256 of a secret key in counter mode.

    A `Coin` over it makes choices that a device can repeat for ever without storing them and
    that nobody without the key can predict. Streams of different contexts are independent.

    Args:
        key: Secret, 32 bytes.
        context: What the stream is for; parts are length-prefixed, so that no two lists of
            parts read the same.
    """

    def __init__(self, key: bytes, *context: bytes) -> None:
        self._key = key
        self._context = b"".join(len(part).to_bytes(4, "big") + part for part in context)
        self._counter = 0
        self._rest = b""

    def __call__(self, count: int) -> bytes:
        while len(self._rest) < count:
            message = self._context + self._counter.to_bytes(4, "big")
            self._rest += hmac_sha256(self._key, message)
            self._counter += 1
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken


def keyed_tag(key: bytes, *context: bytes) -> bytes:
    """Return a 128-bit tag that names `context` to holders of `key` only."""
    return PrfStream(key, b"tag", *context)(16)

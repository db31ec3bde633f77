"""The one source of chance: integer thresholds against the operating system's CSPRNG.

Every random decision of every mechanism goes through a `Coin`. A probability is an integer
threshold T, meaning exactly T / 2**64; there is no float between configuration and draw, and
the ledger and the estimators use the same integers (reference: Mironov, "On Significance of
the Least Significant Bits for Differential Privacy", CCS 2012, for why floats leak).

There is no pool in user space, so a forked or resumed process cannot repeat draws, and no
fallback: if the operating system cannot give randomness the error ends the draw, and nothing
is charged or sent.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence

from client_sdk.hashing import hmac_sha256
from client_sdk.health import CheckedSource

WORD_BITS = 64
ONE = 1 << WORD_BITS
"""The threshold of a sure event."""

Source = Callable[[int], bytes]
"""Gives the next n bytes of a random stream."""

random_bytes = CheckedSource(os.urandom)
"""The operating system's CSPRNG, tested on the way; the only source outside tests."""


class Coin:
    """Random decisions from a byte source, by default the operating system's.

    Args:
        source: Gives n random bytes. Anything but `random_bytes` or a `PrfStream` of a secret
            key is for tests only: whoever can predict the source removes the noise.
        word_bits: Precision of thresholds; other values than 64 exist so that a test can
            enumerate every possible word.
    """

    def __init__(self, source: Source = random_bytes, word_bits: int = WORD_BITS) -> None:
        self._source = source
        self._word_bits = word_bits
        self._word_bytes = (word_bits + 7) // 8
        self._excess = 8 * self._word_bytes - word_bits

    def word(self) -> int:
        """Return a uniform integer in [0, 2**64)."""
        return int.from_bytes(self._source(self._word_bytes), "big") >> self._excess

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
        limit = span - span % bound
        word = self.word()
        while word >= limit:
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
        if_zero / 2**64 where it has a 0, independently of all others. Every lane compares a
        word of its own with its threshold, most significant bit first; lanes leave when they
        differ. How many rounds that takes depends on the random words only, not on `bits`
        (unless just one of the thresholds is 2**64: such lanes need no draw).

        Args:
            bits: Input, an integer below 2**width; bit i is lane i.
            width: Number of lanes, at least 1.
            if_one: Threshold of lanes that hold a 1, in [0, 2**64].
            if_zero: Threshold of lanes that hold a 0, in [0, 2**64].
        """
        every = (1 << width) - 1
        sure = 1 << self._word_bits
        result = (bits if if_one == sure else 0) | (every & ~bits if if_zero == sure else 0)
        undecided = every & ~result
        lane_bytes = (width + 7) // 8
        rounds_ahead = width.bit_length() + 3
        chunk, left = 0, 0
        for position in range(self._word_bits - 1, -1, -1):
            if not undecided:
                break
            if not left:
                left = min(rounds_ahead, position + 1)
                chunk = int.from_bytes(self._source(lane_bytes * left), "little")
                rounds_ahead = 3
            word_bit = chunk & every
            chunk >>= 8 * lane_bytes
            left -= 1
            threshold_bit = (bits if if_one >> position & 1 else 0) | (
                every & ~bits if if_zero >> position & 1 else 0
            )
            result |= undecided & threshold_bit & ~word_bit
            undecided &= ~(threshold_bit ^ word_bit)
        return result


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

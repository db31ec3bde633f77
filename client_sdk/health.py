"""Health tests of the operating system's generator: they catch a broken one, and prove nothing.

Repetition count and adaptive proportion of NIST SP 800-90B (2018), 4.4.1 and 4.4.2, on bytes that
are assumed to hold 8 bits of entropy, with a false alarm of 2**-64 per byte and per window; run
over the first 1,024 bytes of a process and over everything drawn since. Nothing that was drawn is
kept but the last byte, a window's first, and how often they came.
"""

import re
from _thread import _local as local  # threading itself costs every app memory
from collections.abc import Callable

from client_sdk.errors import NoRandomness

REPETITIONS = 9
"""So many equal bytes in a row are an alarm: 1 + 64 / 8."""
WINDOW = 512
MOST_EQUAL = 26
"""So many of the 511 bytes after a window's first that equal it are an alarm: the binomial tail
with 1/256 lies below 2**-64."""
STARTUP_BYTES = 1024
_REPEATED = re.compile(rb"(.)\1{%d}" % (REPETITIONS - 1), re.DOTALL)
_STRIDE = REPETITIONS // 3
_STUCK = "the system's random generator repeats itself: it is stuck"
_BIASED = "the system's random generator favours one value: it is broken"
_from_bytes = int.from_bytes


class CheckedSource:
    """A byte source whose every byte is tested on the way.

    Each thread tests what it draws by itself, so there is no lock that a fork could copy while
    it is held.

    Args:
        source: Gives n random bytes.
    """

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source
        self._threads = local()

    def __call__(self, count: int) -> bytes:
        """Return `count` random bytes.

        Raises:
            NoRandomness: The source fails or looks broken. There is no fallback.
        """
        try:
            see: Callable[[bytes], None] = self._threads.see
        except AttributeError:
            see = self._threads.see = _Tests().see
            self(STARTUP_BYTES)
        try:
            drawn = self._source(count)
        except (OSError, NotImplementedError) as error:
            raise NoRandomness(f"the system gives no random bytes: {error}") from error
        if len(drawn) != count:
            raise NoRandomness(f"the system gave {len(drawn)} random bytes instead of {count}")
        see(drawn)
        return drawn


class _Tests:
    """Both tests over one stream of bytes."""

    def __init__(self) -> None:
        self._last = -1
        self._run = 0
        self._first = 0
        self._seen = WINDOW
        self._equal = 0

    def see(self, drawn: bytes) -> None:
        """Test the next bytes of the stream.

        Raises:
            NoRandomness: A test fails.
        """
        count = len(drawn)
        if not count:
            return
        if drawn[0] == self._last:
            self._run += count - len(drawn.lstrip(drawn[:1]))
            if self._run >= REPETITIONS:
                raise NoRandomness(_STUCK)
        if count >= REPETITIONS and may_repeat(drawn) and _REPEATED.search(drawn):
            raise NoRandomness(_STUCK)
        if count > 1 and drawn[-1] == drawn[-2]:
            run = count - len(drawn.rstrip(drawn[-1:]))
        else:
            run = 1
        if run < count or drawn[0] != self._last:  # else counted at the start
            self._last = drawn[-1]
            self._run = run
        seen = self._seen + count
        if seen < WINDOW:  # the usual draw is short
            self._seen = seen
            if self._first in drawn:
                self._equal += drawn.count(self._first)
            if self._equal >= MOST_EQUAL:  # also after an alarm: a window that failed stays so
                raise NoRandomness(_BIASED)
        else:
            self._weigh_windows(drawn)

    def _weigh_windows(self, drawn: bytes) -> None:
        first, seen, equal = self._first, self._seen, self._equal
        at, count = 0, len(drawn)
        while at < count:
            if seen == WINDOW:
                first, seen, equal = drawn[at], 1, 0
                at += 1
            end = at + WINDOW - seen
            equal += drawn.count(first, at, end)
            if equal >= MOST_EQUAL:
                self._first, self._seen, self._equal = first, min(seen, WINDOW - 1), equal
                raise NoRandomness(_BIASED)
            at, seen = end, WINDOW
        self._first, self._seen, self._equal = first, seen - (at - count), equal


def may_repeat(drawn: bytes) -> bool:
    """Say whether `drawn` may hold REPETITIONS equal bytes in a row; False is certain.

    Of that many bytes in a row three lie on the stride, where two neighbours in a row would then
    not differ. Random bytes do so once in 65,536 places.
    """
    sample = drawn[::_STRIDE]
    number = _from_bytes(sample, "little")
    differ = number ^ number >> 8
    return 0 in (differ | differ >> 8).to_bytes(len(sample), "little")

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
        tests: _Tests | None = getattr(self._threads, "tests", None)
        if tests is None:
            tests = self._threads.tests = _Tests()
            tests.see(self._draw(STARTUP_BYTES))
        drawn = self._draw(count)
        tests.see(drawn)
        return drawn

    def _draw(self, count: int) -> bytes:
        try:
            drawn = self._source(count)
        except (OSError, NotImplementedError) as error:
            raise NoRandomness(f"the system gives no random bytes: {error}") from error
        if len(drawn) != count:
            raise NoRandomness(f"the system gave {len(drawn)} random bytes instead of {count}")
        return drawn


class _Tests:
    """Both tests over one stream of bytes."""

    def __init__(self) -> None:
        self._run = b""
        self._first: int | None = None
        self._seen = 0
        self._equal = 0

    def see(self, drawn: bytes) -> None:
        """Test the next bytes of the stream.

        Raises:
            NoRandomness: A test fails.
        """
        self._count_repetitions(drawn)
        self._weigh_windows(drawn)

    def _count_repetitions(self, drawn: bytes) -> None:
        together = self._run + drawn
        if _REPEATED.search(together):
            raise NoRandomness("the system's random generator repeats itself: it is stuck")
        last = together[-1:]
        self._run = together[len(together.rstrip(last)) :]

    def _weigh_windows(self, drawn: bytes) -> None:
        at = 0
        while at < len(drawn):
            if self._first is None:
                self._first, self._seen, self._equal = drawn[at], 1, 0
                at += 1
                continue
            part = drawn[at : at + WINDOW - self._seen]
            self._equal += part.count(self._first)
            self._seen += len(part)
            at += len(part)
            if self._equal >= MOST_EQUAL:
                raise NoRandomness("the system's random generator favours one value: it is broken")
            if self._seen == WINDOW:
                self._first = None

"""Ending by SIGTERM or Ctrl-C: what was begun is finished, then the process goes."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_POLL_SECONDS = 0.1


class Ending:
    """Whether the process was told to end; looked at and waited for like an Event.

    Polled: an Event that is set from a signal handler can deadlock with the wait it interrupts, and
    an exception that is raised from one is lost wherever a library catches it.

    Attributes:
        number: The signal's, None before one has come.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def is_set(self) -> bool:
        """Say whether a signal has come."""
        return self.number is not None

    def wait(self, seconds: float = float("inf")) -> bool:
        """Wait for a signal, at most so long; say whether one has come."""
        until = time.monotonic() + seconds
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            time.sleep(min(_POLL_SECONDS, left))
        return self.is_set()


@contextmanager
def ending() -> Iterator[Ending]:
    """Take SIGTERM and SIGINT, until the end of the block. Main thread only."""
    found = Ending()

    def note(number: int, frame: FrameType | None) -> None:
        found.number = found.number or number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

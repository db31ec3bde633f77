"""A progress line on standard error: redrawn on a terminal, a line every few seconds elsewhere."""

import sys
import time
from typing import Self, TextIO

_QUIET_SECONDS = 5.0


class Progress:
    """Counts up to a total.

    Args:
        what: What is counted.
        total: How many there are; 0 while that is not known, and nothing is shown.
        stream: Where the line goes.
    """

    def __init__(self, what: str, total: int = 0, stream: TextIO = sys.stderr) -> None:
        self._what = what
        self._total = total
        self._stream = stream
        self._done = 0
        self._started = self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(self, *exception: object) -> None:
        self._show(final=True)

    def advance(self, count: int) -> None:
        """Count some more."""
        self.set(self._done + count, self._total)

    def set(self, done: int, total: int) -> None:
        """Say how far it is."""
        self._done, self._total = done, total
        now = time.monotonic()
        if self._stream.isatty() or now - self._last >= _QUIET_SECONDS:
            self._last = now
            self._show()

    def _show(self, final: bool = False) -> None:
        if not self._total:
            return
        elapsed = time.monotonic() - self._started
        rate = f", {self._done / elapsed:.0f}/s" if self._done and elapsed > 0 else ""
        text = f"  {self._done:,} of {self._total:,} {self._what}{rate}"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if final else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

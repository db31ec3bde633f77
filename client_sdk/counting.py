"""Counts what was dropped, by reason, exactly and without a lock.

Any thread may count, also in a signal handler or a finalizer that has interrupted another count,
and a fork may come at any moment: so nothing here can be held. Stepping `itertools.count` is one
act of the interpreter.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import count


class Drops:
    """How often each reason came."""

    def __init__(self) -> None:
        self._steps: dict[str, count[int]] = {}

    def update(self, reasons: Iterable[str]) -> None:
        """Count each of some reasons once."""
        for reason in reasons:
            next(self._steps.get(reason) or self._steps.setdefault(reason, count()))

    def figures(self) -> Counter[str]:
        """Return how often each reason has come by now."""
        # The one way to look at a count without stepping it: it reads count(7).
        steps = {reason: repr(step) for reason, step in list(self._steps.items())}
        return +Counter({reason: int(text[6:-1]) for reason, text in steps.items()})

"""Counters of rate limits: each vanishes when its window is over."""

from aggregator.connection import Connection
from aggregator.store.layout import limit


class Windows:
    """The store's counters by name; raises StoreUnavailable as the store does."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call
        self._count = connection.script("count")

    def add(self, name: str, amount: int, seconds: int) -> int:
        """Add to a counter, and return its sum in the window that it begins if there is none."""
        return int(self._count([limit(name)], [amount, seconds]))

    def sum(self, name: str) -> int:
        """Return a counter's sum in its window."""
        return int(self._call("GET", limit(name)) or 0)

    def remaining_seconds(self, name: str) -> float:
        """Return how long a counter's window still lasts, 0 if there is none."""
        return max(0, int(self._call("PTTL", limit(name)))) / 1000

    def forget(self, name: str) -> None:
        """End a counter's window."""
        self._call("DEL", limit(name))

"""The vigil: makes sure, every few seconds of uploads, that the store may still be used.

What is checked at start can change under a running server: an operator sets a policy that evicts,
a newer version takes the store over.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from aggregator.connection import Connection, StoreRefused, StoreUnavailable
from aggregator.store.admission import check_policy
from aggregator.store.migrations import require_newest

_SECONDS = 2.0


class Vigil:
    """What one process has seen; safe for threads: while one looks, the others go on.

    Args:
        connection: To the store.
        monotonic: A clock in seconds.
    """

    def __init__(
        self, connection: Connection, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._sound_until = float("-inf")

    def keep(self) -> None:
        """Look, unless that was done a moment ago and the store was sound.

        A server of the store that cannot be asked stops nobody here: what it has to take, it
        refuses by itself, and the others go on.

        Raises:
            StoreRefused: The store must not be used now.
        """
        now, known = self._monotonic(), self._sound_until
        if now < known:
            return
        # Before asking: a server that hangs must hold up one thread, not all.
        self._sound_until = now + _SECONDS
        try:
            with suppress(StoreUnavailable):
                check_policy(self._connection, all_must_answer=False)
                require_newest(self._connection)
        except StoreRefused:
            self._sound_until = known
            raise

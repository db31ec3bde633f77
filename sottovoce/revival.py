"""Starts the store of `sottovoce up` again when it has ended: by a full disk, by kill, by itself.

Everything else goes on meanwhile: the server answers 503 and devices keep their reports.
"""

import logging
import time
from collections.abc import Callable

from aggregator.machine.embedded import EmbeddedServer, EmbeddedServerError
from aggregator.machine.processes import restart_delay_seconds

_log = logging.getLogger(__name__)

LONGEST_DELAY_SECONDS = 3.0
"""A store that waits for room on its disk is back soon after there is some."""
_HEALTHY_AFTER_SECONDS = 30.0


class Revival:
    """Looks after one store; to be called again and again.

    Args:
        server: The store.
        monotonic: A clock in seconds.
    """

    def __init__(
        self, server: EmbeddedServer, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._monotonic = monotonic
        self._started = monotonic()
        self._due: float | None = None
        self._deaths = 0

    def look_after(self) -> bool:
        """Start the store again if it has ended and its time has come.

        Returns:
            False if the store has ended and is another process's: nothing can be done here.
        """
        if self._server.attached or self._server.running():
            return self._server.running()
        now = self._monotonic()
        if self._due is None:
            self._wait(now, "has ended")
        elif now >= self._due:
            try:
                self._server.revive()
            except (OSError, EmbeddedServerError) as error:
                self._wait(now, f"did not start ({error})")
            else:
                self._started, self._due = now, None
        return True

    def _wait(self, now: float, what_happened: str) -> None:
        lasted = now - self._started >= _HEALTHY_AFTER_SECONDS
        self._deaths = 1 if lasted else self._deaths + 1
        delay = min(restart_delay_seconds(self._deaths), LONGEST_DELAY_SECONDS)
        self._due = now + delay
        _log.warning(
            "the store %s, see %s; starting it again in %g s",
            what_happened,
            self._server.log,
            delay,
        )

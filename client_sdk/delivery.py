"""One upload when it is due, by one process of the device at a time."""

import os
from collections import Counter
from collections.abc import Callable

from client_sdk.errors import StateError
from client_sdk.locks import ProcessLock
from client_sdk.schedule import Schedule
from client_sdk.state import State
from client_sdk.transport import Transport
from client_sdk.uploader import Outcome, Uploader


class Delivery:
    """Uploads what a state holds, when it is time.

    Args:
        state: The device's state.
        schedule: When it is time.
        transport: How bytes travel.
        lifetime_micro: The project's cap, for the ledger.
        refused: Counts reports that left the queue without being accepted, by reason.
        may_send: Asked before anything is sent.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        *,
        state: State,
        schedule: Schedule,
        transport: Transport,
        lifetime_micro: int,
        refused: Counter[str],
        may_send: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._may_send = may_send
        self._clock = clock
        self._lock = ProcessLock(os.path.join(os.path.dirname(state.path), "upload.lock"))
        self._uploader = Uploader(state, transport, lifetime_micro, refused, may_send)

    def run_if_due(self, *, asked: bool) -> Outcome | None:
        """Upload if it is time, or if asked for; None if it is not.

        Raises:
            StateError: The state cannot be used any more.
        """
        if not self._schedule.is_due(asked=asked) or not self._may_send():
            return None
        try:
            mine = self._lock.acquire()
        except OSError as error:
            raise StateError(f"the upload lock cannot be used: {error}") from error
        if not mine:  # another process uploads, for this one too
            self._schedule.look_again_soon()
            return None
        try:
            return self._run(asked)
        finally:
            self._lock.release()

    def _run(self, asked: bool) -> Outcome | None:
        self._schedule.read()
        if not self._schedule.is_due(asked=asked):  # another process was faster
            if self._state.queued():
                self._schedule.something_waits()
            return None
        self._schedule.begin()
        outcome = self._uploader.run(self._clock())
        if outcome.kind == "later":
            self._schedule.failed(outcome.pause_seconds, also_if_asked=not outcome.refused)
        else:
            self._schedule.done()
        return outcome

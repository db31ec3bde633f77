"""Everything that is done with a device's open state: store, report silence, deliver."""

from collections import Counter
from collections.abc import Callable

from client_sdk import spool
from client_sdk.absence import next_end
from client_sdk.counting import Drops
from client_sdk.delivery import Delivery
from client_sdk.ledger import Ledger
from client_sdk.pending import Pending
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.registry import Registry
from client_sdk.schedule import Schedule
from client_sdk.state import State
from client_sdk.transport import Transport
from client_sdk.uploader import Outcome

_MOST_PATIENCE_SECONDS = 3600.0


class Session:
    """A state, and what one process does with it. Every method may raise StateError.

    Args:
        state: The device's state; closed by `close`.
        registry: The metrics, whose shares are reserved now if they were not before.
        transport: How uploads travel.
        upload_within_seconds: Length of a window in which there is one upload.
        clock: Unix time in seconds.
        coin: Fresh randomness.
        dropped: Counts values that were not stored, by reason.
        refused: Counts reports that left the queue without being accepted, by reason.
        may_send: Asked before anything is sent.
    """

    def __init__(
        self,
        state: State,
        *,
        registry: Registry,
        transport: Transport,
        upload_within_seconds: float,
        clock: Callable[[], float],
        coin: Coin,
        dropped: Drops,
        refused: Counter[str],
        may_send: Callable[[], bool],
    ) -> None:
        self.state = state
        self._registry = registry
        self._clock = clock
        self._dropped = dropped
        self._recorder = Recorder(state, registry, clock(), coin)
        self._schedule = Schedule(state, upload_within_seconds, clock, coin)
        self._delivery = Delivery(
            state=state,
            schedule=self._schedule,
            transport=transport,
            lifetime_micro=registry.lifetime_micro,
            refused=refused,
            may_send=may_send,
            clock=clock,
        )
        self._absence_at: float | None = None
        if state.queued() or state.is_leaving:
            self._schedule.something_waits()

    def store(self, pending: list[Pending]) -> None:
        """Charge, randomize and queue values; count those that were dropped."""
        self._dropped.update(self._recorder.store(pending, self._clock()))
        self._look_after_the_queue()

    def report_absence(self) -> None:
        """Report epochs that are over without a record, and plan the next look."""
        now = self._clock()
        if self._absence_at is not None and now < self._absence_at:
            return
        self._absence_at = next_end(self._registry, now)
        if self._absence_at is not None:
            self._recorder.report_absence(now)
            self._look_after_the_queue()

    def deliver(self, *, asked: bool) -> Outcome | None:
        """Upload if it is time, or if asked for; None if it is not."""
        return self._delivery.run_if_due(asked=asked)

    def patience(self) -> float | None:
        """Return the seconds until something is due by itself, None if nothing is."""
        upload = self._schedule.wait()
        absence = None if self._absence_at is None else max(0.0, self._absence_at - self._clock())
        waits = [wait for wait in (upload, absence) if wait is not None]
        # The clock may be set meanwhile, or the machine sleep: look again every hour.
        return min([*waits, _MOST_PATIENCE_SECONDS]) if waits else None

    def answer_seconds(self) -> float:
        """Return how long a program that ends waits for the answer to an upload."""
        return self._schedule.answer_seconds()

    def figures(self) -> tuple[int, int]:
        """Return micro-epsilon spent and reports queued."""
        with self.state.transaction() as connection:
            spent = Ledger(connection, self._registry.lifetime_micro).spent()
            return spent, spool.queued(connection)

    def _look_after_the_queue(self) -> None:
        with self.state.transaction() as connection:
            self._dropped.update(["spool_full"] * spool.trim(connection))
            waiting = spool.queued(connection)
        if waiting:
            self._schedule.something_waits()

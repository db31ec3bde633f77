"""The background thread of a client: stores what was recorded, uploads at random moments.

Started by the first record, never before. It holds the only connection to the state, so the
host's threads never wait for a disk or a network.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from client_sdk.errors import StateError
from client_sdk.ledger import Ledger
from client_sdk.locks import ProcessLock
from client_sdk.randomness import Coin
from client_sdk.recorder import Pending, Recorder
from client_sdk.registry import Registry
from client_sdk.state import State
from client_sdk.transport import Transport
from client_sdk.uploader import Outcome, Uploader

_LOG = logging.getLogger("sottovoce")
MOST_PENDING = 10_000
LEAST_BACKOFF_SECONDS = 30.0
MOST_BACKOFF_SECONDS = 6 * 3600.0


class Worker:
    """Owns the state of one client in one process.

    Args:
        registry: The metrics.
        directory: Where the state lies.
        transport: How uploads travel.
        upload_within_seconds: Uploads happen at a random moment within this time.
        clock: Unix time in seconds.
        coin: Fresh randomness.
        dropped: Where reasons of dropped values are counted.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        directory: Path,
        transport: Transport,
        upload_within_seconds: float,
        clock: Callable[[], float],
        coin: Coin,
        dropped: Counter[str],
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._transport = transport
        self._within = upload_within_seconds
        self._clock = clock
        self._coin = coin
        self._dropped = dropped
        self.refused: Counter[str] = Counter()
        self.disabled_because: str | None = None
        self._queue: deque[Pending] = deque()
        self._wake = threading.Condition()
        self._state: State | None = None
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._flush_wanted = 0
        self._flush_done = 0
        self._storing = False
        self._upload_at: float | None = None
        self._failures = 0

    def accept(self, pending: Pending) -> str | None:
        """Take a value over, or return why not."""
        if self.disabled_because is not None:
            return "no_state" if self._state is None else "suspended"
        with self._wake:
            if self._stopping:
                return "closed"
            if len(self._queue) >= MOST_PENDING:
                return "queue_full"
            self._queue.append(pending)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sottovoce", daemon=True)
                self._thread.start()
            self._wake.notify_all()
        return None

    def flush(self, timeout_seconds: float) -> bool:
        """Store and upload now; True when nothing is left to send."""
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sottovoce", daemon=True)
                self._thread.start()
            self._flush_wanted += 1
            wanted = self._flush_wanted
            self._wake.notify_all()
            done = self._wake.wait_for(lambda: self._flush_done >= wanted, timeout_seconds)
        _, queued = self.figures()
        return done and not queued and self.disabled_because is None

    def figures(self) -> tuple[int | None, int]:
        """Return micro-epsilon spent (None while the state is closed) and reports queued."""
        if self._state is None:
            return None, len(self._queue)
        try:
            with self._state.transaction() as connection:
                spent = Ledger(connection, self._registry.lifetime_micro).spent()
                return spent, self._state.queued() + len(self._queue)
        except StateError:
            return None, len(self._queue)

    def forget_queue(self) -> None:
        """Delete everything that waits to be stored or sent, also from earlier runs."""
        with self._wake:
            self._queue.clear()
        try:
            if self._state is not None:
                self._dropped["opted_out"] += self._state.empty_queue()
            elif self._directory.exists():
                state = State(self._directory)
                self._dropped["opted_out"] += state.empty_queue()
                state.close()
        except StateError as error:
            self._fail(error)

    def close(self, timeout_seconds: float) -> None:
        """Store what waits and end the thread, within a bound."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            self._open()
            while self._step():
                pass
        except StateError as error:
            self._fail(error)
        finally:
            with self._wake:
                self._flush_done = self._flush_wanted
                self._wake.notify_all()

    def _open(self) -> None:
        self._state = State(self._directory)
        self.disabled_because = self._state.suspended
        self._recorder = Recorder(self._state, self._registry, self._clock(), self._coin)
        if self._state.queued():
            self._plan_upload(self._within)

    def _step(self) -> bool:
        """Do what is due; False when the thread should end."""
        with self._wake:
            self._wake.wait_for(self._something_to_do, self._patience())
            pending = list(self._queue)
            self._queue.clear()
            flush = self._flush_wanted
            stopping = self._stopping
        if pending:
            self._store(pending)
        upload_due = self._upload_at is not None and self._clock() >= self._upload_at
        if not stopping and (flush > self._flush_done or upload_due):
            self._upload()
        with self._wake:
            self._flush_done = flush
            self._wake.notify_all()
            return bool(self._queue) or not self._stopping

    def _something_to_do(self) -> bool:
        return bool(self._queue) or self._stopping or self._flush_wanted > self._flush_done

    def _patience(self) -> float | None:
        if self._upload_at is None:
            return None
        return min(max(0.0, self._upload_at - self._clock()), 3600.0)

    def _store(self, pending: list[Pending]) -> None:
        assert self._recorder is not None
        if self.disabled_because is not None:
            self._dropped["suspended"] += len(pending)
            return
        self._dropped.update(self._recorder.store(pending))
        if self._upload_at is None:
            self._plan_upload(self._within)

    def _upload(self) -> None:
        assert self._state is not None
        lock = ProcessLock(self._directory / "upload.lock")
        self._upload_at = None
        if not lock.acquire():
            self._plan_upload(self._within)
            return
        try:
            uploader = Uploader(
                self._state, self._transport, self._registry.lifetime_micro, self.refused
            )
            outcome = uploader.run(self._clock())
        finally:
            lock.release()
        self._after_upload(outcome)

    def _after_upload(self, outcome: Outcome) -> None:
        if outcome.kind == "suspended":
            assert self._state is not None
            self.disabled_because = self._state.suspended
            _LOG.warning("sottovoce: reporting stopped: %s", self.disabled_because)
        elif outcome.kind == "later":
            ceiling = min(LEAST_BACKOFF_SECONDS * 2**self._failures, MOST_BACKOFF_SECONDS)
            self._failures = min(self._failures + 1, 20)
            self._plan_upload(ceiling, at_least=outcome.pause_seconds)
        else:
            self._failures = 0

    def _plan_upload(self, within: float, at_least: float = 0.0) -> None:
        """Choose a random moment: uploads of many devices must not come together."""
        share = self._coin.uniform(1 << 20) / (1 << 20)
        self._upload_at = self._clock() + at_least + share * within

    def _fail(self, error: StateError) -> None:
        """Stop for the life of this process and say so once."""
        if self.disabled_because is None:
            self.disabled_because = "no state"
            _LOG.warning("sottovoce: reporting stopped, no state, no report: %s", error)
        self._dropped["no_state"] += len(self._queue)
        self._queue.clear()

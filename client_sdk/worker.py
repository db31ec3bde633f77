"""The background thread of a client: stores what was recorded, uploads at random moments.

Started by the first record, never before. It holds the only connection to the state, so the
host's threads never wait for a disk or a network.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from client_sdk.absence import next_end
from client_sdk.errors import NoRandomness, StateError
from client_sdk.ledger import Ledger
from client_sdk.locks import ProcessLock
from client_sdk.pending import Pending
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.registry import Registry
from client_sdk.state import FILE_NAME, State
from client_sdk.transport import LONGEST_PAUSE_SECONDS, Transport
from client_sdk.uploader import Outcome, Uploader

_LOG = logging.getLogger("sottovoce")
MOST_PENDING = 10_000
LEAST_BACKOFF_SECONDS = 30.0
MOST_BACKOFF_SECONDS = 6 * 3600.0


class Worker:
    """Owns the state of one client in one process.

    Args:
        registry: The metrics.
        directory: Says where the state lies; asked when the state is first needed.
        transport: How uploads travel.
        upload_within_seconds: Uploads happen at a random moment within this time.
        clock: Unix time in seconds.
        coin: Fresh randomness.
        dropped: Where reasons of dropped values are counted.
        on_end: Called when the thread ends.

    Attributes:
        refused: Reports that the server refused, by reason.
        disabled_because: Why nothing is reported any more, in words; None while it is.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        directory: Callable[[], Path],
        transport: Transport,
        upload_within_seconds: float,
        clock: Callable[[], float],
        coin: Coin,
        dropped: Counter[str],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._transport = transport
        self._within = upload_within_seconds
        self._clock = clock
        self._coin = coin
        self._dropped = dropped
        self._on_end = on_end
        self.refused: Counter[str] = Counter()
        self.disabled_because: str | None = None
        self._drop_reason = ""
        self._queue: deque[Pending] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._ended = False
        self._flush_wanted = 0
        self._flush_done = 0
        # Guards state and consent: after a withdrawal nothing is stored or sent any more.
        self._guard = threading.RLock()
        self._state: State | None = None
        self._recorder: Recorder | None = None
        self._withdrawn = False
        self._last_figures: tuple[int | None, int] = (None, 0)
        self._upload_at: float | None = None
        self._absence_at: float | None = None
        self._paused_until = 0.0
        self._failures = 0

    def accept(self, pending: Pending) -> str | None:
        """Take a value over, or return why not."""
        with self._wake:
            if self.disabled_because is not None:
                return self._drop_reason
            if self._stopping:
                return "closed"
            if len(self._queue) >= MOST_PENDING:
                return "queue_full"
            self._start()
            self._queue.append(pending)
            self._wake.notify_all()
        return None

    def watch(self) -> None:
        """Start without a record: silence, too, is something to report."""
        with self._wake:
            if not self._stopping:
                self._start()

    def flush(self, timeout_seconds: float) -> bool:
        """Store and upload now; True when nothing is left to send.

        A pause that the server asked for is kept: nothing is sent before it is over.
        """
        with self._wake:
            if self.disabled_because is not None:
                return False
            if not self._stopping:
                self._start()
                self._flush_wanted += 1
                wanted = self._flush_wanted
                self._wake.notify_all()
                if not self._wake.wait_for(
                    lambda: self._ended or self._flush_done >= wanted, timeout_seconds
                ):
                    return False
        _, queued = self.figures()
        return not queued and self.disabled_because is None

    def figures(self) -> tuple[int | None, int]:
        """Return micro-epsilon spent (None before the state was opened) and reports queued."""
        with self._guard:
            if self._state is not None:
                with suppress(StateError), self._state.transaction() as connection:
                    spent = Ledger(connection, self._registry.lifetime_micro).spent()
                    self._last_figures = spent, self._state.queued()
            spent_before, queued = self._last_figures
            return spent_before, queued + len(self._queue)

    def withdraw(self) -> None:
        """Stop for good and delete everything that waits to be stored or sent, at once."""
        with self._wake:
            self._withdrawn = self._stopping = True
            self._dropped.update(["opted_out"] * len(self._queue))
            self._queue.clear()
            self._wake.notify_all()
        try:
            with self._guard:
                if self._state is not None:
                    self._forget(self._state)
                elif (self._directory() / FILE_NAME).exists():
                    state = State(self._directory())
                    self._forget(state)
                    state.close()
        except (StateError, OSError) as error:
            self._fail("no_state", f"no state, no report: {error}")

    def close(self, timeout_seconds: float) -> None:
        """Store what waits and end the thread, within a bound."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_seconds)

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="sottovoce", daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        try:
            self._open()
            while self._step():
                pass
        except StateError as error:
            self._fail("no_state", f"no state, no report: {error}")
        except NoRandomness as error:
            self._fail("no_randomness", f"no randomness, no report: {error}")
        except Exception as error:  # its text might hold a value
            self._fail("internal_error", f"{type(error).__name__} inside the SDK")
        finally:
            self._end()

    def _open(self) -> None:
        state = State(self._directory())
        with self._guard:
            self._state = state
        self._recorder = Recorder(state, self._registry, self._clock(), self._coin)
        if state.suspended is not None:
            self._fail("suspended", state.suspended)
        else:
            self._report_absence()
            if state.queued() and self._upload_at is None:
                self._plan_upload(self._within)

    def _report_absence(self) -> None:
        """Report epochs that are over without a record, and plan the next look."""
        now = self._clock()
        if self._absence_at is not None and now < self._absence_at:
            return
        self._absence_at = next_end(self._registry, now)
        if self._absence_at is None:
            return
        with self._guard:
            if not self._withdrawn and self._recorder is not None:
                self._recorder.report_absence(now)
        if self._upload_at is None:
            self._plan_upload(self._within)

    def _end(self) -> None:
        self.figures()
        with self._guard:
            if self._state is not None:
                self._state.close()
                self._state = None
        self._on_end()
        with self._wake:
            self._ended = True
            self._wake.notify_all()

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
        if not stopping:
            self._report_absence()
        asked = flush > self._flush_done and not self._is_ahead(self._paused_until)
        due = self._upload_at is not None and not self._is_ahead(self._upload_at)
        if not stopping and (asked or due):
            self._upload()
        with self._wake:
            self._flush_done = flush
            self._wake.notify_all()
            going = not self._stopping and self.disabled_because is None
            return bool(self._queue) or going

    def _something_to_do(self) -> bool:
        return bool(self._queue) or self._stopping or self._flush_wanted > self._flush_done

    def _is_ahead(self, moment: float) -> bool:
        """Say whether a planned moment is still to come.

        One that lies further ahead than anything is ever planned was planned by a clock that
        has been set back since.
        """
        wait = moment - self._clock()
        return 0 < wait <= self._within + MOST_BACKOFF_SECONDS + LONGEST_PAUSE_SECONDS

    def _patience(self) -> float | None:
        planned = [at for at in (self._upload_at, self._absence_at) if at is not None]
        if not planned:
            return None
        return min(max(0.0, min(planned) - self._clock()), 3600.0)

    def _store(self, pending: list[Pending]) -> None:
        with self._guard:
            reason = "opted_out" if self._withdrawn else self._drop_reason
            if reason:
                self._dropped.update([reason] * len(pending))
                return
            assert self._recorder is not None
            try:
                self._dropped.update(self._recorder.store(pending))
            except Exception:
                # Back to where the end of the thread counts what it could not store.
                self._queue.extendleft(reversed(pending))
                raise
            if self._upload_at is None:
                self._plan_upload(self._within)

    def _upload(self) -> None:
        assert self._state is not None
        self._upload_at = None
        lock = ProcessLock(self._state.path.with_name("upload.lock"))
        if not lock.acquire():
            self._plan_upload(self._within)
            return
        try:
            uploader = Uploader(
                self._state,
                self._transport,
                self._registry.lifetime_micro,
                self.refused,
                may_send=lambda: not (self._stopping or self._withdrawn),
            )
            outcome = uploader.run(self._clock())
        finally:
            lock.release()
        self._after_upload(outcome)

    def _after_upload(self, outcome: Outcome) -> None:
        if outcome.kind == "suspended":
            assert self._state is not None
            self._fail("suspended", self._state.suspended or "")
        elif outcome.kind == "later":
            ceiling = min(LEAST_BACKOFF_SECONDS * 2**self._failures, MOST_BACKOFF_SECONDS)
            self._failures = min(self._failures + 1, 20)
            self._paused_until = self._clock() + outcome.pause_seconds
            self._plan_upload(ceiling, at_least=outcome.pause_seconds)
        else:
            self._failures = 0

    def _plan_upload(self, within: float, at_least: float = 0.0) -> None:
        """Choose a random moment: uploads of many devices must not come together."""
        share = self._coin.uniform(1 << 20) / (1 << 20)
        self._upload_at = self._clock() + at_least + share * within

    def _forget(self, state: State) -> None:
        self._dropped.update(["opted_out"] * state.withdraw())

    def _fail(self, drop_reason: str, why: str) -> None:
        """Stop for the life of this process and say so once."""
        with self._wake:
            if self.disabled_because is None:
                self._drop_reason = drop_reason
                self.disabled_because = why
                _LOG.warning("sottovoce: reporting stopped: %s", why)
            self._dropped.update([self._drop_reason] * len(self._queue))
            self._queue.clear()

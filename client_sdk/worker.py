"""One client's life in one process: takes values over, stores them, uploads when it is time.

The work is done by a thread, started by the first value, never before. The host's threads take no
lock and wait for nothing. Where no thread can start (the interpreter is ending, or none is left)
values wait, and whoever closes the client stores them.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from client_sdk import exits, leaving, log, threads
from client_sdk.counting import Drops
from client_sdk.errors import NoRandomness, StateErased, StateError
from client_sdk.inbox import Inbox, Ticket
from client_sdk.pending import Pending
from client_sdk.randomness import Coin
from client_sdk.reception import Reception
from client_sdk.registry import Registry
from client_sdk.session import Session
from client_sdk.state import PATIENCE_SECONDS, State
from client_sdk.transport import Transport

MOST_PENDING = 1_000
GATHER_SECONDS = 0.05
_FIGURES_SECONDS = 1.0
_HASTY_SECONDS = 0.3


class Worker:
    """Owns the state of one client in one process.

    Args:
        registry: The metrics.
        directory: Says where the state lies; asked when the state is first needed.
        transport: How uploads travel.
        upload_within_seconds: Length of a window in which there is one upload.
        clock: Unix time in seconds.
        coin: Fresh randomness.
        on_end: Called when the work ends.
        waits_since: Says since when the transport has been waiting for the network, in seconds
            of `time.monotonic`; None: it is not, or cannot say.

    Attributes:
        dropped: Values not reported, by reason.
        refused: Reports that left the queue without being accepted, by reason.
        disabled_because: Why nothing is reported any more, in words; None while it is.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        directory: Callable[[], str],
        transport: Transport,
        upload_within_seconds: float,
        clock: Callable[[], float],
        coin: Coin,
        on_end: Callable[[], None] = lambda: None,
        waits_since: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._transport = transport
        self._within = upload_within_seconds
        self._clock = clock
        self._coin = coin
        self._on_end = on_end
        self._waits_since = waits_since
        self._pid = os.getpid()
        self.dropped = Drops()
        self.refused: Counter[str] = Counter()
        self.disabled_because: str | None = None
        self._drop_reason = ""
        self._reception = Reception(registry, clock)
        self._inbox = Inbox()
        self._tickets: list[Ticket] = []
        self._work = threads.Once(self._run)
        self._has_accepted = False
        self._stopping = False
        self._send_until = 0.0
        # Guards session and consent: after a withdrawal nothing is stored any more.
        self._guard = threads.RLock()
        self._session: Session | None = None
        self._withdrawn = False
        self._patience_seconds = PATIENCE_SECONDS
        self._last_figures: tuple[int | None, int] = (None, 0)
        self._is_leaving = False
        exits.watch(self)

    def record(self, name: str, value: object) -> str | None:
        """Take a value over; return what is to be counted about it, see `Reception.receive`."""
        if self._stopping:
            # First of all: what finalizers record while the interpreter takes itself apart must
            # touch nothing of it (Python 3.13 crashes over a date then).
            return "opted_out" if self._withdrawn else "closed"
        if self.disabled_because is not None:
            return self._reception.receive(name, value, lambda pending: self._drop_reason)
        return self._reception.receive(name, value, self._accept)

    def _accept(self, pending: Pending) -> str | None:
        if len(self._inbox) >= MOST_PENDING:
            return "queue_full"
        self._has_accepted = True
        self._inbox.put(pending)
        self._work.start()
        return None

    def start(self) -> None:
        """Begin without a value: where silence is reported, it counts from now on."""
        self._work.start()

    def settle(self, timeout_seconds: float, *, upload: bool) -> bool:
        """Have everything stored, and sent if that is wished; False if it took too long."""
        if self.disabled_because is not None or self._stopping:
            return self._work.has_ended
        ticket = Ticket(upload=upload)
        self._inbox.wish(ticket)
        self._work.start()
        deadline = time.monotonic() + timeout_seconds
        while not ticket.wait(min(0.5, max(0.0, deadline - time.monotonic()))):
            if self._work.has_ended or time.monotonic() >= deadline:
                return self._work.has_ended
        return True

    def store(self, timeout_seconds: float) -> None:
        """Have everything stored, if anything was taken over."""
        if self._has_accepted:
            self.settle(timeout_seconds, upload=False)

    def flush(self, timeout_seconds: float) -> bool:
        """Store and upload now; True when nothing is left to send.

        A pause that the server asked for is kept: nothing is sent before it is over.
        """
        if not self.settle(timeout_seconds, upload=True):
            return False
        _, queued = self.figures()
        return not queued and not self._is_leaving and self.disabled_because is None

    def figures(self) -> tuple[int | None, int]:
        """Return micro-epsilon spent (None before the state was opened) and reports queued."""
        if self._guard.acquire(True, _FIGURES_SECONDS):
            try:
                if self._session is not None:
                    with suppress(StateError):
                        self._last_figures = self._session.figures()
                        self._is_leaving = self._session.state.is_leaving
                        self._session.state.rest()
            finally:
                self._guard.release()
        spent, queued = self._last_figures
        return spent, queued + len(self._inbox)

    def withdraw(self) -> None:
        """Stop for good and delete everything that waits to be stored or sent, at once."""
        self._withdrawn = self._stopping = True
        self._drain("opted_out")
        self._inbox.wish(None)
        try:
            with self._guard:
                self._forget()
        except (StateError, OSError) as error:
            self._fail("no_state", f"no state, no report: {error}")

    def erase(self, timeout_seconds: float) -> bool:
        """Stop for good and erase the device's life at once; then have the server do so.

        Returns:
            True when nothing is left to erase, here or there.
        """
        deadline = time.monotonic() + timeout_seconds
        self._withdrawn = self._stopping = True
        self._drain("opted_out")
        self._inbox.wish(None)
        if not self._erase_here():
            return False
        confirmed: list[bool] = []
        farewell = threads.Once(lambda: confirmed.append(self._erase_there(deadline)))
        farewell.start()
        if farewell.has_begun:
            farewell.wait(max(0.0, deadline - time.monotonic()))
        return confirmed == [True]

    def _erase_here(self) -> bool:
        try:
            with self._guard:
                waiting, spent = leaving.erase_here(self._home(), self._registry, self._clock())
                self.dropped.update(["opted_out"] * waiting)
                if spent is not None:
                    self._last_figures = spent, 0
                leaving.scrub(self._home())
        except NoRandomness as error:
            with suppress(OSError), self._guard:
                self._forget()  # at least what waits to be sent
            self._fail("no_randomness", f"no randomness, no report: {error}")
            return False
        except OSError as error:
            self._fail("no_state", f"no state, no report: {error}")
            return False
        return True

    def _erase_there(self, deadline: float) -> bool:
        if self._work.has_begun:  # a batch may be under way, and its connection
            self._work.wait(max(0.0, deadline - time.monotonic()))
            if not self._work.has_ended:
                return False
        try:
            return leaving.erase_there(self._home(), self._transport)
        except Exception as error:  # also of a transport of the host's
            log.debug("erasure postponed: %s", type(error).__name__)
            return False
        finally:
            with suppress(Exception):
                self._on_end()

    def _home(self) -> leaving.Home:
        return leaving.Home(self._directory, self._patience_seconds)

    def stop(self, seconds: float) -> None:
        """Begin to end, without waiting: store what waits, send what is due for some seconds."""
        if self._pid == os.getpid():
            if not self._stopping:
                self._send_until = time.monotonic() + seconds
                self._stopping = True
            self._inbox.wish(None)

    def wait_until_ended(self, seconds: float) -> None:
        """After `stop`: wait until everything is stored and sent, or for some seconds.

        A server that does not answer is not waited for that long: what is stored can be sent
        after the next start.
        """
        if self._pid != os.getpid():
            return
        if self._has_accepted and self._work.take_over(self._run_hastily):
            return
        if self._work.has_begun:
            exits.wait_unless_silent(self._work, seconds, self._waits_since, self._answer_seconds)
            self._store_instead()

    def _answer_seconds(self) -> float:
        session = self._session
        return exits.EXIT_SECONDS if session is None else session.answer_seconds()

    def _store_instead(self) -> None:
        """Store here and now what the thread, which waits for the network, has not."""
        if not len(self._inbox) or not self._guard.acquire(True, _HASTY_SECONDS):
            return
        try:
            session = self._session
            if session is not None and session.state.hold(_HASTY_SECONDS):
                try:
                    session.state.patience_seconds = _HASTY_SECONDS
                    pending, tickets = self._inbox.take(0.0, 0.0)
                    self._store(session, pending)
                    session.state.rest()
                    _settle(tickets)
                finally:
                    session.state.let_go()
        except Exception:  # what could not be stored was put back, where nobody will look now
            self._drain("no_state")
        finally:
            self._guard.release()

    def _run_hastily(self) -> None:
        """Do the work on the thread of whoever closes: store, but do not wait for a network."""
        self._patience_seconds = _HASTY_SECONDS
        self._send_until = 0.0
        self._run()

    def _run(self) -> None:
        try:
            while not self._live():
                pass
        except StateError as error:
            self._fail("no_state", f"no state, no report: {error}")
        except NoRandomness as error:
            self._fail("no_randomness", f"no randomness, no report: {error}")
        except Exception as error:  # its text might hold a value
            self._fail("internal_error", f"{type(error).__name__} inside the SDK")
        finally:
            self._end()

    def _live(self) -> bool:
        """Work until there is no more; False to begin anew because the device was erased."""
        try:
            self._open()
            while self._step():
                pass
        except StateErased:
            with self._guard:
                if self._session is not None:
                    self._session.state.close()
                    self._session = None
            for ticket in self._tickets:
                self._inbox.wish(ticket)
            return self._withdrawn
        return True

    def _open(self) -> None:
        state = State(self._directory(), self._patience_seconds)
        session = Session(
            state,
            registry=self._registry,
            transport=self._transport,
            upload_within_seconds=self._within,
            clock=self._clock,
            coin=self._coin,
            dropped=self.dropped,
            refused=self.refused,
            may_send=self._may_send,
        )
        with self._guard:
            self._session = session
        if state.suspended is not None:
            self._fail("suspended", state.suspended)

    def _end(self) -> None:
        with suppress(Exception):
            self.figures()
        with suppress(Exception), self._guard:
            if self._session is not None:
                self._session.state.close()
                self._session = None
        with suppress(Exception):
            self._on_end()
        _settle(self._tickets)
        self._drain(self._drop_reason or "closed")

    def _step(self) -> bool:
        """Do what is due; False when the work is done."""
        session = self._session
        assert session is not None
        if not len(self._inbox):
            session.state.rest()
        waiting = not self._stopping and self.disabled_because is None
        patience = session.patience() if waiting else 0.0
        pending, tickets = self._inbox.take(patience, GATHER_SECONDS)
        self._tickets = tickets
        if pending:
            self._store(session, pending)
        with self._guard:
            if not self._stopping:
                session.report_absence()
        outcome = session.deliver(asked=any(ticket.upload for ticket in tickets))
        if outcome is not None and outcome.kind == "suspended":
            self._fail("suspended", session.state.suspended or "")
        session.state.rest()
        _settle(tickets)
        self._tickets = []
        going = not self._stopping and self.disabled_because is None
        return bool(len(self._inbox)) or going

    def _store(self, session: Session, pending: list[Pending]) -> None:
        with self._guard:
            reason = "opted_out" if self._withdrawn else self._drop_reason
            if reason:
                self.dropped.update([reason] * len(pending))
                return
            try:
                session.store(pending)
            except Exception:
                # Back to where the end of the work counts what it could not store.
                for each in pending:
                    self._inbox.put(each)
                raise

    def _may_send(self) -> bool:
        closing = self._stopping and time.monotonic() >= self._send_until
        return not (closing or self._withdrawn)

    def _forget(self) -> None:
        self.dropped.update(["opted_out"] * leaving.withdraw(self._home()))
        # The thread may have ended, and noted its last figures, before this.
        self._last_figures = self._last_figures[0], 0

    def _fail(self, drop_reason: str, why: str) -> None:
        """Stop for the life of this process and say so once."""
        if self.disabled_because is None:
            self._drop_reason = drop_reason
            self.disabled_because = why
            self._reception = Reception(self._registry, self._clock)
            log.warning("sottovoce: reporting stopped: %s", why)
        self._drain(self._drop_reason)

    def _drain(self, reason: str) -> None:
        pending, tickets = self._inbox.take(0.0, 0.0)
        self.dropped.update([reason] * len(pending))
        _settle(tickets)


def _settle(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.settle()

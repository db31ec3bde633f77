"""Moves stored reports to the server: enrol once, then one batch at a time.

Before anything else, an earlier life that was erased here is erased there (`erasure`).

A batch gets its sequence number and nonce when it is made, in the transaction that takes its
reports out of the spool, and is sent byte for byte the same until it is answered. An answer is
believed only with a valid MAC; then the batch is deleted. A refusal without one may be anybody's:
the batch stays, but not for ever, so that it cannot keep all others waiting.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from client_sdk import log, spool
from client_sdk.authentication import KEY_BYTES, answer_mac, batch_mac, macs_match
from client_sdk.epochs import DAY_SECONDS
from client_sdk.erasure import say_farewell
from client_sdk.errors import TransportError
from client_sdk.ledger import Ledger
from client_sdk.randomness import random_bytes
from client_sdk.report import ACCEPTED, ERASED, MAX_BATCH_BYTES, MAX_BATCH_REPORTS, encode_batch
from client_sdk.spool import Batch
from client_sdk.state import State
from client_sdk.transport import Reply, Transport

_HEAD_BYTES = 256
_MOST_SPENT = 2**53
SIZES = (1024, 4096, 16_384, MAX_BATCH_BYTES)
"""Every upload has one of these lengths: how many reports it holds does not show."""

REFUSED = (400, 401, 409, 411, 413, 415, 422)
"""Statuses that speak about the batch itself: it will meet them again."""
REFUSED_PAUSE_SECONDS = 12 * 3600.0
REFUSED_DAYS = 2
"""A batch that is refused this long after it was made is given up. With the pause and the longest
back-off that is less than three days after it was first sent."""
_MADE = "batch_made"
_VERDICTS = {
    200: (ACCEPTED, "duplicate"),
    401: ("identity_revoked",),
    409: ("clone_suspected",),
    410: (ERASED,),
}
"""What an answer may say with each status."""
_DEVICE = re.compile(r"[0-9a-f]{32}")


class Outcome(NamedTuple):
    """How an upload run ended.

    Attributes:
        kind: "done": the queue is empty; "later": try again; "suspended": never again.
        pause_seconds: The least wait that the server asked for.
        refused: Whether what answered refused the batch without showing that it is the server;
            then the pause is ours, and an app that asks may try sooner.
    """

    kind: Literal["done", "later", "suspended"]
    pause_seconds: float = 0.0
    refused: bool = False


class Uploader:
    """Sends what a state holds.

    Args:
        state: The device's state.
        transport: How bytes travel.
        lifetime_micro: The project's cap, for the ledger.
        refused: Counts reports that left the queue without being accepted, by reason.
        may_send: Asked before anything is sent; False once the user has withdrawn consent or
            the app is closing.
    """

    def __init__(
        self,
        state: State,
        transport: Transport,
        lifetime_micro: int,
        refused: Counter[str],
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._state = state
        self._transport = transport
        self._lifetime_micro = lifetime_micro
        self._refused = refused
        self._may_send = may_send

    def run(self, now: float) -> Outcome:
        """Send everything that waits and may leave by now.

        Args:
            now: Unix time in seconds; reports past their grace are dropped and counted.

        Raises:
            StateError: The state cannot be used any more.
        """
        if self._state.suspended:
            return Outcome("suspended")
        self._drop_overdue(now)
        leaving = self._leave()
        if leaving is not None:
            return leaving
        while True:
            batch = self._next_batch(now)
            if batch is None:
                return Outcome("done")
            try:
                enrolment = self._enrol()
                if enrolment is not None:
                    return enrolment
                if not self._may_send():
                    return Outcome("later")
                with self._state.transaction() as connection:  # finds out if it was erased
                    device, key = self._state.device, self._state.device_key
                    waits = spool.outstanding(connection) == batch
                if device is None or not waits:  # withdrawn meanwhile, by another process
                    return Outcome("later")
                body = batch_body(batch, device)
                mac = batch_mac(key, body)
                self._state.rest()  # the network may take long, and a fork may come
                reply = self._transport.send(body, mac)
            except TransportError as error:
                log.debug("upload postponed: %s", error)
                return Outcome("later")
            outcome = self._settle(batch, reply, key, now)
            if outcome is not None:
                return outcome

    def _leave(self) -> Outcome | None:
        """Have an earlier life erased, if that is due; return the outcome if that failed."""
        try:
            pause = say_farewell(self._state, self._transport, self._may_send)
        except TransportError as error:
            log.debug("erasure postponed: %s", error)
            return Outcome("later")
        return None if pause is None else Outcome("later", pause)

    def _enrol(self) -> Outcome | None:
        """Get an identity unless there is one; return the outcome if that failed."""
        if self._state.device is not None:
            return None
        if not self._may_send():
            return Outcome("later")
        self._state.rest()
        reply = self._transport.enrol()
        if reply.status == 201:
            self._state.enrolled(*_identity(reply))
            return None
        log.debug("enrolment postponed: status %d", reply.status)
        return Outcome("later", reply.retry_after or 0.0)

    def _drop_overdue(self, now: float) -> None:
        with self._state.transaction() as connection:
            batch = spool.outstanding(connection)
            dropped = spool.drop_overdue(connection, now)
            if batch is not None and spool.outstanding(connection) is None:
                self._state.gave_up(batch.sequence)
        if dropped:
            self._refused["too_old"] += dropped

    def _next_batch(self, now: float) -> Batch | None:
        with self._state.transaction() as connection:
            batch = spool.outstanding(connection)
            if batch is not None:
                return batch
            taken = spool.next_reports(
                connection, now, MAX_BATCH_REPORTS, MAX_BATCH_BYTES - _HEAD_BYTES
            )
            if not taken:
                return None
            batch = Batch(
                self._state.next_sequence(),
                random_bytes(16).hex(),
                ",".join(report for _, _, report in taken).encode(),
                len(taken),
            )
            spool.move_to_batch(connection, batch, taken)
            self._state.put(_MADE, repr(now).encode())
        return batch

    def _settle(self, batch: Batch, reply: Reply, key: bytes, now: float) -> Outcome | None:
        """Act on an answer; None means the batch is done and the next may follow."""
        answer = _believed(reply, batch, key)
        if answer is None:
            log.debug("upload postponed: status %d", reply.status)
            if reply.status in REFUSED:
                return self._refuse(batch, now)
            return Outcome("later", reply.retry_after or 0.0)
        if answer.verdict == "clone_suspected":
            self._state.suspend("the server saw this device's identity used by another copy")
            return Outcome("suspended")
        if answer.verdict == ERASED:
            self._state.suspend("this device was erased; its state is an older copy")
            return Outcome("suspended")
        if answer.verdict == "identity_revoked":
            return self._begin_anew(batch)
        with self._state.transaction() as connection:
            spool.remove(connection, batch)
            Ledger(connection, self._lifetime_micro).raise_to(answer.spent)
        self._refused.update(reason for reason in answer.reports if reason != ACCEPTED)
        return None

    def _begin_anew(self, batch: Batch) -> Outcome:
        """Enrol again with the next run; what was spent stays spent.

        The batch is dropped: it may have been counted under the old identity, its answer lost.
        """
        with self._state.transaction() as connection:
            spool.remove(connection, batch)
            self._state.forget_identity()
        self._refused["identity_revoked"] += batch.reports
        return Outcome("later")

    def _refuse(self, batch: Batch, now: float) -> Outcome | None:
        """Keep a batch that was refused by who knows whom, but not for ever."""
        made = float(self._state.get(_MADE) or now)
        if 0 <= now - made < REFUSED_DAYS * DAY_SECONDS:
            return Outcome("later", REFUSED_PAUSE_SECONDS, refused=True)
        with self._state.transaction() as connection:
            spool.remove(connection, batch)
            self._state.gave_up(batch.sequence)
        self._refused["unanswered"] += batch.reports
        return None


def batch_body(batch: Batch, device: str) -> bytes:
    """Return the exact bytes of an upload: JSON, and spaces up to the next of a few sizes."""
    body = encode_batch(device, batch.sequence, batch.nonce, [batch.reports_json.decode()])
    return body.ljust(next(size for size in SIZES if len(body) <= size))


class _Answer(NamedTuple):
    verdict: str
    spent: int
    reports: tuple[str, ...]


def _identity(reply: Reply) -> tuple[str, bytes]:
    """Return device id and key of an enrolment answer."""
    try:
        answer = json.loads(reply.body)
        device, key = answer["device"], bytes.fromhex(answer["key"])
        if not _DEVICE.fullmatch(device) or len(key) != KEY_BYTES:
            raise ValueError("wrong length")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TransportError("the enrolment answer cannot be read") from error
    return device, key


def _believed(reply: Reply, batch: Batch, key: bytes) -> _Answer | None:
    """Return the answer if its MAC shows that the server gave it to this batch."""
    verdicts = _VERDICTS.get(reply.status)
    if verdicts is None:
        return None
    try:
        document = json.loads(reply.body)
        verdict, spent = document["verdict"], document["spent"]
        reports, mac = document["reports"], document["mac"]
        fits = (
            document["sequence"] == batch.sequence
            and verdict in verdicts
            and type(spent) is int
            and 0 <= spent <= _MOST_SPENT
            and isinstance(reports, list)
            and (verdict != "accepted" or len(reports) == batch.reports)
        )
        expected = answer_mac(key, batch.nonce, batch.sequence, verdict, spent, reports)
        if not fits or not macs_match(expected, mac):
            return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return _Answer(verdict, spent, tuple(reports))

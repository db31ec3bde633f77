"""Moves stored reports to the server: enrol once, then one batch at a time.

A batch gets its sequence number and nonce when it is made, in the transaction that takes its
reports out of the spool, and is sent byte for byte the same until it is answered. An answer is
believed only with a valid MAC; then, and only then, the batch is deleted.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from client_sdk.authentication import KEY_BYTES, answer_mac, batch_mac, macs_match
from client_sdk.errors import TransportError
from client_sdk.ledger import Ledger
from client_sdk.randomness import random_bytes
from client_sdk.report import ACCEPTED, MAX_BATCH_BYTES, MAX_BATCH_REPORTS, encode_batch
from client_sdk.state import State
from client_sdk.transport import Reply, Transport

_LOG = logging.getLogger("sottovoce")
_HEAD_BYTES = 256
_MOST_SPENT = 2**53
_DEVICE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Outcome:
    """How an upload run ended.

    Attributes:
        kind: "done": the queue is empty; "later": try again; "suspended": never again.
        pause_seconds: The least wait that the server asked for.
    """

    kind: Literal["done", "later", "suspended"]
    pause_seconds: float = 0.0


class Uploader:
    """Sends what a state holds.

    Args:
        state: The device's state.
        transport: How bytes travel.
        lifetime_micro: The project's cap, for the ledger.
        refused: Counts reports that the server refused, by reason.
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
        while True:
            batch = self._outstanding() or self._make_batch(now)
            if batch is None:
                return Outcome("done")
            try:
                enrolment = self._enrol()
                if enrolment is not None:
                    return enrolment
                if not self._may_send():
                    return Outcome("later")
                body = batch.body(self._state.device or "")
                reply = self._transport.send(body, batch_mac(self._state.device_key, body))
            except TransportError as error:
                _LOG.debug("upload postponed: %s", error)
                return Outcome("later")
            outcome = self._settle(batch, reply)
            if outcome is not None:
                return outcome

    def _enrol(self) -> Outcome | None:
        """Get an identity unless there is one; return the outcome if that failed."""
        if self._state.device is not None:
            return None
        if not self._may_send():
            return Outcome("later")
        reply = self._transport.enrol()
        if reply.status == 201:
            self._state.enrolled(*_identity(reply))
            return None
        _LOG.debug("enrolment postponed: status %d", reply.status)
        return Outcome("later", reply.retry_after or 0.0)

    def _drop_overdue(self, now: float) -> None:
        with self._state.transaction() as connection:
            overdue = connection.execute(
                "DELETE FROM spool WHERE keep_until < ? RETURNING 1", (now,)
            ).fetchall()
            batches = connection.execute(
                "DELETE FROM batch WHERE keep_until < ? RETURNING reports", (now,)
            ).fetchall()
        count = len(overdue) + sum(reports for (reports,) in batches)
        if count:
            self._refused["too_old"] += count

    def _outstanding(self) -> "_Batch | None":
        with self._state.transaction() as connection:
            row = connection.execute(
                "SELECT sequence, nonce, body, reports FROM batch ORDER BY sequence LIMIT 1"
            ).fetchone()
        return None if row is None else _Batch(*row)

    def _make_batch(self, now: float) -> "_Batch | None":
        with self._state.transaction() as connection:
            rows = connection.execute(
                "SELECT id, keep_until, report FROM spool WHERE not_before <= ? "
                "ORDER BY id LIMIT ?",
                (now, MAX_BATCH_REPORTS),
            ).fetchall()
            taken, size = [], _HEAD_BYTES
            for row in rows:
                size += len(row[2].encode()) + 1
                if size > MAX_BATCH_BYTES:
                    break
                taken.append(row)
            if not taken:
                return None
            batch = _Batch(
                self._state.next_sequence(),
                random_bytes(16).hex(),
                ",".join(report for _, _, report in taken).encode(),
                len(taken),
            )
            connection.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, ?)",
                (
                    batch.sequence,
                    batch.nonce,
                    batch.reports_json,
                    batch.reports,
                    max(keep for _, keep, _ in taken),
                ),
            )
            connection.executemany("DELETE FROM spool WHERE id = ?", [(row[0],) for row in taken])
        return batch

    def _settle(self, batch: "_Batch", reply: Reply) -> Outcome | None:
        """Act on an answer; None means the batch is done and the next may follow."""
        answer = _believed(reply, batch, self._state.device_key)
        if answer is None:
            _LOG.debug("upload postponed: status %d", reply.status)
            return Outcome("later", reply.retry_after or 0.0)
        if answer.verdict == "clone_suspected":
            self._state.suspend("the server saw this device's identity used by another copy")
            return Outcome("suspended")
        with self._state.transaction() as connection:
            connection.execute("DELETE FROM batch WHERE sequence = ?", (batch.sequence,))
            Ledger(connection, self._lifetime_micro).raise_to(answer.spent)
        self._refused.update(reason for reason in answer.reports if reason != ACCEPTED)
        return None


@dataclass(frozen=True)
class _Batch:
    sequence: int
    nonce: str
    reports_json: bytes
    reports: int

    def body(self, device: str) -> bytes:
        return encode_batch(device, self.sequence, self.nonce, [self.reports_json.decode()])


@dataclass(frozen=True)
class _Answer:
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


def _believed(reply: Reply, batch: _Batch, key: bytes) -> _Answer | None:
    """Return the answer if its MAC shows that the server gave it to this batch."""
    verdicts = {200: ("accepted", "duplicate"), 409: ("clone_suspected",)}.get(reply.status)
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

"""Erasing a device's life: all of it goes but a total of what was spent, and nothing is refunded.

`erase` makes the state that of a new device in one transaction: fresh secret, no identity, no
memory, no queue. Two things stay that hold no value: how much was spent, so that nobody can buy
noise by erasing, and which epochs were reported that may still be, so that nobody counts twice;
what is asked once may be for ever.

The server has to erase too, also what it has under ids that the device had before. Until it has
confirmed that, ids and keys stay under the name of a farewell, and nothing else is sent before.
Other processes of the device find out with their next transaction (`State`): what they knew of the
old life they neither store nor send.
"""

import json
import sqlite3
from collections.abc import Callable

from client_sdk import spool
from client_sdk.authentication import KEY_BYTES, erase_mac, erased_mac, macs_match
from client_sdk.epochs import DAY_SECONDS, as_length, end_of
from client_sdk.ledger import Ledger
from client_sdk.new_state import SECRET_BYTES
from client_sdk.pending import keep_until
from client_sdk.randomness import random_bytes
from client_sdk.registry import Registry
from client_sdk.report import ERASED, encode_erasure
from client_sdk.state import (
    ERASED_FROM,
    FAREWELL,
    FORMER,
    SUSPENDED,
    UNSCRUBBED,
    State,
    split_tags,
    successor_tag,
)
from client_sdk.transport import Reply, Transport

LONGEST_GRACE_DAYS = 31
MOST_TAGS = 16
"""Who slept through more erasures than this does not recognize the device any more, and stops."""
_ID_BYTES = 16
_ENTRY_BYTES = _ID_BYTES + KEY_BYTES
_FORGOTTEN = ("spool", "batch", "watched", "memory", "paid", "device", "sqlite_sequence")


def erase(state: State, registry: Registry, now: float) -> tuple[int, int]:
    """Erase a device's life; afterwards `state` is of no use, open another.

    What was deleted may lie in the file until that: the next `State` scrubs it.

    Args:
        state: The device's state.
        registry: Says which of its epochs may still be reported.
        now: Unix time in seconds.

    Returns:
        How many reports were waiting, and what stays spent, in micro-epsilon.

    Raises:
        StateError, NoRandomness: Nothing was erased.
    """
    secret = random_bytes(SECRET_BYTES)
    with state.transaction() as connection:
        connection.execute("PRAGMA secure_delete = ON")
        waiting = spool.queued(connection)
        farewell, suspended = state.get(FAREWELL) or b"", state.get(SUSPENDED)
        farewell += (state.get(FORMER) or b"") + state.identity
        before = [*split_tags(state.get(ERASED_FROM)), successor_tag(state.secret)]
        spent = Ledger(connection, registry.lifetime_micro).collapse()
        _drop_old_marks(connection, registry, now)
        for table in _FORGOTTEN:
            connection.execute(f"DELETE FROM {table}")
        kept = {"secret": secret, ERASED_FROM: b"".join(before[-MOST_TAGS:]), UNSCRUBBED: b"\x01"}
        if farewell:
            kept[FAREWELL] = farewell
        if suspended is not None:
            kept[SUSPENDED] = suspended
        for name, value in kept.items():
            state.put(name, value)
    state.rest()
    return waiting, spent


def _drop_old_marks(connection: sqlite3.Connection, registry: Registry, now: float) -> None:
    """Forget epochs that nobody can report any more, by the clock and the file."""
    marks = connection.execute("SELECT metric, length, epoch FROM marks").fetchall()
    old = [mark for mark in marks if not _may_be_reported(mark, registry, now)]
    connection.executemany("DELETE FROM marks WHERE metric = ? AND length = ? AND epoch = ?", old)


def _may_be_reported(mark: tuple[str, str, int], registry: Registry, now: float) -> bool:
    name, length, epoch = mark
    if length == "once":  # also when it has expired: a later file may prolong it
        return True
    metric = registry.metrics.get(name)
    if metric is None or metric.epoch != length:
        # Unknown here; another version of the file may know it.
        return end_of(as_length(length), epoch) + LONGEST_GRACE_DAYS * DAY_SECONDS > now
    last_of_block = metric.block_of(epoch) * metric.every + metric.every - 1
    return keep_until(metric, last_of_block) > now


def say_farewell(
    state: State, transport: Transport, may_send: Callable[[], bool] = lambda: True
) -> float | None:
    """Have the server erase every earlier life that it has not confirmed to have erased.

    Returns:
        None when nothing is left to erase, else the least pause that the server asked for.

    Raises:
        TransportError: No answer.
        StateError, NoRandomness: The state, or randomness, cannot be used.
    """
    while True:
        waiting = state.get(FAREWELL)
        if not waiting:
            return None
        if not may_send():
            return 0.0
        device, key = waiting[:_ID_BYTES].hex(), waiting[_ID_BYTES:_ENTRY_BYTES]
        nonce = random_bytes(16).hex()
        body = encode_erasure(device, nonce)
        state.rest()  # the network may take long, and a fork may come
        reply = transport.erase(body, erase_mac(key, body))
        if not _confirmed(reply, key, nonce):
            return reply.retry_after or 0.0
        _forget(state, waiting[:_ENTRY_BYTES])


def _forget(state: State, entry: bytes) -> None:
    """Delete an identity that the server has erased."""
    with state.transaction() as connection:
        waiting = state.get(FAREWELL) or b""
        if not waiting.startswith(entry):  # another process was faster
            return
        connection.execute("PRAGMA secure_delete = ON")
        if waiting == entry:
            connection.execute("DELETE FROM device WHERE name = ?", (FAREWELL,))
        else:
            state.put(FAREWELL, waiting[len(entry) :])
        state.put(UNSCRUBBED, b"\x01")
    state.scrub()


def _confirmed(reply: Reply, key: bytes, nonce: str) -> bool:
    if reply.status != 200:
        return False
    try:
        document = json.loads(reply.body)
        return document["verdict"] == ERASED and macs_match(erased_mac(key, nonce), document["mac"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False

"""Rotating keys: each act replaces the key file, and running servers follow it."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from aggregator.administration.record import Record, unrecorded
from aggregator.keyring.key_file import change
from aggregator.keyring.keys import Keys, ring_name
from aggregator.keyring.kinds import AnyKey, ReadKey, WriteKey, fresh_text
from aggregator.keyring.ring import RotationError, activated, named, next_id, retired
from client_sdk.authentication import KEY_BYTES


@dataclass(frozen=True)
class Act:
    """What was done to a key file.

    Attributes:
        keys: The keys since.
        key: The key that it was done to.
        text: What to hand out, of a new write or read key: a read key's is kept nowhere.
    """

    keys: Keys
    key: AnyKey
    text: str | None = field(default=None, repr=False)


def new(
    path: Path,
    kind: type[AnyKey],
    today: date,
    label: str = "",
    record: Record = unrecorded,
) -> Act:
    """Add a key that is pending until `activate`, so that all servers can have it before.

    A read key is active at once: it takes no other's place.

    Args:
        label: Who holds it; for read keys only.
        record: As for all acts here: told before it is done.

    Raises:
        RotationError: A label too many, or none that a read key can have.
        KeysError: The file cannot be used.
    """
    return _added(path, kind, today, label, record, active=not kind.single)


def rotate(path: Path, kind: type[AnyKey], today: date, record: Record = unrecorded) -> Act:
    """Add a key that is active at once; the one that was is retiring.

    Raises:
        RotationError: Read keys do not follow each other.
        KeysError: The file cannot be used.
    """
    if not kind.single:
        raise RotationError(
            f"{kind.kind} keys have a holder each: make one (sottovoce keys new {kind.kind} "
            f"--label WHO) and retire the other (sottovoce keys retire {kind.kind} ID)"
        )
    return _added(path, kind, today, "", record, active=True)


def activate(
    path: Path, kind: type[AnyKey], number: int, today: date, record: Record = unrecorded
) -> Act:
    """Make a pending key the active one."""
    return _moved(
        path,
        kind,
        number,
        lambda ring: activated(kind, ring, number, today),
        lambda: record("key_activated", kind=kind.kind, id=number),
    )


def retire(
    path: Path, kind: type[AnyKey], number: int, today: date, record: Record = unrecorded
) -> Act:
    """End a key's use for good."""
    return _moved(
        path,
        kind,
        number,
        lambda ring: retired(kind, ring, number, today),
        lambda: record("key_retired", kind=kind.kind, id=number),
    )


def _added(
    path: Path, kind: type[AnyKey], today: date, label: str, record: Record, *, active: bool
) -> Act:
    if label and kind is not ReadKey:
        raise RotationError(f"--label is for read keys, a {kind.kind} key has no holder")
    text = fresh_text() if kind in (ReadKey, WriteKey) else None
    secret = secrets.token_bytes(KEY_BYTES) if text is None else text.encode()
    number = 0

    def step(keys: Keys) -> Keys:
        nonlocal number
        ring = keys.ring(kind)
        number = next_id(kind, ring)
        if kind is ReadKey:
            made: AnyKey = ReadKey.held_by(label, number, text or "", today)
        else:
            made = kind.made(number, secret, today)
        grown: tuple[AnyKey, ...] = (*ring, made)
        return _with(keys, kind, activated(kind, grown, number, today) if active else grown)

    def before() -> None:
        state = "active" if active else "pending"
        record(
            "key_made", kind=kind.kind, id=number, state=state, **{"label": label} if label else {}
        )

    keys = change(path, step, before)
    return Act(keys, named(kind, keys.ring(kind), number), text)


def _moved(
    path: Path,
    kind: type[AnyKey],
    number: int,
    step: Callable[[Any], tuple[AnyKey, ...]],
    before: Callable[[], None],
) -> Act:
    keys = change(path, lambda keys: _with(keys, kind, step(keys.ring(kind))), before)
    return Act(keys, named(kind, keys.ring(kind), number))


def _with(keys: Keys, kind: type[AnyKey], ring: tuple[AnyKey, ...]) -> Keys:
    changed: dict[str, Any] = {ring_name(kind): ring}
    return replace(keys, **changed)

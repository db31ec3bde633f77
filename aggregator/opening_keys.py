"""The private keys that open sealed uploads, and the states that each goes through.

    pending   made, on its way to all servers; opens nothing yet
    active    what apps ship now; at most one
    retiring  in apps that are still in use; opens like the active one
    retired   its private key is deleted: what was sealed to it, and recorded on the way, cannot be
              opened by anybody any more

Numbers are never used twice, so a retired key stays in the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal, get_args

from client_sdk.hpke import KEY_BYTES, Recipient
from client_sdk.sealing import MOST_KEY_ID, SealingKey

State = Literal["pending", "active", "retiring", "retired"]


class RotationError(ValueError):
    """A key cannot go into that state; says what to do instead."""


@dataclass(frozen=True)
class OpeningKey:
    """One key of the ring.

    Attributes:
        id: 1..65535.
        state: See above.
        created: Day (UTC) on which it was made.
        since: Day on which it came into its state.
        private: X25519 private key; None once it is retired.
    """

    id: int
    state: State
    created: date
    since: date
    private: bytes | None = field(repr=False)

    @property
    def opens(self) -> bool:
        """Whether uploads sealed to it are taken."""
        return self.state in ("active", "retiring")

    @cached_property
    def recipient(self) -> Recipient:
        """The key, ready for use."""
        if self.private is None:
            raise RotationError(f"key {self.id} is retired: its private key is deleted")
        return Recipient(self.private)

    @property
    def public(self) -> SealingKey:
        """What apps ship."""
        return SealingKey(self.id, self.recipient.public)

    def moved(self, state: State, today: date) -> "OpeningKey":
        """Return the key in another state; without its private key if that is retired."""
        private = None if state == "retired" else self.private
        return replace(self, state=state, since=today, private=private)


Ring = tuple[OpeningKey, ...]


def ring_from(entries: Any) -> Ring:
    """Read the key file's list.

    Raises:
        ValueError, KeyError, TypeError: It is not of that form.
    """
    ring = tuple(_key_from(entry) for entry in entries)
    if len({key.id for key in ring}) != len(ring):
        raise ValueError("id")
    if sum(key.state == "active" for key in ring) > 1:
        raise ValueError("state")
    return ring


def ring_document(ring: Ring) -> list[dict[str, object]]:
    """Return the key file's list."""
    return [
        {
            "id": key.id,
            "state": key.state,
            "created": key.created.isoformat(),
            "since": key.since.isoformat(),
            "private": None if key.private is None else key.private.hex(),
        }
        for key in ring
    ]


def with_new_key(ring: Ring, private: bytes, today: date, *, pending: bool) -> Ring:
    """Add a key; unless it is pending it becomes the active one."""
    number = max((key.id for key in ring), default=0) + 1
    if number > MOST_KEY_ID:
        raise RotationError(f"a key file holds at most {MOST_KEY_ID} sealing keys, ever")
    made = OpeningKey(number, "pending", today, today, private)
    return (*ring, made) if pending else activated((*ring, made), number, today)


def activated(ring: Ring, number: int, today: date) -> Ring:
    """Make a pending key the active one; the one that was is retiring from now on."""
    key = _named(ring, number)
    if key.state != "pending":
        raise RotationError(f"key {number} must be pending to become active, it is {key.state}")
    changed = []
    for other in ring:
        if other.id == number:
            changed.append(other.moved("active", today))
        elif other.state == "active":
            changed.append(other.moved("retiring", today))
        else:
            changed.append(other)
    return tuple(changed)


def retired(ring: Ring, number: int, today: date) -> Ring:
    """Delete a private key that apps do not ship any more."""
    key = _named(ring, number)
    if key.state == "active":
        raise RotationError(
            f"key {number} is the active one: make another first (sottovoce keys rotate sealing)"
        )
    if key.state == "retired":
        raise RotationError(f"key {number} is retired already, since {key.since}")
    return tuple(other.moved("retired", today) if other is key else other for other in ring)


def _named(ring: Sequence[OpeningKey], number: int) -> OpeningKey:
    for key in ring:
        if key.id == number:
            return key
    known = ", ".join(str(key.id) for key in ring) or "none"
    raise RotationError(f"the key file must have a sealing key {number}, it has {known}")


def _key_from(entry: dict[str, Any]) -> OpeningKey:
    if entry.keys() != {"id", "state", "created", "since", "private"}:
        raise ValueError("keys")
    number, state, private = entry["id"], entry["state"], entry["private"]
    if type(number) is not int or not 1 <= number <= MOST_KEY_ID:
        raise ValueError("id")
    if state not in get_args(State) or (private is None) != (state == "retired"):
        raise ValueError("state")
    key = None if private is None else bytes.fromhex(private)
    if key is not None and len(key) != KEY_BYTES:
        raise ValueError("private")
    created, since = (date.fromisoformat(entry[name]) for name in ("created", "since"))
    return OpeningKey(number, state, created, since, key)

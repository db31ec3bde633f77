"""Rings: the keys of one kind, oldest first, and the states that each key goes through.

    pending   made, on its way to all servers
    active    what is handed out now; one a ring, except for read keys, where each has its holder
    retiring  handed out no more; what was made with it before is still good
    retired   good for nothing any more; what need not be kept of it is deleted

A key only ever goes down that list. Numbers are never used twice, so a retired key stays in it.
`aggregator.keyring.kinds` says what a key of each kind may do in each state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

State = Literal["pending", "active", "retiring", "retired"]
MOST_ID = 2**16 - 1
"""Uploads name the key that they are sealed to in two bytes."""


class RotationError(ValueError):
    """A key cannot go into that state; says what to do instead."""


@dataclass(frozen=True)
class Key:
    """One key of a ring; each kind is a subclass.

    Attributes:
        id: 1..65535.
        state: See above.
        created: Day (UTC) on which it was made; None where an old file does not tell.
        since: Day on which it came into its state.
        secret: None once it is deleted.
    """

    kind: ClassVar[str]
    secret_in: ClassVar[frozenset[State]] = frozenset({"pending", "active", "retiring"})
    """States in which the secret is kept."""
    single: ClassVar[bool] = True
    """Whether at most one key is active."""

    id: int
    state: State
    created: date | None
    since: date | None
    secret: bytes | None = field(repr=False)

    @classmethod
    def made(cls, number: int, secret: bytes, today: date | None) -> Self:
        """Return a new key, pending."""
        return cls(number, "pending", today, today, secret)

    def moved(self, state: State, today: date) -> Self:
        """Return the key in another state; without its secret where that is deleted."""
        secret = self.secret if state in self.secret_in else None
        return replace(self, state=state, since=today, secret=secret)

    def document(self) -> dict[str, object]:
        """Return the key file's entry."""
        days = {"created": self.created, "since": self.since}
        return {
            "id": self.id,
            "state": self.state,
            **{name: None if day is None else day.isoformat() for name, day in days.items()},
            "secret": None if self.secret is None else self.written(self.secret),
        }

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Self:
        """Read an entry of the key file.

        Raises:
            ValueError, KeyError, TypeError: It is not of that form.
        """
        number, state, secret = entry["id"], entry["state"], entry["secret"]
        if type(number) is not int or not 1 <= number <= MOST_ID:
            raise ValueError("id")
        if state not in get_args(State) or (secret is not None) != (state in cls.secret_in):
            raise ValueError("state")
        created, since = (
            None if entry[name] is None else date.fromisoformat(entry[name])
            for name in ("created", "since")
        )
        held = None if secret is None else cls.parsed(secret)
        key = cls(number, state, created, since, held, **cls.further(entry))
        if entry.keys() != key.document().keys():
            raise ValueError("keys")
        return key

    @classmethod
    def further(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Read what a key of this kind has beside the attributes of all."""
        return {}

    @staticmethod
    def written(secret: bytes) -> str:
        """Return a secret as the key file has it."""
        return secret.hex()

    @staticmethod
    def parsed(text: str) -> bytes:
        """Read a secret of the key file: 32 bytes as hex, unless its kind says otherwise."""
        secret = bytes.fromhex(text)
        if len(secret) != 32:
            raise ValueError("secret")
        return secret


K = TypeVar("K", bound=Key)


def ring_from(kind: type[K], entries: Iterable[Mapping[str, Any]]) -> tuple[K, ...]:
    """Read the key file's list of one kind.

    Raises:
        ValueError, KeyError, TypeError: It is not of that form.
    """
    ring = tuple(kind.read(entry) for entry in entries)
    if len({key.id for key in ring}) != len(ring):
        raise ValueError("id")
    if kind.single and sum(key.state == "active" for key in ring) > 1:
        raise ValueError("state")
    return ring


def next_id(kind: type[Key], ring: Sequence[Key]) -> int:
    """Return the number of the next key."""
    number = max((key.id for key in ring), default=0) + 1
    if number > MOST_ID:
        raise RotationError(f"a key file holds at most {MOST_ID} {kind.kind} keys, ever")
    return number


def activated(kind: type[K], ring: Sequence[K], number: int, today: date) -> tuple[K, ...]:
    """Make a pending key active; the one that was, if there may be but one, is retiring then."""
    key = named(kind, ring, number)
    if key.state != "pending":
        raise RotationError(
            f"{kind.kind} key {number} must be pending to become active, it is {key.state}: "
            f"make another (sottovoce keys new {kind.kind})"
        )
    changed = []
    for other in ring:
        if other is key:
            changed.append(other.moved("active", today))
        elif kind.single and other.state == "active":
            changed.append(other.moved("retiring", today))
        else:
            changed.append(other)
    return tuple(changed)


def retired(kind: type[K], ring: Sequence[K], number: int, today: date) -> tuple[K, ...]:
    """End a key's use for good."""
    key = named(kind, ring, number)
    if kind.single and key.state == "active":
        raise RotationError(
            f"{kind.kind} key {number} is the active one: make another first "
            f"(sottovoce keys rotate {kind.kind})"
        )
    if key.state == "retired":
        raise RotationError(f"{kind.kind} key {number} is retired already, since {key.since}")
    return tuple(other.moved("retired", today) if other is key else other for other in ring)


def named(kind: type[K], ring: Sequence[K], number: int) -> K:
    """Return the key of a number.

    Raises:
        RotationError: There is none.
    """
    for key in ring:
        if key.id == number:
            return key
    known = ", ".join(str(key.id) for key in ring) or "none"
    raise RotationError(f"the key file must have a {kind.kind} key {number}, it has {known}")

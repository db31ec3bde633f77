"""Invitations to surveys: which are unused, and which were used for which blinded message.

Nothing here tells when or in which order: members of sorted sets of equal scores lie in the order
of their bytes, also in the store's files, while those of its small sets and hashes lie in the order
they came. And nothing here occurs elsewhere in the store: what a blinded message became, nobody
who signs it knows.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from aggregator.connection import Connection
from aggregator.store.generation import Generation
from aggregator.store.layout import (
    INVITATIONS,
    Layout,
    unused_invitations,
    used_invitations,
)

Use = Literal["admitted", "unknown", "used"]
_USES: dict[int, Use] = {1: "admitted", 0: "unknown", -1: "used"}
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Figures:
    """How many invitations a survey has had; they stay when the invitations are forgotten.

    Attributes:
        made: Ever.
        used: Ever.
        unused: That may still be used.
    """

    made: int
    used: int
    unused: int


class Invitations:
    """The invitations of a store.

    Args:
        connection: To the store.
        layout: Of the store.
        generation: Tells a store that a backup has put back.
    """

    def __init__(self, connection: Connection, layout: Layout, generation: Generation) -> None:
        self._call = connection.call
        self._layout = layout
        self._generation = generation
        self._invite = connection.script("invite", replicated=True)
        self._admit = connection.script("admit", replicated=True)

    def open(self, survey: str, sealed_key: bytes, last_day: date) -> bytes:
        """Begin a survey or see `prolong`, and return the key it has: the first that anybody gave.

        Args:
            survey: Its name.
            sealed_key: What no reader of the store understands.
            last_day: On which it may be answered (UTC).
        """
        self._call("HSETNX", INVITATIONS, f"{survey} key", sealed_key)
        self.prolong(survey, last_day)
        found: bytes = self._call("HGET", INVITATIONS, f"{survey} key")
        return found

    def prolong(self, survey: str, last_day: date) -> None:
        """Keep what a survey has here until a later last day; with an earlier one nothing changes.

        Nor where nobody is invited, or all is forgotten.
        """
        fields = (f"{survey} key", f"{survey} last_day")
        key, known = self._call("HMGET", INVITATIONS, *fields)
        if key is None or (known is not None and date.fromisoformat(known.decode()) >= last_day):
            return
        self._call("HSET", INVITATIONS, f"{survey} last_day", last_day.isoformat())

    def key(self, survey: str, today: date) -> bytes | None:
        """Return a survey's sealed key, None if there is no such survey or it is over."""
        fields = (f"{survey} key", f"{survey} last_day")
        key, last_day = self._call("HMGET", INVITATIONS, *fields)
        if key is None or last_day is None or date.fromisoformat(last_day.decode()) < today:
            return None
        found: bytes = key
        return found

    def add(self, survey: str, tokens: Sequence[str]) -> int:
        """Add invitations, and return how many are new."""
        digests = [self._digest(survey, "invitation", token) for token in tokens]
        keys = (unused_invitations(survey), INVITATIONS)
        return int(self._invite(keys, (f"{survey} made", *digests)))

    def use(self, survey: str, token: str, blinded: str) -> Use:
        """Use an invitation up in one atomic step, unless it was; repeating it is safe.

        Raises:
            StoreUnavailable: Also if a backup has put the store back.
        """
        self._generation.reached(self._layout.all_shards[0])
        invitation = self._digest(survey, "invitation", token)
        message = self._digest(survey, "blinded", blinded)
        keys = (unused_invitations(survey), used_invitations(survey), INVITATIONS)
        return _USES[int(self._admit(keys, (invitation, message, f"{survey} used")))]

    def figures(self, survey: str) -> Figures:
        """Return how many there are."""
        made, used = self._call("HMGET", INVITATIONS, f"{survey} made", f"{survey} used")
        unused = self._call("ZCARD", unused_invitations(survey))
        return Figures(int(made or 0), int(used or 0), int(unused))

    def forget_unused(self, survey: str) -> int:
        """Delete the invitations that were not used, and return how many."""
        return int(self._call("ZREMRANGEBYRANK", unused_invitations(survey), 0, -1))

    def forget(self, survey: str) -> None:
        """Delete all of a survey but how many there were; its admissions are worth nothing then."""
        self._call("HDEL", INVITATIONS, f"{survey} key", f"{survey} last_day")
        for key in (unused_invitations(survey), used_invitations(survey)):
            self._call("ZREMRANGEBYRANK", key, 0, -1)

    def forget_over(self, today: date) -> None:
        """Forget the surveys whose last day has passed."""
        for field, value in self._call("HGETALL", INVITATIONS).items():
            survey, _, what = field.decode().partition(" ")
            if what == "last_day" and date.fromisoformat(value.decode()) < today:
                self.forget(survey)

    def _digest(self, survey: str, what: str, text: str) -> bytes:
        """Keyed, so that links alone do not tell a thief of the store who has answered."""
        message = f"sottovoce survey {what}\x00{survey}\x00{text}".encode()
        return hmac.digest(self._layout.pseudonym_key, message, "sha256")[:_DIGEST_BYTES]

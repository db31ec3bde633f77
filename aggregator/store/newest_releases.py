"""What the newest release of each metric says, kept in the store for whoever watches."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self

from aggregator.connection import Connection
from aggregator.store.layout import NEWEST_RELEASES


@dataclass(frozen=True)
class NewestRelease:
    """One metric and epoch, over all versions; without numbers if all of them are withheld.

    Attributes:
        metric: Name.
        epoch: ISO 8601 name.
        last_day: Last UTC date of the epoch, ISO 8601: the later, the newer.
        n: Reports; None: withheld.
        halfwidth: Half the width of the widest interval, in shares of 1, of a mean in parts of its
            range; None: there is none.
        popcount_z: How many standard errors the mean number of bits is from what honest devices
            have; None where that says nothing.
        alarmed: Whether anything about it is suspicious.
    """

    metric: str
    epoch: str
    last_day: str
    n: int | None
    halfwidth: float | None
    popcount_z: float | None
    alarmed: bool

    def text(self) -> str:
        """Return what the store keeps."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | bytes) -> Self | None:
        """Read what the store keeps; None if a version with other fields has written it."""
        kept = json.loads(text)
        return cls(**kept) if kept.keys() == cls.__dataclass_fields__.keys() else None


class NewestReleases:
    """Reads and writes what newest releases say."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call
        self._newest = connection.script("newest")

    def note(self, releases: Iterable[NewestRelease]) -> None:
        """Keep each, unless something is kept of an epoch of its metric that ended later."""
        each = [(found.metric, found.last_day, found.text()) for found in releases]
        if each:
            self._newest((NEWEST_RELEASES,), [word for words in each for word in words])

    def all(self) -> dict[str, NewestRelease]:
        """Return what is kept, by metric."""
        kept = self._call("HGETALL", NEWEST_RELEASES).values()
        found = (NewestRelease.read(text.partition(b" ")[2]) for text in kept)
        return {each.metric: each for each in found if each is not None}

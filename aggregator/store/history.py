"""The last day of the store's counters, a note a minute: what rates and charts are made of.

Whoever folds notes it. The store keeps a ring of MINUTES notes; writing one again changes nothing,
so several workers, and calls that are repeated, do no harm.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from aggregator.connection import Connection
from aggregator.store.figures import Figures
from aggregator.store.layout import HISTORY
from aggregator.store.verdicts import in_words
from client_sdk.report import ACCEPTED, REFUSAL_REASONS

MINUTES = 1500
"""A day and an hour."""
LONGEST_STEP_SECONDS = 180.0
"""Between two notes that are further apart nobody noted anything: what happened when is unknown."""


@dataclass(frozen=True)
class Note:
    """What the store told at one moment.

    Attributes:
        at: Unix time in seconds.
        counters: See `Figures.counters`.
        lag_seconds: Age of the oldest report that was in no tally.
        stream_bytes: Memory of reports that waited.
        used_bytes: Memory of the store.
        enrolled: Devices ever enrolled.
    """

    at: float
    counters: Mapping[str, int]
    lag_seconds: float
    stream_bytes: int
    used_bytes: int
    enrolled: int


@dataclass(frozen=True)
class Step:
    """What happened between two neighbouring notes, per second.

    Attributes:
        begin: Unix time of the first note.
        end: Of the second.
        accepted: Reports a second; None: unknown. Nobody noted anything, or counters went down
            because the store was restored.
        batches: Uploads a second.
        refused: Reports and uploads a second, by reason; empty if unknown.
    """

    begin: float
    end: float
    accepted: float | None
    batches: float | None
    refused: Mapping[str, float]


class History:
    """Reads and writes the notes."""

    def __init__(self, connection: Connection, figures: Figures) -> None:
        self._call = connection.call
        self._figures = figures

    def note(self, now: float) -> None:
        """Note this minute.

        Args:
            now: Unix time in seconds.
        """
        shards = self._figures.shards()
        note = Note(
            now,
            dict(in_words(shard.counters for shard in shards)),
            max(shard.oldest_seconds for shard in shards),
            sum(shard.stream_bytes for shard in shards),
            self._figures.memory().used_bytes,
            self._figures.enrolled(),
        )
        self._call("HSET", HISTORY, int(now // 60) % MINUTES, json.dumps(asdict(note)))

    def since(self, begin: float) -> list[Note]:
        """Return the notes from a moment on, Unix time, oldest first."""
        found = [json.loads(text) for text in self._call("HVALS", HISTORY)]
        # Of a version with other fields, before an update or after going back, nothing is known.
        notes = [Note(**each) for each in found if each.keys() == Note.__dataclass_fields__.keys()]
        return sorted((note for note in notes if note.at >= begin), key=lambda note: note.at)


def steps(notes: Sequence[Note]) -> Iterator[Step]:
    """Yield what happened between each two neighbours.

    Args:
        notes: Oldest first.
    """
    for before, after in pairwise(notes):
        passed = after.at - before.at
        grown = {
            name: after.counters.get(name, 0) - before.counters.get(name, 0)
            for name in (ACCEPTED, "batches", "clones", *REFUSAL_REASONS)
        }
        if passed > LONGEST_STEP_SECONDS or passed <= 0 or min(grown.values()) < 0:
            yield Step(before.at, after.at, None, None, {})
            continue
        per_second = {name: number / passed for name, number in grown.items()}
        refused = {name: per_second[name] for name in REFUSAL_REASONS}
        yield Step(
            before.at,
            after.at,
            per_second[ACCEPTED],
            per_second["batches"],
            refused | {"clone_suspected": per_second["clones"]},
        )

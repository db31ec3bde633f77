"""Everything that the server keeps: ledger, marks, streams, tallies, registry versions."""

import struct
from collections.abc import Sequence
from typing import cast

from aggregator.batch import Answer, Batch, Candidate, Verdict
from aggregator.connection import Connection, StoreUnavailable
from aggregator.recovery.tombstones import FILE_NAME, Tombstones
from aggregator.recovery.witness import Witness
from aggregator.settings import ServerSettings
from aggregator.store import admission, migrations
from aggregator.store.accounts import Accounts
from aggregator.store.erasures import Erasures
from aggregator.store.figures import Figures
from aggregator.store.generation import AWAITS_RECOVERY, Generation
from aggregator.store.history import History
from aggregator.store.invitations import Invitations
from aggregator.store.layout import REWRITING, Layout
from aggregator.store.log_heads import LogHeads
from aggregator.store.recovery import Recovery
from aggregator.store.registries import Registries
from aggregator.store.tallies import Tallies
from aggregator.store.verdicts import LETTERS, MEMOIZED, WORDS
from aggregator.store.vigil import Vigil
from aggregator.store.windows import Windows
from client_sdk.report import ACCEPTED

_HEAD = struct.Struct(">HIQH")


def _packed(candidates: Sequence[Candidate]) -> list[str | bytes | int]:
    """Put candidates into few arguments, as lua/intake.lua reads them."""
    names = [candidate.group.name for candidate in candidates]
    places: dict[str, int] = {}
    heads = [
        _HEAD.pack(places.setdefault(group.series, len(places) + 1), group.epoch, charge, len(row))
        for group, row, charge, _ in candidates
    ]
    rows = b"".join([candidate.row for candidate in candidates])
    order = bytes(sorted(range(len(names)), key=names.__getitem__))
    return [" ".join(names), b"".join(heads), rows, order, *places]


class Store:
    """Everything that the server keeps, under the pseudonyms of one key.

    Every method but the constructors raises StoreUnavailable when the store cannot be reached or
    cannot serve, and may then be called again. Nothing is asked of the store when this is made;
    `check` does that, once at start.

    Attributes:
        registries: The registry versions.
        tallies: Streams, tallies, and the closing of epochs.
        erasures: Devices that were erased.
        accounts: Reads the ledger.
        figures: What operators watch.
        history: Their last day.
        log_heads: How far the administrators' logs have come.
        windows: Counters of rate limits.
        invitations: To surveys.
        recovery: For a store that was restored from a backup; see `aggregator.recovery.restore`.
    """

    def __init__(self, connection: Connection, layout: Layout, witness: Witness) -> None:
        self._connection = connection
        self._call = connection.call
        self._layout = layout
        self._shards = layout.all_shards
        self._intake = connection.script("intake", replicated=True)
        self._generation = Generation(connection, layout, witness)
        self._vigil = Vigil(connection)
        self.registries = Registries(connection)
        self.tallies = Tallies(connection, layout)
        self.erasures = Erasures(
            connection, layout, self._generation, Tombstones(witness.path.with_name(FILE_NAME))
        )
        self.accounts = Accounts(connection, layout)
        self.figures = Figures(connection, layout, self.accounts)
        self.history = History(connection, self.figures)
        self.log_heads = LogHeads(connection)
        self.windows = Windows(connection)
        self.invitations = Invitations(connection, layout, self._generation)
        self.recovery = Recovery(connection, layout, self._generation)

    @classmethod
    def connect(cls, settings: ServerSettings, pseudonym_key: bytes) -> "Store":
        """Make a store from settings.

        Raises:
            SettingsError: No store is set.
        """
        url = settings.required_redis_url()
        layout = Layout(settings.shards, settings.buckets, pseudonym_key)
        witness = Witness.beside(settings.keys_file)
        connection = Connection(url, settings.store_timeout_seconds, settings.wait_replicas)
        return cls(connection, layout, witness)

    @property
    def shards(self) -> range:
        """The shards' numbers."""
        return range(self._layout.shards)

    def check(self) -> None:
        """Make sure that this store may be used, and claim it if it is new.

        Raises:
            StoreRefused: See `admission.check` and `Generation.check`.
        """
        self.check_shape()
        self._generation.check()

    def migrate(self) -> None:
        """Bring a store of an older version up to date, see `migrations`; then `check` passes."""
        admission.check_layout(self._connection, self._layout)
        migrations.migrate(self._connection, self._layout)

    def check_shape(self) -> None:
        """Make sure that this is such a store, restored or not; see `admission`."""
        admission.check(self._connection, self._layout)

    def warn_of_settings(self) -> None:
        """Log what makes this store larger than it must be; see `admission`."""
        admission.warn_of_large_encodings(self._connection, self._layout)

    def check_writable(self) -> None:
        """Make sure that the store takes writes."""
        admission.check_writable(self._connection, self._layout)

    def check_policy(self) -> None:
        """Make sure that the store keeps what it takes."""
        admission.check_policy(self._connection)

    def check_schema(self) -> None:
        """Make sure that no other version has taken the store over."""
        migrations.require_newest(self._connection)

    def check_generation(self) -> None:
        """Make sure that the store was not restored from a backup."""
        self._generation.check()

    def raise_generation(self, now: float, *, spacing_seconds: float = 0.0) -> None:
        """Raise the number by which an old backup is noticed.

        Args:
            now: Unix time in seconds.
            spacing_seconds: Nothing is raised if that was done less than this before.

        Raises:
            StoreRefused: This is an old backup.
        """
        self._generation.raise_by_one(now, spacing_seconds)

    def generation_raised_at(self) -> int:
        """Return the Unix time since which every shard's generation was raised, 0 if not all were.

        The fold worker raises them on its way, and each server at its start.
        """
        return min(self._generation.last_raised(shard) for shard in self.shards)

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def apply(self, batch: Batch, cap: int) -> Answer:
        """Take a batch in one atomic step.

        Args:
            batch: Checked as far as it can be without the store.
            cap: The most micro-epsilon that a device may have spent.

        Raises:
            StoreUnavailable: Whether it was taken is unknown; sending it again is safe.
            StoreRefused: The store must not be used as it is now; nothing was taken.
        """
        self._vigil.keep()
        place = self._layout.place(batch.device)
        shard = self._shards[place.shard]
        keys = [
            shard.key("stream"),
            shard.in_bucket("ledger", place.bucket),
            shard.in_bucket("answers", place.bucket),
            shard.key("watermarks"),
            shard.key("counters"),
            shard.key("life"),
            shard.in_bucket("erased", place.bucket),
        ]
        codes = ""
        candidates: list[Candidate] = []
        for verdict in batch.verdicts:
            if not isinstance(verdict, Candidate):
                codes += LETTERS[verdict]
                continue
            candidates.append(verdict)
            keys.append(shard.mark(verdict.group.series, verdict.group.epoch, place.bucket))
            if verdict.memo is None:
                codes += LETTERS[ACCEPTED]
            else:
                codes += MEMOIZED
                keys.append(shard.memo(verdict.memo, place.bucket))
        head = (place.pseudonym, place.member, batch.sequence, batch.digest, cap, codes)
        required = self._generation.required()
        found = self._intake(keys, [*head, required, *_packed(candidates)])
        verdict_word, spent, letters, generation = found
        if verdict_word == b"restored":
            raise StoreUnavailable(AWAITS_RECOVERY)
        self._generation.note(generation)
        words = tuple(WORDS[letter] for letter in letters.decode())
        return Answer(cast(Verdict, verdict_word.decode()), spent, words)

    def rewrite_log(self, interval_seconds: int) -> str | None:
        """Have the append-only file rewritten unless that was asked for within some seconds.

        Until then the file holds what was deleted. Returns the store's refusal in words, if it
        does refuse.
        """
        if not self._call("SET", REWRITING, 1, "NX", "EX", interval_seconds):
            return None
        return self._connection.refusal("BGREWRITEAOF")

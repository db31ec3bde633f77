"""Everything that the server keeps: ledger, marks, streams, tallies, registry versions."""

import hashlib
import logging
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from aggregator.batch import Answer, Batch, Candidate, Verdict
from aggregator.connection import Connection, StoreRefused, StoreUnavailable
from aggregator.group import Group, parse_group, series_of
from aggregator.ledger import Record
from aggregator.recovery.tombstones import FILE_NAME, Tombstones
from aggregator.recovery.witness import Witness
from aggregator.settings import ServerSettings
from aggregator.store import admission, migrations
from aggregator.store.accounts import Accounts
from aggregator.store.figures import Figures
from aggregator.store.generation import Generation
from aggregator.store.layout import REGISTRIES, REGISTRY_ORDER, REWRITING, Layout, Place, Shard
from aggregator.store.log_heads import LogHeads
from aggregator.store.recovery import Recovery
from aggregator.store.vigil import Vigil
from aggregator.store.windows import Windows
from aggregator.tally import Tally, unpack_counts
from client_sdk.metric import Metric
from client_sdk.report import ACCEPTED

_log = logging.getLogger(__name__)

_START = b"0-0"

_LETTERS = {
    ACCEPTED: "a",
    "unknown_metric": "m",
    "unknown_fingerprint": "f",
    "epoch_closed": "c",
    "too_early": "e",
    "already_reported": "r",
    "budget_exhausted": "b",
}
"""Verdict codes, as lua/intake.lua writes them."""
_MEMOIZED = "o"
"""Instead of "a", for a candidate that is charged once in a device's life."""
_WORDS = {letter: word for word, letter in _LETTERS.items()}
_AWAITS_RECOVERY = "the store was put back by a backup and awaits its recovery"
_HEAD = struct.Struct(">HIQH")
_EVENTS = (
    "batches",
    "duplicates",
    "clones",
    "gaps",
    "folded",
    "late",
    "erasures",
    "commits",
    "lost",
    "microseconds",
)


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A piece of a shard's stream.

    Attributes:
        cursor: Id of the last folded entry when this was read.
        last: Id of the last entry of the piece, `cursor` if there is none.
        entries: Names of groups, separated by a space, and their rows, one entry per upload.
        frozen: Per series the last epoch whose tallies are final.
    """

    cursor: str
    last: str
    entries: Sequence[tuple[bytes, bytes]]
    frozen: Mapping[str, int]


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
        accounts: Reads the ledger.
        figures: What operators watch.
        log_heads: How far the administrators' logs have come.
        windows: Counters of rate limits.
        recovery: For a store that was restored from a backup; see `aggregator.recovery.restore`.
    """

    def __init__(self, connection: Connection, layout: Layout, witness: Witness) -> None:
        self._connection = connection
        self._call = connection.call
        self._layout = layout
        self._shards = layout.all_shards
        self._erase = connection.script("erase", replicated=True)
        self._intake = connection.script("intake", replicated=True)
        self._fold = connection.script("fold")
        self._close = connection.script("close", replicated=True)
        self._register = connection.script("register")
        self._generation = Generation(connection, layout, witness)
        self._tombstones = Tombstones(witness.path.with_name(FILE_NAME))
        self._vigil = Vigil(connection)
        self.accounts = Accounts(connection, layout)
        self.figures = Figures(connection, layout)
        self.log_heads = LogHeads(connection)
        self.windows = Windows(connection)
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

    # Registry versions

    def register(self, digest: str, text: str) -> bool:
        """Keep a registry version for ever; say whether it is new."""
        return bool(self._register((REGISTRIES, REGISTRY_ORDER), (digest, text)))

    def registries(self) -> list[str]:
        """Return the texts of all versions, in the order they came.

        Raises:
            StoreRefused: One is not the text that was registered.
        """
        order = self._call("LRANGE", REGISTRY_ORDER, 0, -1)
        texts = self._call("HMGET", REGISTRIES, *order) if order else []
        for digest, text in zip(order, texts, strict=True):
            if text is None or hashlib.sha256(text).hexdigest() != digest.decode():
                raise StoreRefused(
                    f"registry version {digest.decode()[:16]} was changed in the store after it "
                    "was registered: versions are only ever added; put its text back"
                )
        return [text.decode() for text in texts]

    def registry_count(self) -> int:
        """Return the number of versions."""
        return int(self._call("LLEN", REGISTRY_ORDER))

    # Intake

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
                codes += _LETTERS[verdict]
                continue
            candidates.append(verdict)
            keys.append(shard.mark(verdict.group.series, verdict.group.epoch, place.bucket))
            if verdict.memo is None:
                codes += _LETTERS[ACCEPTED]
            else:
                codes += _MEMOIZED
                keys.append(shard.memo(verdict.memo, place.bucket))
        head = (place.pseudonym, place.member, batch.sequence, batch.digest, cap, codes)
        required = self._generation.required()
        found = self._intake(keys, [*head, required, *_packed(candidates)])
        verdict_word, spent, letters, generation = found
        if verdict_word == b"restored":
            raise StoreUnavailable(_AWAITS_RECOVERY)
        self._note(generation)
        words = tuple(_WORDS[letter] for letter in letters.decode())
        return Answer(cast(Verdict, verdict_word.decode()), spent, words)

    def _note(self, generation: int) -> None:
        try:
            self._generation.saw(generation)
        except StoreRefused as error:
            # The batch is taken; this process remembers the generation, and starts check the file.
            _log.warning("%s", error)

    # Erasure

    def place(self, device: str) -> Place:
        """Return where a device's record lies, if there is one."""
        return self._layout.place(device)

    def frozen(self, shard: int) -> dict[str, int]:
        """Return per series the last epoch of which a shard holds no marks any more."""
        kept = self._call("HGETALL", self._shards[shard].key("frozen"))
        return {series.decode(): int(epoch) for series, epoch in kept.items()}

    def erase(
        self,
        place: Place,
        marks: Sequence[tuple[str, int]],
        memos: Sequence[str],
        *,
        restored: bool = False,
    ) -> bool:
        """Erase a device in one atomic step, and remember for ever that nothing is to be taken.

        Args:
            place: Of the device.
            marks: Series and epoch of the marks that it may have.
            memos: Channel hashes of memoized metrics.
            restored: Whether this is for a store that has forgotten an erasure.

        Returns:
            Whether there was a record of it.

        Raises:
            StoreRefused: The erasure could not be noted where no backup takes it back.
        """
        shard, required = self._shards[place.shard], 0
        erased = shard.in_bucket("erased", place.bucket)
        if not restored:
            required = self._current(shard)
            if not self._call("SISMEMBER", erased, place.member):
                # First of all: once the store has erased, the device may have been told so.
                self._tombstones.note(place)
        keys = [
            shard.key("life"),
            shard.in_bucket("ledger", place.bucket),
            shard.in_bucket("answers", place.bucket),
            erased,
            shard.key("counters"),
            *(shard.mark(series, epoch, place.bucket) for series, epoch in marks),
            *(shard.memo(channel, place.bucket) for channel in memos),
        ]
        new, known, generation = self._erase(keys, (place.pseudonym, place.member, required))
        if new < 0:
            raise StoreUnavailable(_AWAITS_RECOVERY)
        if not restored:
            self._note(generation)
        return bool(known)

    def is_erased(self, device: str) -> bool:
        """Say whether a device was erased; a store that was put back by a backup cannot say."""
        place = self._layout.place(device)
        shard = self._shards[place.shard]
        self._current(shard)
        erased = shard.in_bucket("erased", place.bucket)
        return bool(self._call("SISMEMBER", erased, place.member))

    def _current(self, shard: Shard) -> int:
        """Return the generation that a shard must have reached, and has."""
        required = self._generation.required()
        if int(self._call("HGET", shard.key("life"), "generation") or 0) < required:
            raise StoreUnavailable(_AWAITS_RECOVERY)
        return required

    def forgotten_erasures(self) -> list[Place]:
        """Return where devices lie that were erased and of which the store does not know that.

        Raises:
            StoreRefused: The file of erasures cannot be read.
        """
        buckets: defaultdict[tuple[int, int], list[Place]] = defaultdict(list)
        for place in self._tombstones.places():
            if place.shard < self._layout.shards:
                buckets[place.shard, place.bucket].append(place)
        forgotten: list[Place] = []
        for (shard, bucket), places in buckets.items():
            key = self._shards[shard].in_bucket("erased", bucket)
            known = self._call("SMISMEMBER", key, *(place.member for place in places))
            forgotten += (
                place for place, is_known in zip(places, known, strict=True) if not is_known
            )
        return forgotten

    def rewrite_log(self, interval_seconds: int) -> str | None:
        """Have the append-only file rewritten unless that was asked for within some seconds.

        Until then the file holds what was deleted. Returns the store's refusal in words, if it
        does refuse.
        """
        if not self._call("SET", REWRITING, 1, "NX", "EX", interval_seconds):
            return None
        return self._connection.refusal("BGREWRITEAOF")

    # Fold

    def unfolded(self, shard: int, most: int) -> Unfolded:
        """Read the next entries of a shard's stream, at most `most`."""
        home = self._shards[shard]
        # Cursor first: if anybody folds after this, the commit will find it changed.
        cursor = self.cursor(shard)
        found = self._call("XRANGE", home.key("stream"), f"({cursor}", "+", "COUNT", most)
        frozen = self.frozen(shard) if found else {}
        return Unfolded(
            cursor,
            found[-1][0].decode() if found else cursor,
            [item for _, fields in found for item in fields.items()],
            frozen,
        )

    def cursor(self, shard: int) -> str:
        """Return the id of the last folded entry."""
        cursor: bytes = self._call("GET", self._shards[shard].key("cursor")) or _START
        return cursor.decode()

    def cohort_counts(self, shard: int, group: Group, cohorts: Sequence[int]) -> list[bytes | None]:
        """Read part of a shard's tally, packed, None for cohorts without reports."""
        name = self._shards[shard].tally(group.name)
        values: list[bytes | None] = self._call("HMGET", name, *cohorts)
        return values

    def popcounts_of(self, shard: int, groups: Sequence[Group]) -> list[bytes | None]:
        """Read a shard's popcounts of some groups, packed, None for groups without any."""
        name = self._shards[shard].key("popcounts")
        names = [group.name for group in groups]
        values: list[bytes | None] = self._call("HMGET", name, *names) if names else []
        return values

    def commit(
        self,
        shard: int,
        read: Unfolded,
        changes: Mapping[Group, Mapping[int, bytes]],
        popcounts: Mapping[Group, bytes],
        folded: Mapping[Group, int],
        late: int,
        seconds: float,
    ) -> bool:
        """Write whole new tallies and move the cursor past what was read, all or nothing.

        Args:
            read: What the tallies were computed from.
            changes: Per group the touched cohorts and their packed counts.
            popcounts: Per touched group of bit vectors its packed popcounts.
            folded: Per touched group the reports among `read` that were counted.
            late: Reports among `read` that no longer could be.
            seconds: What it took to compute this.

        Returns:
            False if somebody else folded or froze meanwhile, or the store has lost what was read:
            read again.
        """
        home = self._shards[shard]
        names = ("cursor", "stream", "frozen", "counters", "groups", "popcounts", "reports")
        keys = [home.key(name) for name in names]
        keys += [home.tally(group.name) for group in changes]
        milliseconds, _, number = read.last.partition("-")
        kept_from = f"{milliseconds}-{int(number) + 1}"
        total, took = sum(folded.values()), round(seconds * 1e6)
        arguments: list[str | bytes | int] = [read.cursor, read.last, kept_from, total, late, took]
        arguments += [len(changes), *(group.name for group in changes)]
        arguments += [popcounts.get(group, b"") for group in changes]
        arguments += [folded[group] for group in changes]
        for index, cohorts in enumerate(changes.values(), start=1):
            for cohort, packed in cohorts.items():
                arguments += (index, cohort, packed)
        return bool(self._fold(keys, arguments) == b"committed")

    # Closing

    def close_intake(self, shard: int, series: str, epoch: int) -> str:
        """Refuse reports up to `epoch` from now on; return the last stream id before that."""
        return self._raise(self._shards[shard], "watermarks", series, epoch)

    def freeze(self, shard: int, series: str, epoch: int) -> None:
        """Refuse changes of tallies up to `epoch`, and drop its marks: the watermark stands."""
        home = self._shards[shard]
        before = self._frozen_until(home, series)
        # Marks go before the epoch is called frozen, or a crash between would keep them for ever.
        if before < epoch:
            ending = {group.epoch for group in self._groups(home) if group.series == series}
            for past in sorted(ending):
                if before < past <= epoch:
                    buckets = range(self._layout.buckets)
                    self._call("UNLINK", *(home.mark(series, past, bucket) for bucket in buckets))
        # Also again: replicas may lack it.
        self._raise(home, "frozen", series, epoch)

    def half_closed(self) -> dict[str, int]:
        """Return per series the last closed epoch, for those that not every shard knows as closed.

        A closing is under way or died, or a failover has lost what a shard knew.
        """
        known = [
            {series: int(epoch) for series, epoch in self._call("HGETALL", key).items()}
            for shard in self._shards
            for key in (shard.key("watermarks"), shard.key("frozen"))
        ]
        highest = {
            series: max(epochs.get(series, -1) for epochs in known)
            for series in {series for epochs in known for series in epochs}
        }
        return {
            series.decode(): epoch
            for series, epoch in highest.items()
            if any(epochs.get(series, -1) < epoch for epochs in known)
        }

    def is_closed(self, metric: Metric, epoch: int) -> bool:
        """Say whether the epoch's tallies are final in every shard."""
        series = series_of(metric)
        return all(self._frozen_until(shard, series) >= epoch for shard in self._shards)

    def _raise(self, shard: Shard, name: str, series: str, epoch: int) -> str:
        keys = (shard.key(name), shard.key("stream"))
        last: bytes = self._close(keys, (series, epoch))
        return last.decode()

    def _frozen_until(self, shard: Shard, series: str) -> int:
        return int(self._call("HGET", shard.key("frozen"), series) or -1)

    # Tallies

    def tally(self, metric: Metric, epoch: int) -> Tally:
        """Return the sum of all shards' tallies; final only once the epoch is closed."""
        name = Group.of(metric, epoch).name
        total = Tally.zero(metric.mechanism)
        for shard in self._shards:
            for cohort, value in self._call("HGETALL", shard.tally(name)).items():
                row = unpack_counts(value)
                total.reports[int(cohort)] += row[0]
                total.counts[int(cohort)] += row[1:]
        return total

    def popcounts(self, metric: Metric, epoch: int) -> Sequence[int]:
        """Return how many reports set 0, 1, ... bits; empty for metrics without bit vectors."""
        group = Group.of(metric, epoch)
        if group.kind == "cell":
            return ()
        total = unpack_counts(bytes(4 * (group.cells + 1)))
        for shard in self.shards:
            for packed in self.popcounts_of(shard, [group]):
                if packed is not None:
                    total = total + unpack_counts(packed)
        return tuple(total.tolist())

    def epochs_with_reports(self, metric: Metric) -> list[int]:
        """Return the epochs in which this version of the metric has a tally, ascending."""
        epochs = {
            group.epoch
            for shard in self._shards
            for group in self._groups(shard)
            if group.fingerprint == metric.fingerprint and group.series == series_of(metric)
        }
        return sorted(epochs)

    def _groups(self, shard: Shard) -> list[Group]:
        return [parse_group(name) for name in self._call("SMEMBERS", shard.key("groups"))]

    # Ledger and counters

    def spent(self, device: str) -> int | None:
        """Return the micro-epsilon that a device has spent in its life, None if it is unknown."""
        place = self._layout.place(device)
        ledger = self._shards[place.shard].in_bucket("ledger", place.bucket)
        record = self._call("HGET", ledger, place.pseudonym)
        return None if record is None else Record.unpack(record).spent

    def ledger(self) -> Iterator[int]:
        """Yield the micro-epsilon spent of every device, in no order."""
        for shard in self._shards:
            for bucket in range(self._layout.buckets):
                for record in self._call("HVALS", shard.in_bucket("ledger", bucket)):
                    yield Record.unpack(record).spent

    def counters(self) -> Counter[str]:
        """Return what happened since the store began.

        Keys: batches, duplicates, clones, and gaps: batches whose sequence skips numbers, for
        their device or a restored ledger has lost some; accepted and each reason of refusal, in
        reports; folded and late, in accepted reports. What is accepted and neither folded nor late
        is the lag. Of the fold: commits, those lost to another folder, and the microseconds of all
        that were not.
        """
        return in_words(
            self._call("HGETALL", shard.key("counters")).items() for shard in self._shards
        )

    def lag(self) -> int:
        """Return how many accepted reports are in no tally yet."""
        total = self.counters()
        return total[ACCEPTED] - total["folded"] - total["late"]


def in_words(counters: Iterable[Iterable[tuple[bytes, bytes]]]) -> Counter[str]:
    """Add up shards' counters, by the names that `Store.counters` lists."""
    total: Counter[str] = Counter(dict.fromkeys((*_LETTERS, *_EVENTS), 0))
    for shard in counters:
        for name, count in shard:
            total[_WORDS.get(name.decode(), name.decode())] += int(count)
    return total

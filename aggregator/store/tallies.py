"""Streams, tallies, and the closing of epochs: from accepted reports to final sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aggregator.connection import Connection
from aggregator.group import Group, parse_group, series_of
from aggregator.store.layout import Layout, Shard
from aggregator.tally import Tally, unpack_counts
from client_sdk.metric import Metric

_START = b"0-0"


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


class Tallies:
    """The streams and tallies of a store's shards."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._call = connection.call
        self._layout = layout
        self._shards = layout.all_shards
        self._fold = connection.script("fold")
        self._close = connection.script("close", replicated=True)

    def frozen(self, shard: int) -> dict[str, int]:
        """Return per series the last epoch of which a shard holds no marks any more."""
        kept = self._call("HGETALL", self._shards[shard].key("frozen"))
        return {series.decode(): int(epoch) for series, epoch in kept.items()}

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

    def refuses(self, metric: Metric, epoch: int) -> bool:
        """Say whether every shard refuses the epoch's reports; their tallies may not be final."""
        series = series_of(metric)
        marks = (self._call("HGET", shard.key("watermarks"), series) for shard in self._shards)
        return all(mark is not None and int(mark) >= epoch for mark in marks)

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

    # Sums

    def of(self, metric: Metric, epoch: int) -> Tally:
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
        for shard in range(self._layout.shards):
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

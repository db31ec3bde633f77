"""Reading the ledger: what devices have spent, and what of that was paid for remembered answers."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from aggregator.connection import Connection
from aggregator.ledger import Record
from aggregator.store.layout import Layout, Shard

Sample = Callable[[Sequence[int], int], Sequence[int]]
"""Draws so many of some numbers, like random.sample."""


@dataclass(frozen=True, slots=True)
class Account:
    """One device's life in the ledger.

    Attributes:
        spent: Micro-epsilon.
        sequence: Number of its last batch.
        paid: Channel hashes of the memoized metrics that it has paid for.
    """

    spent: int
    sequence: int
    paid: tuple[str, ...]


class Accounts:
    """Reads the ledger of a store; writes nothing."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._call = connection.call
        self._layout = layout
        self._bucket = connection.script("bucket")

    def all(self, channels: Collection[str]) -> Iterator[Account]:
        """Yield every device's account, in no order.

        Args:
            channels: Channel hashes of the memoized metrics to look for.
        """
        for shard in self._layout.all_shards:
            for bucket in range(self._layout.buckets):
                yield from self._in_bucket(shard, bucket, channels)

    def sampled(
        self, most_buckets: int, sample: Sample, channels: Collection[str]
    ) -> tuple[list[Account], float]:
        """Return the accounts of devices in some buckets, and what scales them up to all.

        Args:
            most_buckets: How many to read; all, if there are no more.
            sample: Draws them.
            channels: See `all`.
        """
        places = list(itertools.product(self._layout.all_shards, range(self._layout.buckets)))
        drawn = sample(range(len(places)), min(most_buckets, len(places)))
        found = [
            account for place in drawn for account in self._in_bucket(*places[place], channels)
        ]
        return found, len(places) / len(drawn)

    def _in_bucket(self, shard: Shard, bucket: int, channels: Collection[str]) -> Iterator[Account]:
        memos = (shard.memo(channel, bucket) for channel in channels)
        flat, *payers = self._bucket((shard.in_bucket("ledger", bucket), *memos), ())
        paid: defaultdict[int, list[str]] = defaultdict(list)
        for channel, members in zip(channels, payers, strict=bool(flat)):
            for member in members:
                paid[int(member)].append(channel)
        for pseudonym, packed in zip(flat[::2], flat[1::2], strict=True):
            member = int.from_bytes(pseudonym, "big", signed=True)
            record = Record.unpack(packed)
            yield Account(record.spent, record.sequence, tuple(paid[member]))

    def of(self, device: str, channels: Collection[str]) -> Account | None:
        """Return one device's account, None if the ledger has no record of it."""
        place = self._layout.place(device)
        shard = self._layout.all_shards[place.shard]
        packed = self._call("HGET", shard.in_bucket("ledger", place.bucket), place.pseudonym)
        if packed is None:
            return None
        record = Record.unpack(packed)
        paid = tuple(
            channel
            for channel in channels
            if self._call("SISMEMBER", shard.memo(channel, place.bucket), place.member)
        )
        return Account(record.spent, record.sequence, paid)

    def spent(self, device: str) -> int | None:
        """Return the micro-epsilon that a device has spent in its life, None if it is unknown."""
        place = self._layout.place(device)
        ledger = self._layout.all_shards[place.shard].in_bucket("ledger", place.bucket)
        record = self._call("HGET", ledger, place.pseudonym)
        return None if record is None else Record.unpack(record).spent

    def every_spent(self) -> Iterator[int]:
        """Yield the micro-epsilon spent of every device, in no order."""
        for shard in self._layout.all_shards:
            for bucket in range(self._layout.buckets):
                for record in self._call("HVALS", shard.in_bucket("ledger", bucket)):
                    yield Record.unpack(record).spent

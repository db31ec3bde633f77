"""Reading the ledger: what devices have spent, and what of that was paid for remembered answers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from aggregator.connection import Connection
from aggregator.group import parse_group
from aggregator.ledger import Record
from aggregator.store.layout import Layout


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
        self._reports = connection.script("reports")

    def all(self, channels: Collection[str]) -> Iterator[Account]:
        """Yield every device's account, in no order.

        Args:
            channels: Channel hashes of the memoized metrics to look for.
        """
        for shard in self._layout.all_shards:
            for bucket in range(self._layout.buckets):
                records = self._call("HGETALL", shard.in_bucket("ledger", bucket))
                paid: defaultdict[int, list[str]] = defaultdict(list)
                for channel in channels if records else ():
                    for member in self._call("SMEMBERS", shard.memo(channel, bucket)):
                        paid[int(member)].append(channel)
                for pseudonym, packed in records.items():
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

    def reports(self) -> Counter[str]:
        """Return the reports in all tallies, open and closed, by fingerprint."""
        total: Counter[str] = Counter()
        for shard in self._layout.all_shards:
            for name in self._call("SMEMBERS", shard.key("groups")):
                tally = shard.tally(name.decode())
                total[parse_group(name).fingerprint] += self._reports((tally,), ())
        return total

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

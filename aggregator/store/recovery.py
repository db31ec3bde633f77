"""Charging the ledger of a restored store, bucket by bucket, each once, whoever dies on the way.

What is charged is decided in `recovery.restore`; this is how it reaches the store. A recovery has a
number, the generation that its shards get when they are done. The shards remember how far it has
come, so that it can be taken up where it was left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aggregator.connection import Connection
from aggregator.store.generation import Generation
from aggregator.store.layout import RECOVERED, RECOVERY, Layout


@dataclass(frozen=True)
class Plan:
    """What a recovery does, fixed when it begins.

    Attributes:
        number: Generation of the shards when they are done.
        day: Day of the backup, ISO 8601.
        now: Unix time of the beginning, in seconds.
        required: Shards below this generation were restored; -1: all were.
        cap: Lifetime cap in micro-epsilon.
        floor: What a device starts with that is not new and has no record.
    """

    number: int
    day: str
    now: int
    required: int
    cap: int
    floor: int

    def fields(self) -> dict[str, str | int]:
        """Return what the store keeps."""
        return {
            "number": self.number,
            "from": self.day,
            "now": self.now,
            "required": self.required,
            "cap": self.cap,
            "floor": self.floor,
        }

    @classmethod
    def read(cls, kept: Mapping[bytes, bytes]) -> Self:
        """Make a plan of what the store keeps."""
        day = kept[b"from"].decode()
        names = (b"now", b"required", b"cap", b"floor")
        return cls(int(kept[b"number"]), day, *(int(kept[name]) for name in names))


@dataclass(frozen=True)
class Since:
    """What a device may have been charged since a backup, in micro-epsilon.

    Attributes:
        fresh: Per series and epoch, which the store did not know as closed.
        memos: Per channel hash of a memoized metric.
    """

    fresh: Mapping[tuple[str, int], int]
    memos: Mapping[str, int]

    @property
    def total(self) -> int:
        """Of a device of which the store knows nothing."""
        return sum(self.fresh.values()) + sum(self.memos.values())


@dataclass(frozen=True)
class Charged:
    """What a recovery has done so far.

    Attributes:
        devices: Ledger records it has looked at.
        charged: Those whose figure it has raised.
        surcharges: Sum over devices, in micro-epsilon.
    """

    devices: int
    charged: int
    surcharges: int


class Recovery:
    """The part of a store that a recovery needs."""

    def __init__(self, connection: Connection, layout: Layout, generation: Generation) -> None:
        self._connection = connection
        self._call = connection.call
        self._layout = layout
        self._surcharge = connection.script("surcharge")
        self.generation = generation

    def begun(self) -> Plan | None:
        """Return the recovery that has begun and not ended."""
        kept = self._call("HGETALL", RECOVERY)
        return Plan.read(kept) if kept else None

    def finished(self) -> Plan | None:
        """Return the last recovery that has ended."""
        kept = self._call("HGETALL", RECOVERED)
        return Plan.read(kept) if kept else None

    def begin(self, plan: Plan) -> None:
        """From now on the store is refused until this recovery has ended."""
        self._call("HSET", RECOVERY, *(item for pair in plan.fields().items() for item in pair))

    def end(self) -> None:
        """Let servers use the store again."""
        # Not RENAME, which fails when it is sent again after a lost answer. Copying what is gone
        # changes nothing: somebody has finished it beside us.
        self._call("COPY", RECOVERY, RECOVERED, "REPLACE")
        self._call("UNLINK", RECOVERY)

    def closed(self, shard: int) -> dict[str, int]:
        """Return per series the last epoch that a shard takes no reports for."""
        kept = self._call("HGETALL", self._layout.all_shards[shard].key("watermarks"))
        return {series.decode(): int(epoch) for series, epoch in kept.items()}

    def highest_floor(self) -> int:
        """Return the highest floor of any shard."""
        keys = (shard.key("life") for shard in self._layout.all_shards)
        return max(int(self._call("HGET", key, "floor") or 0) for key in keys)

    def charge_shard(self, shard: int, plan: Plan, since: Since) -> None:
        """Charge the shard's buckets that this recovery has not charged yet."""
        home = self._layout.all_shards[shard]
        number, reached = self._call("HMGET", home.key("life"), "recovery", "buckets")
        first = int(reached) if number is not None and int(number) == plan.number else 0
        for bucket in range(first, self._layout.buckets):
            surcharges = self._surcharges(shard, bucket, since)
            keys = (home.key("life"), home.in_bucket("ledger", bucket))
            pairs = [item for pair in surcharges.items() for item in pair]
            self._surcharge(keys, (plan.number, bucket, plan.cap, plan.floor, *pairs))

    def _surcharges(self, shard: int, bucket: int, since: Since) -> dict[bytes, int]:
        """Return what each device of a bucket may have been charged and was not before."""
        home = self._layout.all_shards[shard]
        records = self._call("HKEYS", home.in_bucket("ledger", bucket))
        left = {int.from_bytes(name, "big", signed=True): since.total for name in records}
        known = [(home.mark(*at, bucket), charge) for at, charge in since.fresh.items()]
        known += [(home.memo(channel, bucket), charge) for channel, charge in since.memos.items()]
        for key, charge in known if left else ():
            # In the backup already: a mark or memo that stands there cannot be charged again.
            for member in self._call("SMEMBERS", key):
                if int(member) in left:
                    left[int(member)] -= charge
        return {member.to_bytes(8, "big", signed=True): most for member, most in left.items()}

    def charged(self, plan: Plan) -> Charged:
        """Return what a recovery has done in all shards."""
        total = [0, 0, 0]
        names = ("devices", "charged", "surcharges")
        for shard in self._layout.all_shards:
            number, *found = self._call("HMGET", shard.key("life"), "recovery", *names)
            if number is not None and int(number) == plan.number:
                total = [a + int(b) for a, b in zip(total, found, strict=True)]
        return Charged(*total)

"""Devices that were erased: their pseudonyms stay, so that nothing is taken from them again."""

from collections import defaultdict
from collections.abc import Sequence

from aggregator.connection import Connection, StoreUnavailable
from aggregator.recovery.tombstones import Tombstones
from aggregator.store.generation import AWAITS_RECOVERY, Generation
from aggregator.store.layout import Layout, Place


class Erasures:
    """Erases devices of a store, and knows who was erased.

    Args:
        connection: To the store.
        layout: Of the store.
        generation: Tells a store that a backup has put back.
        tombstones: Where erasures are noted, out of reach of backups.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        generation: Generation,
        tombstones: Tombstones,
    ) -> None:
        self._call = connection.call
        self._layout = layout
        self._shards = layout.all_shards
        self._generation = generation
        self._tombstones = tombstones
        self._erase = connection.script("erase", replicated=True)

    def place(self, device: str) -> Place:
        """Return where a device's record lies, if there is one."""
        return self._layout.place(device)

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
            required = self._generation.reached(shard)
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
            raise StoreUnavailable(AWAITS_RECOVERY)
        if not restored:
            self._generation.note(generation)
        return bool(known)

    def holds(self, device: str) -> bool:
        """Say whether a device was erased; a store that was put back by a backup cannot say."""
        place = self._layout.place(device)
        shard = self._shards[place.shard]
        self._generation.reached(shard)
        erased = shard.in_bucket("erased", place.bucket)
        return bool(self._call("SISMEMBER", erased, place.member))

    def forgotten(self) -> list[Place]:
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

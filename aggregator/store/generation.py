"""The store's generation: a number that only rises, by which an old backup is noticed.

A backup takes the ledger back, and with it every charge since: devices would have budget again
that they have spent. So each shard keeps a generation, raised at every start of a server and once
a minute by the fold worker, and the witness (`recovery.witness`), which no backup of the store
takes back, remembers it. A shard below the witness was restored. It takes no report until a
recovery (`recovery.restore`) has charged its devices.
"""

import logging

from aggregator.connection import Connection, StoreRefused, StoreUnavailable
from aggregator.recovery.witness import FILE_NAME, Witness
from aggregator.store.layout import RECOVERY, Layout, Shard
from client_sdk.epochs import day_of

SPACING_SECONDS = 10.0
"""Between two generations, at least: longer than the writes that a failover may cost."""

WHAT_TO_DO = (
    "run `sottovoce ledger --restored-from {day}` (with --data DIR for a store of `sottovoce up`), "
    'see docs/operations.md, "After restoring a backup"'
)

AWAITS_RECOVERY = "the store was put back by a backup and awaits its recovery"

_log = logging.getLogger(__name__)


class Generation:
    """The shards' generations and their witness."""

    def __init__(self, connection: Connection, layout: Layout, witness: Witness) -> None:
        self._connection = connection
        self._layout = layout
        self._raise = connection.script("generation")
        self.witness = witness

    def required(self) -> int:
        """Return what a shard must have reached to take reports."""
        return self.witness.generation() or 0

    def of_shards(self) -> list[int]:
        """Return each shard's generation; 0 where nothing was ever started."""
        return [int(self._field(shard, "generation")) for shard in range(self._layout.shards)]

    def last_raised(self, shard: int) -> int:
        """Return the Unix time at which a shard's generation was raised last, 0 if never."""
        return int(self._field(shard, "raised_at"))

    def check(self) -> list[int]:
        """Make sure that no shard is known to be restored from a backup; return their generations.

        Raises:
            StoreRefused: One is; says what to run.
        """
        if self._connection.call("EXISTS", RECOVERY):
            day = self._connection.call("HGET", RECOVERY, "from").decode()
            raise StoreRefused(
                f"a recovery from the backup of {day} has begun and not ended: "
                + WHAT_TO_DO.format(day=day)
            )
        known, found = self.witness.generation(), self.of_shards()
        if known is not None and min(found) < known:
            raise StoreRefused(
                f"the store is of generation {min(found)}, but by {FILE_NAME} it had "
                f"reached {known}: it was restored from a backup, in which devices have budget "
                f"again that they have spent; {WHAT_TO_DO.format(day=self._last_day(found, known))}"
            )
        return found

    def raise_by_one(self, now: float, spacing_seconds: float = 0.0) -> None:
        """Raise every shard's generation, unless one was restored or all were raised just now.

        The witness is told the generation before, not the new one: a power cut or a failover may
        cost the last writes, and that is no restored backup. Which holds for all writes of
        `spacing_seconds`, in which there is at most one generation.

        Raises:
            StoreRefused: See `check`; or nothing vouches for a store that was in use.
        """
        found = self.check()
        if any(found) and self.witness.generation() is None:
            advice = WHAT_TO_DO.format(day=self._last_day(found, None))
            raise StoreRefused(
                f"the store is of generation {max(found)}, and no {FILE_NAME} beside the key file "
                "tells whether that is its latest: copy the file from another machine of this "
                f"server, or, if there is none, {advice}"
            )
        shards = range(self._layout.shards)
        # abs: also after a clock that was ahead has come back.
        if all(abs(now - self.last_raised(shard)) < spacing_seconds for shard in shards):
            return
        required = min(found)
        # One that was cut short is finished first: shards are never two apart, so what the witness
        # learns from the one that is ahead (see `saw`), the others have reached.
        target = required + 1
        self.witness.remember(required)
        for shard in shards:
            if self.lift(shard, target, now, required) < required:
                self.check()

    def lift(self, shard: int, target: int, now: float, required: int = 0) -> int:
        """Raise one shard to `target` if it has reached `required`; return what it has then."""
        life = self._layout.all_shards[shard].key("life")
        return int(self._raise((life,), (required, target, int(now))))

    def saw(self, generation: int) -> None:
        """Note a generation that a shard has just been seen at.

        Raises:
            StoreRefused: The witness cannot be written.
        """
        if generation:
            self.witness.remember(generation - 1)

    def note(self, generation: int) -> None:
        """Do what `saw` does after a write that stands, whatever becomes of the note."""
        try:
            self.saw(generation)
        except StoreRefused as error:
            # What was written is; this process remembers the generation, and starts check the file.
            _log.warning("%s", error)

    def reached(self, shard: Shard) -> int:
        """Return the generation that a shard must have reached, and has.

        Raises:
            StoreUnavailable: It has not: a backup has put it back.
        """
        required = self.required()
        if int(self._connection.call("HGET", shard.key("life"), "generation") or 0) < required:
            raise StoreUnavailable(AWAITS_RECOVERY)
        return required

    def restored(self, required: int | None) -> list[int]:
        """Return the shards below a generation; all of them if it is None."""
        found = enumerate(self.of_shards())
        return [shard for shard, at in found if required is None or at < required]

    def _last_day(self, found: list[int], known: int | None) -> str:
        times = [
            self.last_raised(shard)
            for shard, at in enumerate(found)
            if at and (known is None or at < known)
        ]
        return day_of(max(times)).isoformat() if times else "YYYY-MM-DD (the backup's day)"

    def _field(self, shard: int, name: str) -> bytes:
        life = self._layout.all_shards[shard].key("life")
        value: bytes = self._connection.call("HGET", life, name) or b"0"
        return value

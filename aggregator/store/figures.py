"""The store's figures for operators: counters of its shards, and what other processes leave here.

Read at each scrape of /metrics, so that restarts of servers lose nothing and several of them count
nothing twice.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from aggregator.connection import Connection
from aggregator.store.accounts import Accounts, Sample
from aggregator.store.layout import COUNTERS, LEDGER_SAMPLE, Layout
from aggregator.store.ledger_sample import LedgerSample
from aggregator.store.newest_releases import NewestReleases
from aggregator.store.verdicts import in_words
from client_sdk.report import ACCEPTED

MOST_BUCKETS = 1024
"""Read for one sample: up to 131,072 devices in as many as were planned, in about a second."""

_ENROLLED = "enrolled"
_LAST_PUBLISHED = "published_at"
_PUBLISHED = "published:"


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """What one shard tells.

    Attributes:
        counters: As the shard names them, see `verdicts.in_words`.
        oldest_seconds: Age of the oldest report that is not folded yet, 0 if there is none.
        stream_bytes: Memory of its stream.
        generation: See `aggregator.store.generation`.
    """

    counters: Sequence[tuple[bytes, bytes]]
    oldest_seconds: float
    stream_bytes: int
    generation: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What the store says of itself.

    Attributes:
        used_bytes: Memory in use.
        most_bytes: Its maxmemory, 0: no limit.
        machine_bytes: Memory of its machine.
        log_written: Whether its last write to the append-only file went well; None if it keeps
            none.
    """

    used_bytes: int
    most_bytes: int
    machine_bytes: int
    log_written: bool | None


class Figures:
    """Reads figures of a store, and notes what happens in no shard.

    Attributes:
        newest_releases: What they say, by metric.
    """

    def __init__(self, connection: Connection, layout: Layout, accounts: Accounts) -> None:
        self.newest_releases = NewestReleases(connection)
        self._accounts = accounts
        self._call = connection.call
        self._call_each = connection.call_each
        self._layout = layout
        self._figures = connection.script("figures")
        self._pairs = connection.script("pairs")

    def shards(self) -> list[ShardFigures]:
        """Return every shard's figures."""
        found = []
        for shard in self._layout.all_shards:
            keys = [shard.key(name) for name in ("counters", "stream", "life")]
            flat, age, size, generation = self._figures(keys, ())
            counters = list(zip(flat[::2], flat[1::2], strict=True))
            found.append(ShardFigures(counters, age / 1000, size, generation))
        return found

    def counters(self) -> Counter[str]:
        """Return what happened since the store began.

        Keys: batches, duplicates, clones, and gaps: batches whose sequence skips numbers, for
        their device or a restored ledger has lost some; accepted and each reason of refusal, in
        reports; folded and late, in accepted reports. What is accepted and neither folded nor late
        is the lag. Of the fold: commits, those lost to another folder, and the microseconds of all
        that were not.
        """
        return in_words(
            self._call("HGETALL", shard.key("counters")).items()
            for shard in self._layout.all_shards
        )

    def lag(self) -> int:
        """Return how many accepted reports are in no tally yet."""
        total = self.counters()
        return total[ACCEPTED] - total["folded"] - total["late"]

    def oldest_seconds(self) -> float:
        """Return the age of the oldest report that is not folded yet, 0 if there is none."""
        return max(shard.oldest_seconds for shard in self.shards())

    def folded(self) -> Counter[tuple[str, str]]:
        """Return the reports ever folded, by metric and fingerprint, over all epochs."""
        total: Counter[tuple[str, str]] = Counter()
        for shard in self._layout.all_shards:
            words = self._pairs((shard.key("reports"),), ()).decode().split()
            for version, count in zip(words[::2], words[1::2], strict=True):
                metric, _, fingerprint = version.partition(":")
                total[metric, fingerprint] += int(count)
        return total

    def memory(self) -> Memory:
        """Return what the store says of itself; of a cluster the server with the least left."""
        told = self._call_each("INFO", "memory")
        memory = max(told, key=lambda one: one["used_memory"] / (one["maxmemory"] or float("inf")))
        logs = [log for log in self._call_each("INFO", "persistence") if log["aof_enabled"]]
        written = all(log["aof_last_write_status"] == "ok" for log in logs) if logs else None
        used, most = int(memory["used_memory"]), int(memory["maxmemory"])
        return Memory(used, most, int(memory["total_system_memory"]), written)

    # What happens in no shard

    def note_enrolment(self) -> None:
        """Count a device that is about to be enrolled."""
        self._call("HINCRBY", COUNTERS, _ENROLLED, 1)

    def enrolled(self) -> int:
        """Return how many devices were ever enrolled."""
        return int(self._call("HGET", COUNTERS, _ENROLLED) or 0)

    def note_published(self, results: Mapping[str, int], succeeded_at: float | None) -> None:
        """Count what became of releases.

        Args:
            results: Number of releases by result.
            succeeded_at: Unix time, if nothing failed.
        """
        for result, number in results.items():
            self._call("HINCRBY", COUNTERS, _PUBLISHED + result, number)
        if succeeded_at is not None:
            self._call("HSET", COUNTERS, _LAST_PUBLISHED, int(succeeded_at))

    def published(self) -> tuple[dict[str, int], int | None]:
        """Return the releases ever published by result, and when nothing had failed last."""
        kept = {name.decode(): int(n) for name, n in self._call("HGETALL", COUNTERS).items()}
        results = {
            name.removeprefix(_PUBLISHED): number
            for name, number in kept.items()
            if name.startswith(_PUBLISHED)
        }
        return results, kept.get(_LAST_PUBLISHED)

    # The ledger, seldom and sampled

    def sample_ledger(
        self,
        *,
        cap: int,
        cheapest: int,
        now: float,
        sample: Sample,
        memos: Mapping[str, int] = MappingProxyType({}),
        most_buckets: int = MOST_BUCKETS,
    ) -> LedgerSample:
        """Look at a sample of the ledger, and keep what was found for whoever asks.

        Args:
            cap: Lifetime cap in micro-epsilon, at least 1.
            cheapest: Micro-epsilon of the cheapest first report.
            now: Unix time in seconds.
            sample: Draws the buckets.
            memos: Micro-epsilon reserved for each memoized channel, by its hash.
            most_buckets: How many buckets to read.
        """
        accounts, scale = self._accounts.sampled(most_buckets, sample, memos)
        found = LedgerSample.of(
            accounts, cap=cap, cheapest=cheapest, scale=scale, now=now, memos=memos
        )
        self._call("SET", LEDGER_SAMPLE, found.text())
        return found

    def ledger_sample(self) -> LedgerSample | None:
        """Return the last sample, None before the first one of this version."""
        kept = self._call("GET", LEDGER_SAMPLE)
        return None if kept is None else LedgerSample.read(kept)

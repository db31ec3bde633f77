"""The fold: turns stream entries into tallies, each report exactly once.

Any number of folders may run: what one computes is committed only if the shard's cursor still
stands where it was read, so racing or dying ones lose work, never reports.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aggregator.columns import column_sums
from aggregator.connection import StoreUnavailable
from aggregator.group import Group, parse_group
from aggregator.store import Store, Unfolded
from aggregator.store.generation import SPACING_SECONDS
from aggregator.tally import pack_counts, unpack_counts
from client_sdk.epochs import day_of

_log = logging.getLogger(__name__)

_ENTRIES_PER_COMMIT = 2000
_LONGEST_PAUSE_SECONDS = 5.0
_GENERATION_SECONDS = 60.0
"""Between two generations: a restored backup that is at most twice as old is not noticed."""

_ROWS_OF_A_COHORT = 32
"""With fewer of each, on average, all cohorts are added up at one stroke."""

_REWRITE_SECONDS = 60
"""Between two looks whether the append-only file is to be rewritten again."""


class Stop(Protocol):
    """What an Event has of this."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    def wait(self, seconds: float, /) -> bool:
        """Wait for that, at most so long."""


class Folder:
    """Folds all shards of a store.

    Args:
        store: The store.
        entries_per_commit: Most entries of a stream that one commit takes.
        clock: Unix time in seconds.
        every_minute: What else whoever runs for long should do.
    """

    def __init__(
        self,
        store: Store,
        entries_per_commit: int = _ENTRIES_PER_COMMIT,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
        aof_rewrite_interval_seconds: int = 0,
        every_minute: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._most = entries_per_commit
        self._clock = clock
        self._timer = timer
        self._every_minute = every_minute
        self._generation_raised_at = float("-inf")
        self._rewrite_interval = aof_rewrite_interval_seconds
        self._rewrite_asked_at = float("-inf")
        self._rewrite_refusal: str | None = None

    def run(self, stop: Stop, interval_seconds: float) -> None:
        """Fold until `stop` is set; outages of the store are logged and waited for.

        Raises the store's generation on the way, being what runs wherever reports are counted,
        forgets the invitations of surveys that are over, and has the store's append-only file
        rewritten from time to time.

        Raises:
            StoreRefused: The store was restored from a backup.
        """
        pause = interval_seconds
        failing = False
        while not stop.is_set():
            try:
                self._raise_generation()
                self.fold_once()
            except StoreUnavailable as error:
                if not failing:
                    _log.warning("fold waits: %s", error)
                failing = True
                pause = min(2 * pause, max(_LONGEST_PAUSE_SECONDS, interval_seconds))
            else:
                if failing:
                    _log.warning("fold goes on")
                failing = False
                pause = interval_seconds
                self._rewrite_log()
            stop.wait(pause)

    def _raise_generation(self) -> None:
        now = self._clock()
        # abs: also after a clock that was ahead has come back.
        if abs(now - self._generation_raised_at) >= _GENERATION_SECONDS:
            self._store.raise_generation(now, spacing_seconds=SPACING_SECONDS)
            self._store.invitations.forget_over(day_of(now))
            self._every_minute()
            self._generation_raised_at = now

    def _rewrite_log(self) -> None:
        """Let what was erased leave the append-only file too; one folder of all does it."""
        now = self._clock()
        patience = min(self._rewrite_interval, _REWRITE_SECONDS)
        if not self._rewrite_interval or abs(now - self._rewrite_asked_at) < patience:
            return
        self._rewrite_asked_at = now
        try:
            refusal = self._store.rewrite_log(self._rewrite_interval)
        except StoreUnavailable:  # full, for instance: no reason not to fold
            return
        if refusal is not None and self._rewrite_refusal is None:
            _log.warning("the store does not rewrite its append-only file: %s", refusal)
            self._rewrite_refusal = refusal

    def fold_once(self) -> int:
        """Fold all that is there now; return the number of reports folded here.

        Raises:
            StoreUnavailable: A shard could not be reached; the others before it are done.
        """
        return sum(self._drain(shard) for shard in self._store.shards)

    def fold_past(self, shard: int, fence: str) -> None:
        """Fold a shard until its cursor has reached a stream id, whoever moves it there.

        Or until nothing is left to fold: a power cut may have taken what lay before the fence.
        """
        more = True
        while more and _id(self._store.tallies.cursor(shard)) < _id(fence):
            _, more = self.fold_shard(shard)

    def _drain(self, shard: int) -> int:
        total = 0
        while True:
            folded, more = self.fold_shard(shard)
            total += folded
            if not more:
                return total

    def fold_shard(self, shard: int) -> tuple[int, bool]:
        """Try one commit; return the reports folded and whether there may be more to do."""
        began = self._timer()
        read = self._store.tallies.unfolded(shard, self._most)
        if not read.entries:
            return 0, False
        rows, late = rows_by_group(read)
        changes = {group: self._added(shard, group, block) for group, block in rows.items()}
        folded = {group: len(block) for group, block in rows.items()}
        popcounts = self._popcounts(shard, rows)
        took = self._timer() - began
        if not self._store.tallies.commit(shard, read, changes, popcounts, folded, late, took):
            return 0, True
        return sum(folded.values()), len(read.entries) == self._most

    def _added(self, shard: int, group: Group, rows: NDArray[np.uint8]) -> dict[int, bytes]:
        cohorts, sums = summed(group, rows)
        width = len(pack_counts(sums[0]))
        before = self._store.tallies.cohort_counts(shard, group, cohorts)
        sums += unpack_counts(b"".join(row or bytes(width) for row in before)).reshape(sums.shape)
        packed = pack_counts(sums)
        return {
            cohort: packed[start : start + width]
            for cohort, start in zip(cohorts, range(0, len(packed), width), strict=True)
        }

    def _popcounts(self, shard: int, rows: Mapping[Group, NDArray[np.uint8]]) -> dict[Group, bytes]:
        groups = [group for group in rows if group.kind == "bits"]
        before = self._store.tallies.popcounts_of(shard, groups)
        return {
            group: pack_counts(popcounts(group, rows[group]) + unpack_counts(old or bytes(width)))
            for group, old in zip(groups, before, strict=True)
            for width in (4 * (group.cells + 1),)
        }


def rows_by_group(read: Unfolded) -> tuple[dict[Group, NDArray[np.uint8]], int]:
    """Gather the rows of each group, shape (rows, row bytes), without those whose epoch is frozen.

    Returns:
        The rows, and how many were left out. With a store that keeps what it acknowledged none are:
        an epoch is frozen only after all its reports are folded.
    """
    payloads: dict[bytes, list[bytes]] = defaultdict(list)
    for names, payload in read.entries:
        payloads[names].append(payload)
    blocks: dict[Group, list[NDArray[np.uint8]]] = defaultdict(list)
    late = 0
    for names, parts in payloads.items():
        groups = [parse_group(name) for name in names.split(b" ")]
        table = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), -1)
        start = 0
        for group in groups:
            block = table[:, start : start + group.row_bytes]
            start += group.row_bytes
            if group.epoch <= read.frozen.get(group.series, -1):
                late += len(block)
            else:
                blocks[group].append(block)
    return {group: np.concatenate(parts) for group, parts in blocks.items()}, late


def summed(group: Group, rows: NDArray[np.uint8]) -> tuple[Sequence[int], NDArray[np.int64]]:
    """Add up a group's rows.

    Returns:
        The cohorts that occur, ascending, and per cohort the number of reports followed by the
        count of each cell: shape (cohorts, 1 + cells).
    """
    cohort_of_row = rows[:, :2].copy().view("<u2").ravel()
    reports = np.bincount(cohort_of_row)
    cohorts = np.flatnonzero(reports)
    sums = np.zeros((len(cohorts), 1 + group.cells), np.int64)
    sums[:, 0] = reports[cohorts]
    if group.kind == "cell":
        cells = rows[:, 2:].copy().view("<u2").ravel()
        if len(cohorts) > 1:
            cells = np.searchsorted(cohorts, cohort_of_row) * group.cells + cells
        flat = np.bincount(cells, minlength=len(cohorts) * group.cells)
        sums[:, 1:] = flat.reshape(len(cohorts), group.cells)
        return cohorts.tolist(), sums
    ordered = rows[:, 2:]
    if len(cohorts) > 1:
        ordered = ordered[np.argsort(cohort_of_row, kind="stable")]
    ends = np.cumsum(sums[:, 0])
    if len(rows) < _ROWS_OF_A_COHORT * len(cohorts):
        bits = np.unpackbits(ordered, axis=1, count=group.cells, bitorder="little")
        sums[:, 1:] = np.add.reduceat(bits, ends - sums[:, 0], axis=0, dtype=np.int64)
        return cohorts.tolist(), sums
    for row, end in zip(sums, ends.tolist(), strict=True):
        row[1:] = column_sums(ordered[end - row[0] : end])[: group.cells]
    return cohorts.tolist(), sums


def popcounts(group: Group, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many of a group's bit vectors set 0, 1, ... bits, shape (cells + 1,)."""
    bits = np.bitwise_count(rows[:, 2:]).sum(axis=1, dtype=np.intp)
    return np.bincount(bits, minlength=group.cells + 1).astype(np.int64)


def _id(text: str) -> tuple[int, int]:
    milliseconds, _, number = text.partition("-")
    return int(milliseconds), int(number)

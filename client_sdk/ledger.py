"""The device's ledger of lifetime epsilon: shares, charges, and which epochs are spent.

Budget arithmetic is integer micro-epsilon and plain addition: pure epsilon composes by the sum
(reference 10.4). Shares are reserved whole, per metric, when a registry is first loaded, in
file order, against what the device's life has left. So one metric's use can never silence
another, and none runs dry half-way: what does not fit is off from the start.

Nothing here looks at a value: whether and what a device is charged follows from the registry,
the clock and which metrics were recorded.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry

ELSEWHERE = ""
"""The row for what no metric of this device's life has spent: what the server's ledger knows beyond
it, and what was spent before the device was erased."""


class Share(NamedTuple):
    """One metric's part of the lifetime budget, in micro-epsilon.

    Attributes:
        metric: Its name; empty for ELSEWHERE.
        reserved: What the metric may spend over the device's life.
        spent: What it has spent.
        fits: Whether its share fitted when it was reserved; a metric that does not fit is off.
        reports: How many reports were charged.
        changes: Bound that also covers when values changed: for memoized metrics the loss of
            the fresh stage in every report, else what was spent. None: there is no bound.
    """

    metric: str
    reserved: int
    spent: int
    fits: bool
    reports: int = 0
    changes: int | None = 0


class Ledger:
    """Reads and writes the ledger's tables; writes happen in the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, lifetime_micro: int) -> None:
        self._connection = connection
        self._lifetime = lifetime_micro

    def shares(self) -> Iterator[Share]:
        """Yield all shares by metric name."""
        rows = self._connection.execute(
            "SELECT metric, reserved, spent, fits, reports, changes FROM shares ORDER BY metric"
        )
        for metric, reserved, spent, fits, reports, changes in rows:
            yield Share(metric, reserved, spent, bool(fits), reports, changes)

    def spent(self) -> int:
        """Return the micro-epsilon spent in the device's life."""
        row = self._connection.execute("SELECT coalesce(sum(spent), 0) FROM shares").fetchone()
        return int(row[0])

    def reserve(
        self,
        registry: Registry,
        now: float,
        takes_part: Callable[[Metric], bool] = lambda metric: True,
    ) -> None:
        """Reserve each metric's share of what life has left, in file order.

        A metric that the file no longer has gives back what it did not spend; spent stays spent.

        Args:
            registry: The metrics.
            now: Unix time in seconds.
            takes_part: Says whether the device is in a metric's sample; no share if not.
        """
        for old in list(self.shares()):
            if old.metric not in registry.metrics and old.metric != ELSEWHERE:
                self._connection.execute(
                    "UPDATE shares SET reserved = spent WHERE metric = ?", (old.metric,)
                )
        for metric in registry.metrics.values():
            share = self._share(metric.name)
            held = share.reserved if share else 0
            spent = share.spent if share else 0
            needed = spent + (self._future(metric, now) if takes_part(metric) else 0)
            fits = needed <= held or needed - held <= self._lifetime - self._reserved()
            self._connection.execute(
                "INSERT INTO shares (metric, reserved, spent, fits) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (metric) "
                "DO UPDATE SET reserved = excluded.reserved, fits = excluded.fits",
                (metric.name, max(held, needed) if fits else held, spent, fits),
            )

    def charge(self, metric: Metric, epoch: int) -> str | None:
        """Charge one report and mark its epoch, or return why not.

        Returns:
            None when charged, else the reason: "already_reported", "does_not_fit" or
            "budget_exhausted".
        """
        # Also when `every` was edited meanwhile: never two reports in one block.
        first = metric.block_of(epoch) * metric.every
        if self._has_reported(metric, first, first + metric.every - 1):
            return "already_reported"
        share = self._share(metric.name)
        if share is None or not share.fits:
            return "does_not_fit"
        charge = self._due(metric)
        if share.spent + charge > share.reserved or self.spent() + charge > self._lifetime:
            return "budget_exhausted"
        self._connection.execute(
            "UPDATE shares SET spent = spent + ?, reports = reports + 1, changes = changes + ? "
            "WHERE metric = ?",
            (charge, metric.change_charge, metric.name),
        )
        if metric.memoize is not None and charge:
            self._connection.execute(
                "INSERT INTO paid VALUES (?, ?, ?) ON CONFLICT (metric, channel) "
                "DO UPDATE SET charged = charged + excluded.charged",
                (metric.name, metric.channel_hash, charge),
            )
        self._connection.execute(
            "INSERT INTO marks VALUES (?, ?, ?)", (metric.name, metric.epoch, epoch)
        )
        return None

    def raise_to(self, server_spent: int) -> None:
        """Adopt the server's figure when it is higher; a lower one is never believed."""
        missing = server_spent - self.spent()
        if missing > 0:
            self._connection.execute(
                "INSERT INTO shares (metric, reserved, spent, fits, changes) "
                "VALUES (?, ?, ?, 0, ?) ON CONFLICT (metric) "
                "DO UPDATE SET reserved = reserved + excluded.reserved, "
                "spent = spent + excluded.spent, changes = changes + excluded.changes",
                (ELSEWHERE, missing, missing, missing),
            )

    def collapse(self) -> int:
        """Keep nothing but the totals, under ELSEWHERE; return the micro-epsilon spent.

        Nothing is given back, and nothing tells any more what was asked. What a metric has paid
        is forgotten with its memory, so the caller deletes both.
        """
        spent, changes, unbounded = self._connection.execute(
            "SELECT coalesce(sum(spent), 0), coalesce(sum(changes), 0), count(*) - count(changes) "
            "FROM shares"
        ).fetchone()
        self._connection.execute("DELETE FROM shares")
        if spent:
            self._connection.execute(
                "INSERT INTO shares (metric, reserved, spent, fits, changes) "
                "VALUES (?, ?, ?, 0, ?)",
                (ELSEWHERE, spent, spent, None if unbounded else changes),
            )
        return int(spent)

    def _share(self, metric: str) -> Share | None:
        found = [share for share in self.shares() if share.metric == metric]
        return found[0] if found else None

    def _reserved(self) -> int:
        row = self._connection.execute("SELECT coalesce(sum(reserved), 0) FROM shares").fetchone()
        return int(row[0])

    def _has_reported(self, metric: Metric, first: int, last: int) -> bool:
        """Say whether any epoch in [first, last] was charged."""
        row = self._connection.execute(
            "SELECT 1 FROM marks WHERE metric = ? AND length = ? AND epoch BETWEEN ? AND ?",
            (metric.name, metric.epoch, first, last),
        ).fetchone()
        return row is not None

    def _blocks_reported(self, metric: Metric, first_epoch: int) -> int:
        """Return how many blocks have been reported, from the one that holds an epoch on."""
        row = self._connection.execute(
            "SELECT count(DISTINCT epoch / ?) FROM marks "
            "WHERE metric = ? AND length = ? AND epoch >= ? AND epoch <= ?",
            (
                metric.every,
                metric.name,
                metric.epoch,
                metric.block_of(first_epoch) * metric.every,
                epoch_of(metric.epoch, metric.expires),
            ),
        ).fetchone()
        return int(row[0])

    def _future(self, metric: Metric, now: float) -> int:
        """Return what the metric can still be charged for blocks that are not reported yet."""
        today = max(day_of(now), metric.starts)
        if metric.memoize is not None:
            return min(metric.share(today), self._due(metric))
        reported = self._blocks_reported(metric, epoch_of(metric.epoch, today))
        return max(0, metric.share(today) - reported * metric.charge)

    def _due(self, metric: Metric) -> int:
        """Return the charge of the next report.

        A memoized metric pays for its whole reservation with its first report, and for what
        is missing when an edited file reserves more distinct values of the same channel.
        """
        if metric.memoize is None:
            return metric.charge
        row = self._connection.execute(
            "SELECT charged FROM paid WHERE metric = ? AND channel = ?",
            (metric.name, metric.channel_hash),
        ).fetchone()
        return max(0, metric.charge - (row[0] if row else 0))

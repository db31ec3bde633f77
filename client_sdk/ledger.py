"""The device's ledger of lifetime epsilon: shares, charges, and which epochs are spent.

Budget arithmetic is integer micro-epsilon and plain addition: pure epsilon composes by the sum
(reference 10.4). Shares are reserved whole, per metric, when a registry is first loaded, in
file order, against what the device's life has left. So one metric's use can never silence
another, and none runs dry half-way: what does not fit is off from the start.

Nothing here looks at a value: whether and what a device is charged follows from the registry,
the clock and which metrics were recorded.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry

ELSEWHERE = ""
"""The row for what the server's ledger knows and this device's does not."""


@dataclass(frozen=True)
class Share:
    """One metric's part of the lifetime budget, in micro-epsilon.

    Attributes:
        metric: Its name; empty for what only the server's ledger knows.
        reserved: What the metric may spend over the device's life.
        spent: What it has spent.
        fits: Whether its share fitted when it was reserved; a metric that does not fit is off.
    """

    metric: str
    reserved: int
    spent: int
    fits: bool


class Ledger:
    """Reads and writes the ledger's tables; writes happen in the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, lifetime_micro: int) -> None:
        self._connection = connection
        self._lifetime = lifetime_micro

    def shares(self) -> Iterator[Share]:
        """Yield all shares by metric name."""
        rows = self._connection.execute(
            "SELECT metric, reserved, spent, fits FROM shares ORDER BY metric"
        )
        for metric, reserved, spent, fits in rows:
            yield Share(metric, reserved, spent, bool(fits))

    def spent(self) -> int:
        """Return the micro-epsilon spent in the device's life."""
        row = self._connection.execute("SELECT coalesce(sum(spent), 0) FROM shares").fetchone()
        return int(row[0])

    def reserve(self, registry: Registry, now: float) -> None:
        """Reserve each metric's share of what life has left, in file order."""
        for metric in registry.metrics.values():
            share = self._share(metric.name)
            held = share.reserved if share else 0
            spent = share.spent if share else 0
            needed = spent + self._future(metric, now)
            fits = needed <= held or needed - held <= self._lifetime - self._reserved()
            self._connection.execute(
                "INSERT INTO shares VALUES (?, ?, ?, ?) ON CONFLICT (metric) "
                "DO UPDATE SET reserved = excluded.reserved, fits = excluded.fits",
                (metric.name, max(held, needed) if fits else held, spent, fits),
            )

    def charge(self, metric: Metric, epoch: int) -> str | None:
        """Charge one report and mark its epoch, or return why not.

        Returns:
            None when charged, else the reason: "already_reported", "does_not_fit" or
            "budget_exhausted".
        """
        if self._marked(metric, epoch, epoch):
            return "already_reported"
        share = self._share(metric.name)
        if share is None or not share.fits:
            return "does_not_fit"
        charge = self._due(metric)
        if share.spent + charge > share.reserved or self.spent() + charge > self._lifetime:
            return "budget_exhausted"
        self._connection.execute(
            "UPDATE shares SET spent = spent + ? WHERE metric = ?", (charge, metric.name)
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
                "INSERT INTO shares VALUES (?, ?, ?, 0) ON CONFLICT (metric) DO UPDATE SET "
                "reserved = reserved + excluded.reserved, spent = spent + excluded.spent",
                (ELSEWHERE, missing, missing),
            )

    def _share(self, metric: str) -> Share | None:
        row = self._connection.execute(
            "SELECT reserved, spent, fits FROM shares WHERE metric = ?", (metric,)
        ).fetchone()
        return None if row is None else Share(metric, row[0], row[1], bool(row[2]))

    def _reserved(self) -> int:
        row = self._connection.execute("SELECT coalesce(sum(reserved), 0) FROM shares").fetchone()
        return int(row[0])

    def _marked(self, metric: Metric, first: int, last: int) -> int:
        """Return how many epochs in [first, last] have been reported."""
        row = self._connection.execute(
            "SELECT count(*) FROM marks WHERE metric = ? AND length = ? AND epoch BETWEEN ? AND ?",
            (metric.name, metric.epoch, first, last),
        ).fetchone()
        return int(row[0])

    def _future(self, metric: Metric, now: float) -> int:
        """Return what the metric can still be charged for epochs that are not reported yet."""
        today = max(day_of(now), metric.starts)
        if metric.memoize is not None:
            return min(metric.share(today), self._due(metric))
        last = epoch_of(metric.epoch, metric.expires)
        reported = self._marked(metric, epoch_of(metric.epoch, today), last)
        return metric.share(today) - reported * metric.charge

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

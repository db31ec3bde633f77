"""`when_absent`: what a device reports for an epoch in which the app recorded nothing.

Without it, whether a device reports tells whether the app had something to record. With it every
device that runs the app reports for every epoch (that is its turn), and all reports of the metric
leave only after the epoch has ended. A device counts from the epoch in which it first loaded the
metric, and back as far as the server still accepts.
"""

import sqlite3
from collections.abc import Iterator

from client_sdk.epochs import end_of, first_day
from client_sdk.metric import Metric
from client_sdk.pending import Pending, current_epoch, keep_until
from client_sdk.registry import Registry


def watched(registry: Registry) -> list[Metric]:
    """Return the metrics whose absence is reported."""
    return [metric for metric in registry.metrics.values() if metric.when_absent is not None]


def watch(connection: sqlite3.Connection, registry: Registry, now: float) -> None:
    """Remember from which epoch on absence is reported; call inside a transaction."""
    connection.executemany(
        "INSERT OR IGNORE INTO watched VALUES (?, ?, ?)",
        [(each.name, each.epoch, current_epoch(each, now)) for each in watched(registry)],
    )


def unrecorded(connection: sqlite3.Connection, registry: Registry, now: float) -> Iterator[Pending]:
    """Yield `when_absent` for each epoch that is over, still accepted, and has no report."""
    for metric in watched(registry):
        assert metric.when_absent is not None
        (since,) = connection.execute(
            "SELECT since FROM watched WHERE metric = ? AND length = ?", (metric.name, metric.epoch)
        ).fetchone()
        recorded = {
            epoch
            for (epoch,) in connection.execute(
                "SELECT epoch FROM marks WHERE metric = ? AND length = ? AND epoch >= ?",
                (metric.name, metric.epoch, since),
            )
        }
        epoch = current_epoch(metric, now) - 1
        while epoch >= since and keep_until(metric, epoch) > now:
            day = first_day(metric.epoch, epoch)
            if epoch not in recorded and metric.starts <= day < metric.expires:
                yield Pending(metric, epoch, metric.when_absent)
            epoch -= 1


def next_end(registry: Registry, now: float) -> float | None:
    """Return when the next epoch of a watched metric ends, None without any."""
    ends = [end_of(metric.epoch, current_epoch(metric, now)) for metric in watched(registry)]
    return min(ends) if ends else None

"""The queue of finished reports on disk: how they come in, how many may wait, how they leave.

Bounded by count, by bytes and by age. A report that is dropped here stays charged: losing one is
always allowed, having it twice never. All functions act inside the caller's transaction.
"""

import sqlite3
from typing import NamedTuple

MOST_REPORTS = 10_000
MOST_BYTES = 5_000_000
LONGEST_ONCE_SECONDS = 30 * 86_400.0
"""A report of a metric that is asked once waits no longer than this after it was recorded."""


class Batch(NamedTuple):
    """Reports that go together, under one number, byte for byte the same until answered.

    Attributes:
        sequence: Its number.
        nonce: 32 hex digits.
        reports_json: The reports, joined by commas.
        reports: How many they are.
    """

    sequence: int
    nonce: str
    reports_json: bytes
    reports: int


def add(
    connection: sqlite3.Connection, report: str, *, not_before: float, keep_until: float
) -> None:
    """Queue a report, to be sent between two Unix times."""
    connection.execute(
        "INSERT INTO spool (not_before, keep_until, report) VALUES (?, ?, ?)",
        (not_before, keep_until, report),
    )


def trim(connection: sqlite3.Connection) -> int:
    """Drop the oldest reports beyond the bounds; return how many."""
    count, size = connection.execute(
        "SELECT count(*), coalesce(sum(length(report)), 0) FROM spool"
    ).fetchone()
    if count <= MOST_REPORTS and size <= MOST_BYTES:
        return 0
    dropped = connection.execute(
        "DELETE FROM spool WHERE id IN (SELECT id FROM (SELECT id,"
        " row_number() OVER newest AS number, sum(length(report)) OVER newest AS size"
        " FROM spool WINDOW newest AS (ORDER BY id DESC)) WHERE number > ? OR size > ?)",
        (MOST_REPORTS, MOST_BYTES),
    )
    return int(dropped.rowcount)


def drop_overdue(connection: sqlite3.Connection, now: float) -> int:
    """Drop what the server cannot want any more, also from a batch; return how many reports."""
    spooled: int = connection.execute("DELETE FROM spool WHERE keep_until < ?", (now,)).rowcount
    batches = connection.execute(
        "DELETE FROM batch WHERE keep_until < ? RETURNING reports", (now,)
    ).fetchall()
    return spooled + sum(int(reports) for (reports,) in batches)


def queued(connection: sqlite3.Connection) -> int:
    """Return the number of reports that wait to be sent or answered."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM spool) + (SELECT coalesce(sum(reports), 0) FROM batch)"
    ).fetchone()
    return int(row[0])


def outstanding(connection: sqlite3.Connection) -> Batch | None:
    """Return the batch that was made and not answered yet."""
    row = connection.execute(
        "SELECT sequence, nonce, body, reports FROM batch ORDER BY sequence LIMIT 1"
    ).fetchone()
    return None if row is None else Batch(*row)


def next_reports(
    connection: sqlite3.Connection, now: float, most_reports: int, most_bytes: int
) -> list[tuple[int, float, str]]:
    """Return id, keep_until and text of the reports for the next batch."""
    rows = connection.execute(
        "SELECT id, keep_until, report FROM spool WHERE not_before <= ? "
        # By age and content: the order of storing would tell a recorded report from one
        # that stands for an absence.
        "ORDER BY keep_until, report LIMIT ?",
        (now, most_reports),
    ).fetchall()
    taken, size = [], 0
    for row in rows:
        size += len(row[2].encode()) + 1
        if size > most_bytes:
            break
        taken.append(row)
    return taken


def move_to_batch(
    connection: sqlite3.Connection, batch: Batch, taken: list[tuple[int, float, str]]
) -> None:
    """Make reports leave the queue as a batch."""
    connection.execute(
        "INSERT INTO batch VALUES (?, ?, ?, ?, ?)",
        (
            batch.sequence,
            batch.nonce,
            batch.reports_json,
            batch.reports,
            max(keep for _, keep, _ in taken),
        ),
    )
    connection.executemany("DELETE FROM spool WHERE id = ?", [(row[0],) for row in taken])


def remove(connection: sqlite3.Connection, batch: Batch) -> None:
    """Forget a batch."""
    connection.execute(
        "DELETE FROM batch WHERE sequence = ? AND nonce = ?", (batch.sequence, batch.nonce)
    )

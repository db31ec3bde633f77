"""Makes the file of a device's state: complete, durable and private before it has its name.

So an empty or half-written state is always damage, never an interrupted start. A process that is
killed on the way leaves no state; of two that race, the first wins.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress

from client_sdk.locks import ProcessLock
from client_sdk.randomness import keyed_tag, random_bytes

SCHEMA_VERSION = 1
SECRET_BYTES = 32
TRIES = 20
TRY_AGAIN_SECONDS = 0.05

_TABLES = """
CREATE TABLE device (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE shares (
    metric TEXT PRIMARY KEY, reserved INTEGER NOT NULL, spent INTEGER NOT NULL,
    fits INTEGER NOT NULL, reports INTEGER NOT NULL DEFAULT 0, changes INTEGER DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE marks (
    metric TEXT NOT NULL, length TEXT NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (metric, length, epoch)
) WITHOUT ROWID;
CREATE TABLE paid (
    metric TEXT NOT NULL, channel TEXT NOT NULL, charged INTEGER NOT NULL,
    PRIMARY KEY (metric, channel)
) WITHOUT ROWID;
CREATE TABLE memory (
    id INTEGER PRIMARY KEY, metric TEXT NOT NULL, channel TEXT NOT NULL, tag BLOB NOT NULL,
    permanent BLOB NOT NULL, UNIQUE (metric, channel, tag)
);
CREATE TABLE spool (
    id INTEGER PRIMARY KEY AUTOINCREMENT, not_before REAL NOT NULL DEFAULT 0,
    keep_until REAL NOT NULL, report TEXT NOT NULL
);
CREATE TABLE watched (
    metric TEXT NOT NULL, length TEXT NOT NULL, since INTEGER NOT NULL,
    PRIMARY KEY (metric, length)
) WITHOUT ROWID;
CREATE TABLE batch (
    sequence INTEGER PRIMARY KEY, nonce TEXT NOT NULL, body BLOB NOT NULL,
    reports INTEGER NOT NULL, keep_until REAL NOT NULL
);
"""


def connect(path: str, patience_seconds: float) -> sqlite3.Connection:
    """Return a connection whose commits are durable when they return.

    Args:
        patience_seconds: How long to wait for other processes.
    """
    connection = sqlite3.connect(
        path, timeout=patience_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: str) -> None:
    """Make a new state unless another process has just made one.

    Raises:
        OSError, sqlite3.Error: It cannot be made.
    """
    draft = f"{path}.{os.urandom(8).hex()}.new"
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        secret = random_bytes(SECRET_BYTES)
        with closing(connect(draft, 10.0)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            rows = [("secret", secret), ("seal", seal(connection, secret))]
            connection.executemany("INSERT INTO device VALUES (?, ?)", rows)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        _name(draft, path)
        _make_names_durable(os.path.dirname(path))
    finally:
        with suppress(OSError):
            _patiently(lambda: os.unlink(draft))


def seal(connection: sqlite3.Connection, secret: bytes) -> bytes:
    """Return the checksum of what must never change by accident: secret, shares, payments."""
    shares = connection.execute("SELECT * FROM shares ORDER BY metric").fetchall()
    paid = connection.execute("SELECT * FROM paid ORDER BY metric, channel").fetchall()
    return keyed_tag(secret, b"seal", repr((shares, paid)).encode())


def _name(draft: str, path: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except (OSError, AttributeError):  # a file system, or a system, without hard links
        _name_under_lock(draft, path)


def _name_under_lock(draft: str, path: str) -> None:
    """Rename a draft, one process at a time: unlike a link, a rename replaces what is there."""
    lock = ProcessLock(os.path.join(os.path.dirname(path), "create.lock"))
    for _ in range(TRIES):
        if lock.acquire():
            break
        time.sleep(TRY_AGAIN_SECONDS)
    else:
        raise TimeoutError("another process has been creating it for too long")
    try:
        if not os.path.exists(path):
            _patiently(lambda: os.replace(draft, path))
    finally:
        lock.release()


def _patiently(act: Callable[[], None]) -> None:
    """Try again while a virus scanner or an indexer holds the file, as happens on Windows."""
    for _ in range(TRIES):
        with suppress(PermissionError):
            return act()
        time.sleep(TRY_AGAIN_SECONDS)
    return act()


def _make_names_durable(directory: str) -> None:
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

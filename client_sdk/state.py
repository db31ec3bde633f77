"""The device's state on disk: secret, ledger, marks, memory and queue in one SQLite file.

The state *is* the privacy guarantee, so it fails closed: a file that is empty, is missing its
tables, cannot be written or is corrupt ends reporting. It is never replaced by a fresh one,
because a fresh secret would buy new noise for old values. A new file gets its name only when it
is complete, so an empty one is always damage. SQLite checks its own structure, not content:
secret and ledger carry a seal, which finds accidents (not somebody who can read the secret).

Limit: where the whole file was deleted, or restored from a backup, nothing here can know it.

Anyone who reads this file together with its secret can test guesses about remembered values:
it is as sensitive as the values themselves. It is created readable by its owner only.
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from client_sdk.errors import StateError
from client_sdk.randomness import keyed_tag, random_bytes

SCHEMA_VERSION = 1
FILE_NAME = "state.sqlite3"
SECRET_BYTES = 32

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


class State:
    """One open connection to a device's state file.

    Args:
        directory: Where the file lies; created with mode 0700 if it does not exist.

    Raises:
        StateError: The state cannot be created, read or written, or is corrupt.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._lock = threading.RLock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.path.exists():
                if self.path.with_name(f"{FILE_NAME}-wal").exists():
                    raise FileNotFoundError("its journal is there, the file itself is gone")
                _create(self.path)
            os.close(os.open(self.path, os.O_RDWR))
            self._connection = _connect(self.path)
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"device state {self.path} cannot be used: {error}") from error
        try:
            self._check()
        except BaseException:
            self._connection.close()
            raise

    def _check(self) -> None:
        with self.transaction() as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if verdict != "ok" or version == 0:
                fault = verdict if version else "it has no tables"
                raise StateError(f"device state {self.path} is corrupt: {fault}")
            if version != SCHEMA_VERSION:
                raise StateError(
                    f"device state {self.path} has schema {version}, this version reads "
                    f"{SCHEMA_VERSION}; update the app"
                )
            if len(self.secret) != SECRET_BYTES or self._get("seal") != self._seal():
                raise StateError(f"device state {self.path} is corrupt: its seal is broken")
            # Proves that the file can be written before anything is promised.
            self._put("seal", self._seal())

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block whose writes become durable together, or not at all.

        Raises:
            StateError: The writes could not be made durable.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    before = self._connection.total_changes
                    yield self._connection
                    if self._connection.total_changes != before:
                        self._put("seal", self._seal())
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StateError(f"device state {self.path} cannot be used: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _seal(self) -> bytes:
        return _seal(self._connection, self.secret)

    @property
    def secret(self) -> bytes:
        """The device secret: it must never leave the device, it undoes permanent noise."""
        return self._get("secret") or b""

    @property
    def device(self) -> str | None:
        """The id that the server drew at enrolment, None before."""
        value = self._get("device")
        return None if value is None else value.decode()

    @property
    def device_key(self) -> bytes:
        """The key that signs batches; empty before enrolment."""
        return self._get("device_key") or b""

    def enrolled(self, device: str, key: bytes) -> None:
        """Remember the identity that the server gave."""
        with self.transaction():
            self._put("device", device.encode())
            self._put("device_key", key)

    @property
    def suspended(self) -> str | None:
        """Why this state may never report again, None while it may."""
        value = self._get("suspended")
        return None if value is None else value.decode()

    def suspend(self, reason: str) -> None:
        """End reporting from this state for good, and empty the queue."""
        with self.transaction():
            self._put("suspended", reason.encode())
            self._empty_queue()

    def next_sequence(self) -> int:
        """Take the next sequence number; call inside a transaction."""
        sequence = int.from_bytes(self._get("sequence") or b"", "big") + 1
        self._put("sequence", sequence.to_bytes(8, "big"))
        return sequence

    def withdraw(self) -> int:
        """Delete what waits to be sent, watch for absences no more; return how many reports."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM watched")
            return self._empty_queue()

    def queued(self) -> int:
        """Return the number of reports that wait to be sent or answered."""
        with self._reading():
            row = self._connection.execute(
                "SELECT (SELECT count(*) FROM spool)"
                " + (SELECT coalesce(sum(reports), 0) FROM batch)"
            ).fetchone()
            return int(row[0])

    def _empty_queue(self) -> int:
        queued = self.queued()
        self._connection.execute("DELETE FROM spool")
        self._connection.execute("DELETE FROM batch")
        return queued

    def _get(self, name: str) -> bytes | None:
        with self._reading():
            row = self._connection.execute(
                "SELECT value FROM device WHERE name = ?", (name,)
            ).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise StateError(f"device state {self.path} is corrupt: {name} is not bytes")
        return None if row is None else bytes(row[0])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise StateError(f"device state {self.path} cannot be read: {error}") from error

    def _put(self, name: str, value: bytes) -> None:
        self._connection.execute("REPLACE INTO device VALUES (?, ?)", (name, value))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _create(path: Path) -> None:
    """Make a complete, durable state under a name of its own, then give it the real name.

    A process that is killed on the way leaves no state; of two that race, the first wins.
    """
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        secret = random_bytes(SECRET_BYTES)
        with closing(_connect(draft)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            rows = [("secret", secret), ("seal", _seal(connection, secret))]
            connection.executemany("INSERT INTO device VALUES (?, ?)", rows)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        with suppress(FileExistsError):
            os.link(draft, path)
        _make_names_durable(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _make_names_durable(directory: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _seal(connection: sqlite3.Connection, secret: bytes) -> bytes:
    """Return the checksum of what must never change by accident: secret, shares, payments."""
    shares = connection.execute("SELECT * FROM shares ORDER BY metric").fetchall()
    paid = connection.execute("SELECT * FROM paid ORDER BY metric, channel").fetchall()
    return keyed_tag(secret, b"seal", repr((shares, paid)).encode())


def default_directory(project: str) -> Path:
    """Return where a project's state lies unless the host app says otherwise.

    Raises:
        StateError: The user has no home directory.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        root = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise StateError(f"no place for device state: {error}; set XDG_STATE_HOME") from error
    folder = "".join(c if c.isalnum() or c in "-_." else "_" for c in project).lstrip(".")
    if not folder or folder != project:  # two projects must not come to share a state
        folder = f"{folder or 'project'}-{hashlib.sha256(project.encode()).hexdigest()[:8]}"
    return root / "sottovoce" / folder

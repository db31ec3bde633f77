"""The device's state on disk: secret, ledger, marks, memory and queue in one SQLite file.

The state *is* the privacy guarantee, so it fails closed: a file that is empty, is missing its
tables, cannot be written or is corrupt ends reporting. It is never replaced by a fresh one,
because a fresh secret would buy new noise for old values. A new file gets its name only when it
is complete (`new_state`), so an empty one is always damage. SQLite checks its own structure, not
content: secret and ledger carry a seal, which finds accidents (not somebody who can read the
secret).

The file is open only while something is done with it: what is not open cannot be carried through
a fork.

A device can be erased while others use its state (`erasure`): it then has another secret, and every
transaction looks for that first.

Limit: where the whole file was deleted, or restored from a backup, nothing here can know it.

Anyone who reads this file together with its secret can test guesses about remembered values:
it is as sensitive as the values themselves. It is created readable by its owner only.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from client_sdk import forks, threads
from client_sdk.errors import StateErased, StateError
from client_sdk.hashing import sha256
from client_sdk.new_state import SCHEMA_VERSION, SECRET_BYTES, connect, create, seal
from client_sdk.randomness import keyed_tag
from client_sdk.spool import outstanding, queued

FILE_NAME = "state.sqlite3"
PATIENCE_SECONDS = 10.0
SUSPENDED = "suspended"
FAREWELL = "farewell"
"""Ids and keys that the server has still to erase, see `erasure`."""
FORMER = "former"
"""Ids and keys that were given up for others; they are erased together with the device."""
ERASED_FROM = "erased_from"
"""Tags of the last secrets before: by them a process that knows one recognizes an erased state."""
_TAG_BYTES = 16
UNSCRUBBED = "unscrubbed"
"""There while the file may hold bytes of what was erased."""

_open_in: dict[int, int] = {}
"""In which process each open state was opened, by its identity."""


class State:
    """A device's state file.

    Args:
        directory: Where the file lies; created with mode 0700 if it does not exist.
        patience_seconds: How long to wait for other processes that write to it.

    Raises:
        StateError: The state cannot be created, read or written, or is corrupt.
    """

    def __init__(
        self, directory: str | os.PathLike[str], patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.path = os.path.join(directory, FILE_NAME)
        self.patience_seconds = patience_seconds
        self._lock = threads.RLock()
        self._open: sqlite3.Connection | None = None
        self._closed = False
        self._known_secret: bytes | None = None
        forks.watch(self)
        with self._lock:
            try:
                os.makedirs(directory, 0o700, exist_ok=True)
                if not os.path.exists(self.path):
                    if os.path.exists(f"{self.path}-wal"):
                        raise FileNotFoundError("its journal is there, the file itself is gone")
                    create(self.path)
            except (OSError, sqlite3.Error) as error:
                raise StateError(f"device state {self.path} cannot be used: {error}") from error
            try:
                with self.transaction():
                    # Proves that the file can be written before anything is promised.
                    self.put("seal", self._seal())
                self._known_secret = self.secret
                self.scrub()
            except BaseException:
                self.close()
                raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block whose writes become durable together, or not at all.

        Raises:
            StateErased: Another process, or another client, has erased the device.
            StateError: The writes could not be made durable.
        """
        with self._lock:
            try:
                connection = self._connection
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._recognize(connection)
                    before = connection.total_changes
                    yield connection
                    if connection.total_changes != before:
                        self.put("seal", self._seal())
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StateError(f"device state {self.path} cannot be used: {error}") from error

    def rest(self) -> None:
        """Close the file until it is needed again."""
        with self._lock:
            if self._open is not None and not self._open.in_transaction:
                self._open.close()
                self._open = None
                _open_in.pop(id(self), None)

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._closed = True
            self.rest()

    def __del__(self) -> None:
        with suppress(Exception):  # it never opened, or the interpreter is ending
            if _open_in.get(id(self)) == os.getpid():
                self.close()

    def hold(self, timeout_seconds: float) -> bool:
        """Come to rest and stay so until `let_go`; False if that takes too long."""
        if not self._lock.acquire(True, timeout_seconds):
            return False
        self.rest()
        return True

    def let_go(self) -> None:
        """End what `hold` began."""
        self._lock.release()

    def scrub(self) -> None:
        """Leave no byte of what was erased in the file or its journal, if there may be any.

        What cannot be done now, on a full disk for instance, is done when the state is opened
        next.
        """
        with self._lock, suppress(sqlite3.Error, StateError):
            if self.get(UNSCRUBBED) is None:
                return
            connection = self._connection
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("VACUUM")
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                with self.transaction():
                    connection.execute("DELETE FROM device WHERE name = ?", (UNSCRUBBED,))

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._opened()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise StateError(f"device state {self.path} is closed")
        # Counted as open from here on: a fork may come at any moment.
        inherited = [pid for pid in list(_open_in.values()) if pid != os.getpid()]
        if inherited:
            raise StateError(
                f"device state {self.path} was in use when this process was forked from process "
                f"{inherited[0]}; fork before the first record, or with Python's own fork"
            )
        _open_in[id(self)] = os.getpid()
        connection = None
        try:
            size = os.stat(self.path).st_size  # SQLite would create what is missing
            has_journal = os.path.exists(f"{self.path}-wal")
            connection = connect(self.path, self.patience_seconds)
            # A crash may have cut the last page if the journal has it too.
            self._check(connection, 0 if has_journal else size)
        except BaseException as error:
            if connection is not None:
                connection.close()
            _open_in.pop(id(self), None)
            if isinstance(error, OSError | sqlite3.Error) and not isinstance(error, StateError):
                raise StateError(f"device state {self.path} cannot be used: {error}") from error
            raise
        return connection

    def _check(self, connection: sqlite3.Connection, size: int) -> None:
        connection.execute("BEGIN")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        if size % page_bytes:  # SQLite would read zeros for what is missing
            verdict = f"{size} bytes are not whole pages of {page_bytes}"
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if verdict != "ok" or version == 0:
            fault = verdict if version else "it has no tables"
            raise StateError(f"device state {self.path} is corrupt: {fault}")
        if version != SCHEMA_VERSION:
            raise StateError(
                f"device state {self.path} has schema {version}, this version reads "
                f"{SCHEMA_VERSION}; update the app"
            )
        secret = self._read(connection, "secret") or b""
        if len(secret) != SECRET_BYTES or self._read(connection, "seal") != seal(
            connection, secret
        ):
            raise StateError(f"device state {self.path} is corrupt: its seal is broken")
        self._recognize(connection)
        connection.execute("ROLLBACK")

    def _recognize(self, connection: sqlite3.Connection) -> None:
        """Make sure that this is the device that it was when the state was opened."""
        known = self._known_secret
        if known in (None, self._read(connection, "secret")):
            return
        if successor_tag(known or b"") in split_tags(self._read(connection, ERASED_FROM)):
            raise StateErased(f"device state {self.path} was erased while it was in use")
        raise StateError(f"device state {self.path} was replaced while it was in use")

    def _seal(self) -> bytes:
        return seal(self._connection, self.secret)

    @property
    def secret(self) -> bytes:
        """The device secret: it must never leave the device, it undoes permanent noise."""
        return self.get("secret") or b""

    @property
    def device(self) -> str | None:
        """The id that the server drew at enrolment, None before."""
        value = self.get("device")
        return None if value is None else value.decode()

    @property
    def device_key(self) -> bytes:
        """The key that signs batches; empty before enrolment."""
        return self.get("device_key") or b""

    @property
    def identity(self) -> bytes:
        """Id and key as they are kept for an erasure; empty before enrolment."""
        return b"" if self.device is None else bytes.fromhex(self.device) + self.device_key

    def enrolled(self, device: str, key: bytes) -> None:
        """Remember the identity that the server gave."""
        with self.transaction():
            self.put("device", device.encode())
            self.put("device_key", key)

    def forget_identity(self) -> None:
        """Let the server give another one; call inside a transaction.

        Secret, ledger and memory stay: it is the same device, and has no second life to spend.
        So do old id and key, under the name of a former one: the server may have a record of it.
        """
        if self.identity:
            self.put(FORMER, (self.get(FORMER) or b"") + self.identity)
        self._connection.execute("DELETE FROM device WHERE name IN ('device', 'device_key')")
        self.put("sequence", bytes(8))

    def gave_up(self, sequence: int) -> None:
        """Note that a batch is deleted whose answer nobody knows; call inside a transaction.

        With the first of its batches an identity goes too, so that every identity begins with 1: a
        server that has been restored from a backup takes who begins later for a device whose record
        was lost, and charges it what that may have spent.
        """
        if sequence == 1:
            self.forget_identity()

    @property
    def is_leaving(self) -> bool:
        """Whether the server has still to erase an earlier life of this device."""
        return bool(self.get(FAREWELL))

    @property
    def suspended(self) -> str | None:
        """Why this state may never report again, None while it may."""
        value = self.get(SUSPENDED)
        return None if value is None else value.decode()

    def suspend(self, reason: str) -> None:
        """End reporting from this state for good, and empty the queue."""
        with self.transaction():
            self.put(SUSPENDED, reason.encode())
            self._empty_queue()

    def next_sequence(self) -> int:
        """Take the next sequence number; call inside a transaction."""
        sequence = int.from_bytes(self.get("sequence") or b"", "big") + 1
        self.put("sequence", sequence.to_bytes(8, "big"))
        return sequence

    def withdraw(self) -> int:
        """Delete what waits to be sent, watch for absences no more; return how many reports."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM watched")
            batch = outstanding(connection)
            if batch is not None:
                self.gave_up(batch.sequence)
            return self._empty_queue()

    def queued(self) -> int:
        """Return the number of reports that wait to be sent or answered."""
        with self._reading() as connection:
            return queued(connection)

    def _empty_queue(self) -> int:
        waiting = self.queued()
        self._connection.execute("DELETE FROM spool")
        self._connection.execute("DELETE FROM batch")
        return waiting

    def get(self, name: str) -> bytes | None:
        """Return what is kept under a name."""
        with self._reading() as connection:
            return self._read(connection, name)

    def put(self, name: str, value: bytes) -> None:
        """Keep something under a name; call inside a transaction."""
        self._connection.execute("REPLACE INTO device VALUES (?, ?)", (name, value))

    def _read(self, connection: sqlite3.Connection, name: str) -> bytes | None:
        row = connection.execute("SELECT value FROM device WHERE name = ?", (name,)).fetchone()
        if row is not None and not isinstance(row[0], bytes):
            raise StateError(f"device state {self.path} is corrupt: {name} is not bytes")
        return None if row is None else bytes(row[0])

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._connection
        except sqlite3.Error as error:
            raise StateError(f"device state {self.path} cannot be read: {error}") from error


def successor_tag(secret: bytes) -> bytes:
    """Return what a state that was erased keeps of its secret of before: 128 bits, keyed."""
    return keyed_tag(secret, b"erased")


def split_tags(tags: bytes | None) -> list[bytes]:
    """Return the tags that are kept under ERASED_FROM, oldest first."""
    each = tags or b""
    return [each[at : at + _TAG_BYTES] for at in range(0, len(each), _TAG_BYTES)]


def default_directory(project: str) -> str:
    """Return where a project's state lies unless the host app says otherwise.

    Raises:
        StateError: The user has no home directory.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    usual = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
    home = os.path.expanduser("~")
    if not base and home == "~":
        raise StateError("no place for device state: there is no home; set XDG_STATE_HOME")
    folder = "".join(c if c.isalnum() or c in "-_." else "_" for c in project).lstrip(".")
    if not folder or folder != project:  # two projects must not come to share a state
        folder = f"{folder or 'project'}-{sha256(project.encode()).hexdigest()[:8]}"
    return os.path.join(base or os.path.join(home, usual), "sottovoce", folder)

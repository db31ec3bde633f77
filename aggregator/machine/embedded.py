"""Starts a real Valkey (or Redis) server for one machine, on a private unix socket, with no port.

The server ends with the process that started it, however that ends. One process starts the server
of a directory, others attach to it.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from aggregator.machine.child import GRACE_SECONDS, Child, end
from aggregator.machine.server_program import EmbeddedServerError, find_server, require_version

__all__ = ["EmbeddedServer", "EmbeddedServerError", "find_server"]

_LONGEST_SOCKET_PATH = 100  # bytes; sockaddr_un holds 104 on macOS, 108 on Linux, with a final zero
_POLL_SECONDS = 0.02
_SOCKET = "valkey.sock"
_LOG = "valkey.log"


@dataclass
class EmbeddedServer:
    """A running server: one that this process started, or one of another process, attached to.

    Made by `start`; ended by `stop` or as a context manager.
    """

    socket: Path
    _child: Child | None = field(repr=False)
    _directory: Path = field(repr=False)
    _starter_lock: IO[str] | None = field(repr=False)
    _command: Sequence[str] = field(default=(), repr=False)

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        appendfsync: Literal["always", "everysec", "no"] = "always",
        maxmemory: str = "1gb",
        program: Path | None = None,
        timeout_seconds: float = 60.0,
    ) -> Self:
        """Start the server that keeps its data in `directory`, or attach to the one that does.

        Returns once it answers and has loaded its data. A server attached to keeps the settings
        that it was started with, and `stop` leaves it running.

        Args:
            directory: Made with mode 0700 if it is missing; nobody else may have access to it.
            appendfsync: "always": an acknowledged write survives a power cut; "everysec": all but
                those of the last second or two, which a kill -9 during a sync may cost, too; "no":
                it survives the server's end only.
            maxmemory: As the server reads it. When that is full, writes are refused.
            program: The server; by default what `find_server` finds.
            timeout_seconds: Longest time without an answer and without progress in loading.

        Raises:
            EmbeddedServerError: No program or one that is too old, a directory open to others, or
                a server that did not come up (with the end of its log).
        """
        program = find_server() if program is None else require_version(program)
        directory = directory.absolute()
        _make_private(directory)
        settings = ("--appendfsync", appendfsync, "--maxmemory", maxmemory)
        patience = _Patience(timeout_seconds)
        while not patience.exhausted():
            lock = (directory / "starter.lock").open("a+")
            if _take(lock):
                return cls._own(directory, lock, [str(program), *settings], patience)
            with lock:
                lock.seek(0)
                recorded = lock.read()
            if recorded and patience.sees_ready(Path(recorded)):
                return cls(Path(recorded), None, directory, None)
            time.sleep(_POLL_SECONDS)
        raise EmbeddedServerError(
            f"another process holds {directory / 'starter.lock'}, but its server does not answer; "
            f"see {directory / _LOG}"
        )

    @classmethod
    def _own(
        cls, directory: Path, lock: IO[str], command: list[str], patience: "_Patience"
    ) -> Self:
        log = directory / _LOG
        log_begins = log.stat().st_size if log.exists() else 0
        started = None
        try:
            with _server_lock(directory) as server_lock:
                _forget_socket(directory, lock)
                _take_within(server_lock, GRACE_SECONDS + 5)
                socket = _new_socket(directory, lock)
                arguments = [*command, *_settings(directory, socket)]
                child = Child(arguments, log=log, pass_fds=[server_lock.fileno()])
            started = cls(socket, child, directory, lock, arguments)
            while not patience.sees_ready(socket):
                if child.ended() or patience.exhausted():
                    raise EmbeddedServerError(
                        f"{command[0]} did not come up ({child.status_in_words()}); the end of "
                        f"{log}:\n{_end_of(log, log_begins)}"
                    )
                time.sleep(_POLL_SECONDS)
        except BaseException:
            if started is not None:
                started.stop()
            lock.close()
            raise
        return started

    @property
    def url(self) -> str:
        """For `redis.Redis.from_url`."""
        return f"unix://{quote(str(self.socket))}"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        if self._child is not None:
            return self._child.pid
        with _client(self.socket) as client:
            return int(client.info("server")["process_id"])

    @property
    def attached(self) -> bool:
        """Whether another process started the server, and alone can stop it."""
        return self._child is None

    def running(self) -> bool:
        """Whether the server is still there, loading or ready."""
        if self._child is not None:
            return not self._child.ended()
        with suppress(redis.ConnectionError, redis.TimeoutError), _client(self.socket) as client:
            return bool(client.info("server"))
        return False

    @property
    def log(self) -> Path:
        """Where the server writes its log."""
        return self._directory / _LOG

    def revive(self) -> None:
        """Start the server again, at the same address, if this process started it and it has ended.

        Returns at once: until the server has loaded its data, it says so to whoever asks.

        Raises:
            EmbeddedServerError, OSError: It cannot be started now.
        """
        if self._child is None or not self._child.ended():
            return
        with _server_lock(self._directory) as server_lock:
            _take_within(server_lock, GRACE_SECONDS + 5)
            self._child = Child(self._command, log=self.log, pass_fds=[server_lock.fileno()])

    def stop(self) -> None:
        """End the server if this process started it; its data stays. Safe to call twice."""
        if self._child is None or self._starter_lock is None or self._starter_lock.closed:
            return
        end([self._child])
        _forget_socket(self._directory, self._starter_lock)
        self._starter_lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Patience:
    """Waits for a server, and gives up after a time without an answer or progress in loading."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds
        self._loaded_bytes = -1

    def exhausted(self) -> bool:
        return time.monotonic() > self._deadline

    def sees_ready(self, socket: Path) -> bool:
        """Whether the server on `socket` answers and has loaded its data."""
        try:
            with _client(socket) as client:
                state = client.info("persistence")
        except (redis.ConnectionError, redis.TimeoutError):
            return False
        loaded_bytes = int(state.get("loading_loaded_bytes", -1))
        if loaded_bytes > self._loaded_bytes:
            self._loaded_bytes = loaded_bytes
            self._deadline = time.monotonic() + self._timeout_seconds
        return not state["loading"]


def _settings(directory: Path, socket: Path) -> list[str]:
    """What makes the server private, durable, and small with many devices."""
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "600",
        "dir": str(directory),
        "save": "",
        "appendonly": "yes",
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "yes",
        # Evicting a ledger record would give its device a new budget.
        "maxmemory-policy": "noeviction",
        "hash-max-listpack-entries": "512",
        "hash-max-listpack-value": "320",
        "set-max-intset-entries": "512",
        "busy-reply-threshold": "1000",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        raise EmbeddedServerError(
            f"the store's directory must be closed to others (chmod 700 {directory}), "
            f"got mode {mode:04o}"
        )


def _new_socket(directory: Path, record: IO[str]) -> Path:
    """Choose the socket's path and write it into `record`, for those who attach."""
    socket = directory / _SOCKET
    if _too_long(socket):
        socket = Path(tempfile.mkdtemp(prefix="sottovoce-")) / _SOCKET
        if _too_long(socket):
            socket.parent.rmdir()
            raise EmbeddedServerError(
                f"a unix socket's path must have at most {_LONGEST_SOCKET_PATH} bytes, got "
                f"{socket}: set TMPDIR to a shorter folder"
            )
    record.write(str(socket))
    record.flush()
    return socket


def _too_long(socket: Path) -> bool:
    return len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH


def _forget_socket(directory: Path, record: IO[str]) -> None:
    """Clear `record`, and remove the temporary folder that it names, if it names one."""
    record.seek(0)
    recorded = record.read()
    record.truncate(0)
    folder = Path(recorded).parent
    if recorded and folder != directory:
        (folder / _SOCKET).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _server_lock(directory: Path) -> IO[str]:
    """Open the lock that the server itself holds: a predecessor whose owner was killed may still be
    ending, and two servers on one data file would ruin it."""
    return (directory / "server.lock").open("a")


def _take(lock: IO[str]) -> bool:
    """Lock an open file if nobody holds it; it stays locked until every copy of it is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_within(lock: IO[str], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _take(lock):
        if time.monotonic() > deadline:
            raise EmbeddedServerError(f"a server that has lost its owner still holds {lock.name}")
        time.sleep(_POLL_SECONDS)


def _client(socket: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0))


def _end_of(log: Path, begins: int) -> str:
    with log.open("rb") as file:
        file.seek(max(begins, log.stat().st_size - 2000))
        return file.read().decode(errors="replace").strip()

"""The connection to the store: commands and scripts, and what can go wrong with them.

Whatever a store can say that may pass by itself becomes `StoreUnavailable`. One immediate retry
after a broken connection is safe because every write here is: batches carry sequence numbers, a
fold commits against its cursor, and the rest may be repeated.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import (
    ClusterError,
    LockError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
)

from aggregator.nodes import is_cluster, nodes_of

_MAY_PASS = (
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
)
"""Error codes of a store that is there and cannot serve now."""

_OUR_FAULT = ("same key slot", "No way to dispatch")
"""What redis-py says of a command that no cluster could ever run."""

SEE_ACL = 'see docs/operations.md, "A user for the store"'

Script = Callable[[Sequence[str], Sequence[str | bytes | int]], Any]
"""Runs a script on keys and arguments."""

_LONGEST_WAIT_SECONDS = 0.5
"""For replicas: a thread that waits takes no other upload, and the sender tries again anyway."""


class StoreUnavailable(OSError):
    """The store cannot be reached or cannot serve now; trying again later may help."""


class StoreRefused(ValueError):
    """The store must not be used as it is; the message says what to do."""


class Connection:
    """Pools of connections; safe for threads, to be made anew after a fork.

    Args:
        url: Of a form that aggregator.nodes lists.
        timeout_seconds: To wait for a connection, and for an answer.
        replicas: That must have what a script wrote which asks for it, see `script`.

    Raises:
        ValueError: The URL is of no such form.

    Attributes:
        clustered: Whether the URL names a cluster.
    """

    def __init__(self, url: str, timeout_seconds: float, replicas: int = 0) -> None:
        self._nodes = nodes_of(url, timeout_seconds)
        self.clustered = is_cluster(url)
        self._replicas = replicas
        self._wait_milliseconds = int(1000 * min(_LONGEST_WAIT_SECONDS, timeout_seconds / 2))

    def call(self, *command: str | bytes | int) -> Any:
        """Run a command.

        Raises:
            StoreUnavailable: No answer, or one that says "not now".
        """
        with _translated():
            return self._nodes.execute(*command)

    def refusal(self, *command: str | bytes | int) -> str | None:
        """Run a command without a key on every server; return why one refuses, if one does.

        Raises:
            StoreUnavailable: No answer, or one that says "not now".
        """
        try:
            self.call_each(*command)
        except (redis.ResponseError, StoreRefused) as error:
            return str(error)
        return None

    def call_each(self, *command: str | bytes | int) -> list[Any]:
        """Run a command that has no key on every server that takes writes.

        Raises:
            StoreUnavailable: One of them gave no answer, or one that says "not now".
        """
        with _translated():
            return self._nodes.execute_on_each(*command)

    def call_reachable(self, *command: str | bytes | int) -> list[Any]:
        """Run a command that has no key on every server that takes writes and answers.

        Raises:
            StoreUnavailable: Nobody tells which servers there are.
        """
        with _translated():
            return self._nodes.execute_on_reachable(*command)

    def one_per_server(self, keys: Sequence[str]) -> list[str]:
        """Return of some keys the first on each server that takes writes."""
        with _translated():
            return self._nodes.one_per_primary(keys)

    def script(self, name: str, *, replicated: bool = False) -> Script:
        """Return a script of aggregator/lua, sent in full when a server says that it lacks it.

        Args:
            replicated: Whether it raises StoreUnavailable, though it ran, if fewer replicas have
                what it wrote than this connection was told.
        """
        text = files("aggregator").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        send = self._replicated if replicated and self._replicas else self._sent

        def run(keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
            with _translated():
                try:
                    return send(keys, "EVALSHA", digest, len(keys), *keys, *arguments)
                except NoScriptError:
                    # Not loaded and called again: it may be flushed between the two, and each
                    # server of a cluster has its own.
                    return send(keys, "EVAL", text, len(keys), *keys, *arguments)

        return run

    def _sent(self, keys: Sequence[str], *command: str | bytes | int) -> Any:
        return self._nodes.execute(*command)

    def _replicated(self, keys: Sequence[str], *command: str | bytes | int) -> Any:
        answer, acknowledged = self._nodes.execute_replicated(
            keys[0], command, self._replicas, self._wait_milliseconds
        )
        if acknowledged < self._replicas:
            raise StoreUnavailable(
                f"{acknowledged} replicas have this write, {self._replicas} must: try again"
            )
        return answer

    @contextmanager
    def locked(self, key: str, seconds: float) -> Iterator[Callable[[], None]]:
        """Hold a lock in the store, or wait for it as long as it lasts without its holder.

        Args:
            seconds: It is free again so long after its holder died.

        Yields:
            What makes it last `seconds` from then; to be called often enough.

        Raises:
            StoreUnavailable: Another holds it, or took it from us.
        """
        with _translated():
            lock = self._nodes.lock(key, seconds)
            if not lock.acquire(blocking_timeout=seconds):
                raise StoreUnavailable("another process holds the store's lock: try again")

        def hold_on() -> None:
            with _translated():
                lock.reacquire()

        try:
            yield hold_on
        finally:
            with suppress(StoreUnavailable), _translated():
                lock.release()

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except redis.TimeoutError as error:
        raise StoreUnavailable("the store does not answer in time") from error
    except redis.BusyLoadingError as error:
        raise StoreUnavailable("the store is loading its data") from error
    except redis.AuthenticationError as error:
        raise StoreUnavailable("the store refuses the user or password of REDIS_URL") from error
    except redis.ConnectionError as error:
        # Its text holds the store's address, and this message is shown to strangers.
        raise StoreUnavailable("the store cannot be reached") from error
    except redis.exceptions.AskError as error:
        # A redirect; its text holds an address too.
        raise StoreUnavailable("the store's cluster is moving this part of it") from error
    except NoPermissionError as error:
        raise StoreRefused(f"the store's user lacks a permission: {error}; {SEE_ACL}") from error
    except redis.ResponseError as error:
        code = str(error).partition(" ")[0].lstrip("-")
        # redis-py strips the code of errors that it has a class for.
        known = isinstance(
            error,
            redis.ReadOnlyError
            | redis.OutOfMemoryError
            | redis.exceptions.TryAgainError
            | ClusterError,
        )
        if known or code in _MAY_PASS:
            raise StoreUnavailable(f"the store cannot serve now: {error}") from error
        raise
    except LockError as error:
        raise StoreUnavailable("another process took over the store's lock: try again") from error
    except ClusterError as error:
        raise StoreUnavailable("the store's cluster is moving this part of it") from error
    except RedisClusterException as error:
        if any(said in str(error) for said in _OUR_FAULT):
            raise
        if "Cluster mode is not enabled" in str(error):
            raise StoreRefused(
                "the store does not tell the nodes of its cluster: if it is none, write redis:// "
                f"or rediss:// in REDIS_URL; if its user may not ask, {SEE_ACL}"
            ) from error
        raise StoreUnavailable("the store's cluster cannot be reached") from error

"""The connection to the store: commands and scripts, and what can go wrong with them.

Whatever a store can say that may pass by itself becomes `StoreUnavailable`. One immediate retry
after a broken connection is safe because every write here is: batches carry sequence numbers, a
fold commits against its cursor, and the rest may be repeated.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

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

Script = Callable[[Sequence[str], Sequence[str | bytes | int]], Any]
"""Runs a script on keys and arguments."""


class StoreUnavailable(OSError):
    """The store cannot be reached or cannot serve now; trying again later may help."""


class StoreRefused(ValueError):
    """The store must not be used as it is; the message says what to do."""


class Connection:
    """A pool of connections; safe for threads, to be made anew after a fork."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            # Not after a timeout: a store that is slow needs no second load.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        # Commands by name: the typed methods answer in unions that cover every client and protocol.
        self._execute: Callable[..., Any] = self._redis.execute_command

    def call(self, *command: str | bytes | int) -> Any:
        """Run a command.

        Raises:
            StoreUnavailable: No answer, or one that says "not now".
        """
        with _translated():
            return self._execute(*command)

    def refusal(self, *command: str | bytes | int) -> str | None:
        """Run a command that a store may refuse, by its rights or its state; return why it does.

        Raises:
            StoreUnavailable: No answer, or one that says "not now".
        """
        try:
            self.call(*command)
        except redis.ResponseError as error:
            return str(error)
        return None

    def script(self, name: str) -> Script:
        """Return a script of aggregator/lua, loaded when the store says that it lacks it."""
        text = files("aggregator").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        script = self._redis.register_script(text)

        def run(keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
            with _translated():
                return script(keys=keys, args=arguments)

        return run

    def close(self) -> None:
        """Close all connections."""
        self._redis.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except redis.TimeoutError as error:
        raise StoreUnavailable("the store does not answer in time") from error
    except redis.BusyLoadingError as error:
        raise StoreUnavailable("the store is loading its data") from error
    except redis.ConnectionError as error:
        # Its text holds the store's address, and this message is shown to strangers.
        raise StoreUnavailable("the store cannot be reached") from error
    except redis.ResponseError as error:
        code = str(error).partition(" ")[0].lstrip("-")
        # redis-py strips the code of errors that it has a class for.
        known = isinstance(
            error, redis.ReadOnlyError | redis.OutOfMemoryError | redis.exceptions.ClusterError
        )
        if known or code in _MAY_PASS:
            raise StoreUnavailable(f"the store cannot serve now: {error}") from error
        raise

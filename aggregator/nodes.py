"""The servers behind a store's URL: one, or a Redis Cluster. Both take commands in the same way.

    redis://  rediss://  unix://                    one server
    redis+cluster://host:port,host2:port2           a cluster, asked for its other nodes
    rediss+cluster://user:password@host:port        the same under TLS

A command is sent again once, at once, after a broken connection; never after a timeout: a store
that is slow needs no second load. In a cluster it follows its key: MOVED and ASK are redirects, and
while a slot moves (TRYAGAIN) it is tried for about half a second.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.exceptions import (
    AskError,
    ClusterDownError,
    RedisClusterException,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.lock import Lock
from redis.retry import Retry

CLUSTER_SCHEMES = ("redis+cluster", "rediss+cluster")
_DEFAULT_PORT = 6379
_REDIRECTS = 16
_REDIRECT_PAUSE_SECONDS = 0.05

Word = str | bytes | int
_T = TypeVar("_T")

# redis-py gives these no types.
_node: Callable[..., Any] = ClusterNode
_parse_url: Callable[[str], dict[str, Any]] = parse_url


class Nodes(Protocol):
    """What a connection needs of the store's servers; errors are redis-py's."""

    def execute(self, *command: Word) -> Any:
        """Run a command where its key lies."""

    def execute_replicated(
        self, key: str, command: Sequence[Word], replicas: int, milliseconds: int
    ) -> tuple[Any, int]:
        """Run a command where `key` lies; return its answer and how many replicas have it by then.

        Args:
            milliseconds: The longest to wait for that many replicas.
        """

    def execute_on_each(self, *command: Word) -> list[Any]:
        """Run a command that has no key on every primary."""

    def execute_on_reachable(self, *command: Word) -> list[Any]:
        """Run a command that has no key on every primary; leave out those that do not answer."""

    def one_per_primary(self, keys: Sequence[str]) -> list[str]:
        """Return the first of these keys that lies on each primary that has any."""

    def lock(self, key: str, seconds: float) -> Lock:
        """Return a lock that lies under `key` and lasts so long without its holder."""

    def close(self) -> None:
        """Close all connections."""


def is_cluster(url: str) -> bool:
    """Say whether a URL names a cluster."""
    return urlsplit(url).scheme in CLUSTER_SCHEMES


def nodes_of(url: str, timeout_seconds: float) -> Nodes:
    """Return the servers that a URL names; none is asked for anything yet.

    Raises:
        ValueError: The URL is of no form that is known.
    """
    return (Cluster if is_cluster(url) else OneServer)(url, timeout_seconds)


class OneServer:
    """A single server, with or without replicas that the URL does not name."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        # Commands by name: the typed methods answer in unions that cover every client and protocol.
        self._execute: Callable[..., Any] = self._redis.execute_command

    def execute(self, *command: Word) -> Any:
        return self._execute(*command)

    def execute_replicated(
        self, key: str, command: Sequence[Word], replicas: int, milliseconds: int
    ) -> tuple[Any, int]:
        return _and_wait(self._redis, command, replicas, milliseconds)

    def execute_on_each(self, *command: Word) -> list[Any]:
        return [self._execute(*command)]

    def execute_on_reachable(self, *command: Word) -> list[Any]:
        with suppress(redis.RedisError):
            return self.execute_on_each(*command)
        return []

    def one_per_primary(self, keys: Sequence[str]) -> list[str]:
        return list(keys[:1])

    def lock(self, key: str, seconds: float) -> Lock:
        made: Lock = self._redis.lock(key, timeout=seconds)
        return made

    def close(self) -> None:
        self._redis.close()


class _Cluster(RedisCluster):
    ERRORS_ALLOW_RETRY: Any = (redis.ConnectionError, ClusterDownError, SlotNotCoveredError)


class Cluster:
    """A Redis Cluster, asked for its nodes with the first command; safe for threads."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self._seeds, options = parse_cluster_url(url)
        self._options = options | {
            "socket_timeout": timeout_seconds,
            "socket_connect_timeout": timeout_seconds,
            "retry": Retry(NoBackoff(), 1),
            "require_full_coverage": False,  # what is served is served while another part is down
        }
        self._made: Any = None

    def execute(self, *command: Word) -> Any:
        return self._following(lambda cluster: cluster.execute_command(*command))

    def execute_replicated(
        self, key: str, command: Sequence[Word], replicas: int, milliseconds: int
    ) -> tuple[Any, int]:
        def run(cluster: Any) -> tuple[Any, int]:
            # WAIT is about the writes of its own connection, so both go to the node in one piece,
            # past redis-py's redirects. All of these errors mean that nothing was run.
            for left in reversed(range(_REDIRECTS)):
                node = cluster.get_node_from_key(key)
                try:
                    if node is None:
                        raise SlotNotCoveredError("a slot is served by no node")
                    client = cluster.get_redis_connection(node)
                    return _and_wait(client, command, replicas, milliseconds)
                except (AskError, TryAgainError):
                    if not left:
                        raise
                    time.sleep(_REDIRECT_PAUSE_SECONDS)
                    cluster.nodes_manager.initialize()
            raise AssertionError("the last round returns or raises")

        return self._following(lambda cluster: _again_elsewhere(cluster, run))

    def execute_on_each(self, *command: Word) -> list[Any]:
        def run(cluster: Any) -> list[Any]:
            primaries = cluster.get_primaries()
            return [cluster.execute_command(*command, target_nodes=node) for node in primaries]

        return self._following(lambda cluster: _again_elsewhere(cluster, run))

    def execute_on_reachable(self, *command: Word) -> list[Any]:
        answers = []
        for node in self._following(lambda cluster: cluster.get_primaries()):
            with suppress(redis.RedisError, RedisClusterException):
                answers.append(self._cluster().execute_command(*command, target_nodes=node))
        return answers

    def one_per_primary(self, keys: Sequence[str]) -> list[str]:
        def run(cluster: Any) -> list[str]:
            first: dict[str, str] = {}
            for key in keys:
                node = cluster.get_node_from_key(key)
                first.setdefault("" if node is None else str(node.name), key)
            return list(first.values())

        return self._following(run)

    def lock(self, key: str, seconds: float) -> Lock:
        made: Lock = self._following(lambda cluster: cluster.lock(key, timeout=seconds))
        return made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _following(self, run: Callable[[Any], _T]) -> _T:
        try:
            return run(self._cluster())
        except SlotNotCoveredError:
            raise
        except RedisClusterException:
            # No node that it knows answers. Names in the URL may have new addresses by now.
            made, self._made = self._made, None
            if made is not None:
                made.close()
            raise

    def _cluster(self) -> Any:
        # Made outside of any lock: while the cluster is away, threads must not queue for timeouts.
        made = self._made
        if made is None:
            nodes = [_node(host, port) for host, port in self._seeds]
            made = self._made = _Cluster(startup_nodes=nodes, **self._options)
        return made


def _again_elsewhere(cluster: Any, run: Callable[[Any], _T]) -> _T:
    try:
        return run(cluster)
    except (redis.ConnectionError, ClusterDownError, SlotNotCoveredError):
        cluster.nodes_manager.initialize()
        return run(cluster)
    except redis.TimeoutError:
        # Not again; but the next must not find a server that hangs and was replaced.
        cluster.nodes_manager.initialize()
        raise


def _and_wait(
    client: redis.Redis, command: Sequence[Word], replicas: int, milliseconds: int
) -> tuple[Any, int]:
    with client.pipeline(transaction=False) as pipe:
        queue: Callable[..., Any] = pipe.execute_command
        queue(*command)
        queue("WAIT", replicas, milliseconds)
        answer, acknowledged = pipe.execute(raise_on_error=False)
    for reply in (answer, acknowledged):
        if isinstance(reply, Exception):
            raise reply
    return answer, int(acknowledged)


def parse_cluster_url(url: str) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Return the hosts and ports that a cluster's URL names, and redis-py's options.

    Raises:
        ValueError: It is not of that form. Shows no part of it: it may hold a password.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.removesuffix("+cluster")
    login, at, hosts = parts.netloc.rpartition("@")
    query = f"?{parts.query}" if parts.query else ""
    seeds, options = [], dict[str, Any]()
    for host in hosts.split(","):
        # One URL a host, so that user, password, brackets and options are read as redis-py does.
        options = dict(_parse_url(f"{scheme}://{login}{at}{host}/{query}"))
        name, port = options.pop("host", None), options.pop("port", _DEFAULT_PORT)
        if not name:
            raise ValueError("REDIS_URL must be like redis+cluster://host:6379,host2:6379")
        seeds.append((name, port))
    if parts.path.strip("/") not in ("", "0") or options.pop("db", 0):
        raise ValueError("REDIS_URL must name no database: a cluster has number 0 only")
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    return seeds, options

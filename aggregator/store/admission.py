"""Whether a store may be used: asked at start and by readiness checks."""

import logging
import re
from importlib.resources import files

from aggregator.connection import SEE_ACL, Connection, StoreRefused
from aggregator.store import migrations
from aggregator.store.layout import READY, SHAPE, Layout, limit

OLDEST_VERSION = (7, 0)
_MOST_IN_BUCKET = 512
"""Entries up to which a ledger bucket should stay compact, as the embedded server is set."""
_RECORD_BYTES = 26

_log = logging.getLogger(__name__)

_MISMATCH = {
    "shards": (
        "the store was begun with {found} shards, which is fixed for life; "
        "set SOTTOVOCE_SHARDS={found} instead of {value}"
    ),
    "buckets": (
        "the store was begun with {found} ledger buckets per shard, which is fixed for life, and "
        "these settings make {value}; set SOTTOVOCE_PLANNED_DEVICES to what it was at first"
    ),
    "pseudonym_key": (
        "the store was begun with another pseudonym key (seal {found}, this one has {value}), "
        "under which every device would get a new budget; restore the key file"
    ),
}


def check(connection: Connection, layout: Layout) -> None:
    """Make sure that a store may be used with this layout; claim it if it is new.

    Raises:
        StoreRefused: Too old, may evict, begun with another layout, or of another schema.
        StoreUnavailable: It cannot be asked now.
    """
    check_layout(connection, layout)
    migrations.require_newest(connection)


def check_layout(connection: Connection, layout: Layout) -> None:
    """Do what `check` does, whatever schema the store has."""
    for server in connection.call_each("INFO", "server"):
        version = str(server["redis_version"])
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
            raise StoreRefused(f"the store must be version 7.0 or newer, it is {version}")
    if not connection.clustered and connection.call("INFO", "cluster").get("cluster_enabled"):
        raise StoreRefused(
            "the store is a cluster, of which redis:// would reach one node: write REDIS_URL like "
            "redis+cluster://host:6379,host2:6379"
        )
    check_policy(connection)
    _check_permissions(connection, layout)
    shape: dict[str, str | int] = {
        "shards": layout.shards,
        "buckets": layout.buckets,
        "pseudonym_key": layout.seal,
    }
    for name, value in shape.items():
        connection.call("HSETNX", SHAPE, name, value)
        found = connection.call("HGET", SHAPE, name).decode()
        if found != str(value):
            raise StoreRefused(_MISMATCH[name].format(found=found, value=value))


def _check_permissions(connection: Connection, layout: Layout) -> None:
    """Refuse a user under which a script would stop half way, with no way back."""
    on_shards: set[str] = set()
    on_limits: set[str] = set()
    for path in files("aggregator").joinpath("lua").iterdir():
        called = on_limits if path.name == "count.lua" else on_shards
        called |= _commands_of(path.read_text(encoding="utf-8"))
    ask = connection.script("permissions")
    probes = [shard.key("probe") for shard in layout.all_shards]
    for key in (*connection.one_per_server(probes), limit("probe")):
        refused = ask((key,), sorted(on_limits if key == limit("probe") else on_shards))
        if refused:
            names = ", ".join(name.decode() for name in refused)
            raise StoreRefused(f"the store's user may not run {names} in scripts; {SEE_ACL}")


def _commands_of(script: str) -> set[str]:
    calls = re.findall(r"redis\.call\('(\w+)'(?:, '(USAGE)')?", script)
    return {" ".join(words).strip() for words in calls}


def warn_of_large_encodings(connection: Connection, layout: Layout) -> None:
    """Log a warning if a server keeps full ledger buckets in the form that takes four times more.

    Tried on a hash, since CONFIG is not for everybody and not on every hosted store.
    """
    fields = [word for number in range(_MOST_IN_BUCKET) for word in (number, "x" * _RECORD_BYTES)]
    for key in connection.one_per_server([shard.key("probe") for shard in layout.all_shards]):
        connection.call("HSET", key, *fields)
        encoding = connection.call("OBJECT", "ENCODING", key)
        connection.call("UNLINK", key)
        if encoding == b"hashtable":
            _log.warning(
                "the store keeps hashes of %d entries as tables, in which a device takes four "
                "times the memory: CONFIG SET hash-max-listpack-entries %d",
                _MOST_IN_BUCKET,
                _MOST_IN_BUCKET,
            )
            return


def check_writable(connection: Connection, layout: Layout) -> None:
    """Make sure that every server of a store takes writes.

    Raises:
        StoreUnavailable: Why not.
    """
    for key in connection.one_per_server((READY, *(s.key("ready") for s in layout.all_shards))):
        connection.call("SET", key, 1)


def check_policy(connection: Connection, *, all_must_answer: bool = True) -> None:
    """Make sure that every server of a store keeps what it takes.

    Args:
        connection: To the store.
        all_must_answer: Else only those are judged that do: one that is away takes nothing.

    Raises:
        StoreRefused: One may evict.
        StoreUnavailable: One that must answer does not.
    """
    ask = connection.call_each if all_must_answer else connection.call_reachable
    for memory in ask("INFO", "memory"):
        policy = memory["maxmemory_policy"]
        if policy != "noeviction":
            raise StoreRefused(
                "the store's maxmemory-policy must be noeviction, since evicting a ledger gives "
                f"devices their budget back; it is {policy}: CONFIG SET maxmemory-policy noeviction"
            )

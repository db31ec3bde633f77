"""Whether a store may be used: asked at start and by readiness checks."""

from aggregator.connection import Connection, StoreRefused
from aggregator.store.layout import READY, SHAPE, Layout

SCHEMA = 1
OLDEST_VERSION = (7, 0)

_MISMATCH = {
    "schema": "the store was written by another version (schema {found}, this one has {value})",
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
        StoreRefused: Too old, may evict, or begun with another layout.
        StoreUnavailable: It cannot be asked now.
    """
    version = str(connection.call("INFO", "server")["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        raise StoreRefused(f"the store must be version 7.0 or newer, it is {version}")
    check_policy(connection)
    shape: dict[str, str | int] = {
        "schema": SCHEMA,
        "shards": layout.shards,
        "buckets": layout.buckets,
        "pseudonym_key": layout.seal,
    }
    for name, value in shape.items():
        connection.call("HSETNX", SHAPE, name, value)
        found = connection.call("HGET", SHAPE, name).decode()
        if found != str(value):
            raise StoreRefused(_MISMATCH[name].format(found=found, value=value))


def check_writable(connection: Connection) -> None:
    """Make sure that a store takes writes.

    Raises:
        StoreUnavailable: Why not.
    """
    connection.call("SET", READY, 1)


def check_schema(connection: Connection) -> None:
    """Make sure that no other version has taken the store over.

    Raises:
        StoreRefused: One has.
    """
    found = connection.call("HGET", SHAPE, "schema")
    if found is not None and found != str(SCHEMA).encode():
        raise StoreRefused(_MISMATCH["schema"].format(found=found.decode(), value=SCHEMA))


def check_policy(connection: Connection) -> None:
    """Make sure that a store keeps what it takes.

    Raises:
        StoreRefused: It may evict.
    """
    policy = connection.call("INFO", "memory")["maxmemory_policy"]
    if policy != "noeviction":
        raise StoreRefused(
            "the store's maxmemory-policy must be noeviction, since evicting a ledger gives "
            f"devices their budget back; it is {policy}: CONFIG SET maxmemory-policy noeviction"
        )

"""Bringing a store of an older version up to date, one schema after the other.

A store says in {meta}:shape which schema it has. What old code ignores (a new key, a new field) is
no new schema. All else is a step here, which `sottovoce serve` and `up` take at start, one process
at a time; everything else refuses the store until then, and a newer store is refused for ever.

There has been one schema so far, so there are no steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aggregator.connection import Connection, StoreRefused
from aggregator.store.layout import MIGRATING, SHAPE, Layout, Shard

FIRST_SCHEMA = 1
_LOCK_SECONDS = 60.0
"""A migration that died is taken up by the next start after this. A shard must take less."""


@dataclass(frozen=True)
class Migration:
    """The step to a schema from the one before.

    Attributes:
        schema: What the store has afterwards.
        run: Changes one shard. It may find a shard that it has changed before, in part or whole,
            and must then end in the same state: whoever died is followed by another.
    """

    schema: int
    run: Callable[[Connection, Layout, Shard], None]


MIGRATIONS: tuple[Migration, ...] = ()
"""Ascending, without a gap, from `FIRST_SCHEMA` + 1."""


def newest_schema() -> int:
    """Return the schema that this version works with."""
    return MIGRATIONS[-1].schema if MIGRATIONS else FIRST_SCHEMA


def require_newest(connection: Connection) -> None:
    """Make sure that a store has the schema of this version; a new store gets it.

    Raises:
        StoreRefused: It has another; says what to do.
    """
    found = _claimed(connection)
    if found < newest_schema():
        raise StoreRefused(
            f"the store has schema {found}, and this version works with {newest_schema()}: stop "
            "what runs of the older version, back up the store, and start `sottovoce serve` (or "
            "`up`), which migrates it"
        )


def migrate(connection: Connection, layout: Layout) -> None:
    """Take the steps that a store still needs.

    Args:
        layout: Known to be the store's.

    Raises:
        StoreRefused: It is of a newer version.
        StoreUnavailable: Another process is at it, or it failed on the way: call this again.
    """
    if _claimed(connection) == newest_schema():
        return
    with connection.locked(MIGRATING, _LOCK_SECONDS) as hold_on:
        for migration in MIGRATIONS:
            if migration.schema <= _claimed(connection):
                continue
            for shard in layout.all_shards:
                hold_on()
                migration.run(connection, layout, shard)
            hold_on()
            connection.call("HSET", SHAPE, "schema", migration.schema)


def _claimed(connection: Connection) -> int:
    connection.call("HSETNX", SHAPE, "schema", newest_schema())
    found = int(connection.call("HGET", SHAPE, "schema"))
    if found > newest_schema():
        raise StoreRefused(
            f"the store was written by a newer version (schema {found}, this one works with "
            f"{newest_schema()}): update this machine"
        )
    return found

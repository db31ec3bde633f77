"""Schemas: an older store is migrated once, whoever dies or races; a newer one is refused."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.connection import Connection, StoreRefused, StoreUnavailable
from aggregator.server import prepare
from aggregator.store import Store, migrations
from aggregator.store.layout import MIGRATING, SHAPE, Layout, Shard
from aggregator.store.migrations import MIGRATIONS, Migration, newest_schema

FIELD = "moved"


def add_one(connection: Connection, layout: Layout, shard: Shard) -> None:
    """A step that would show if it were taken twice on a shard as if for the first time."""
    if connection.call("HSETNX", shard.key("life"), FIELD, 1):
        connection.call("HINCRBY", shard.key("counters"), FIELD, 1)


def steps(count: int = 1) -> tuple[Migration, ...]:
    return tuple(Migration(number + 2, add_one) for number in range(count))


def state(world: Any) -> tuple[int, list[int]]:
    """The store's schema, and how often each shard was changed."""
    call = world.store._connection.call
    shards = world.store._layout.all_shards
    changed = [int(call("HGET", shard.key("counters"), FIELD) or 0) for shard in shards]
    return int(call("HGET", SHAPE, "schema")), changed


def test_the_steps_that_ship_lead_from_the_first_schema_to_the_newest() -> None:
    assert [step.schema for step in MIGRATIONS] == list(range(2, newest_schema() + 1))


def test_an_older_store_is_refused_until_a_server_starts_and_keeps_its_data(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = world.device()
    assert world.charged(device, world.report("theme")) == ["accepted"]
    monkeypatch.setattr(migrations, "MIGRATIONS", steps())
    with pytest.raises(StoreRefused, match=r"has schema 1.* works with 2.*sottovoce serve"):
        world.store.check()
    prepare(world.settings)
    assert state(world) == (2, [1] * 64)
    prepare(world.settings)
    world.store.check()
    assert state(world) == (2, [1] * 64)
    assert world.charged(device, world.report("theme")) == ["already_reported"]
    assert world.folder.fold_once() == 1


def test_a_new_store_begins_with_the_newest_schema(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.flushall()
    monkeypatch.setattr(migrations, "MIGRATIONS", steps(3))
    world.store.check()
    assert state(world) == (4, [0] * 64)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(world: Any) -> None:
    newer = newest_schema() + 1
    world.store._connection.call("HSET", SHAPE, "schema", newer)
    before = world.contents()
    for refused in (world.store.check, world.store.migrate, lambda: prepare(world.settings)):
        with pytest.raises(StoreRefused, match=rf"newer version \(schema {newer}.*update this"):
            refused()
    assert world.contents() == before
    assert state(world)[0] == newer


def test_a_store_of_another_layout_is_not_migrated(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS", steps())
    stranger = Store.connect(world.settings, b"x" * 32)
    with pytest.raises(StoreRefused, match="restore the key file"):
        stranger.migrate()
    stranger.close()
    assert state(world) == (1, [0] * 64)


def test_racing_servers_take_each_step_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = itertools.count()

    def counted(connection: Connection, layout: Layout, shard: Shard) -> None:
        next(taken)
        add_one(connection, layout, shard)

    counting = (Migration(2, counted), Migration(3, counted))
    monkeypatch.setattr(migrations, "MIGRATIONS", counting)
    gate = threading.Barrier(4)

    def start() -> None:
        store = Store.connect(world.settings, world.keys.pseudonym_key)
        gate.wait()
        store.migrate()
        store.close()

    racers = [threading.Thread(target=start) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert state(world) == (3, [1] * 64) and next(taken) == 2 * 64


@pytest.mark.parametrize("after", [0, 63])
def test_who_lost_the_lock_stops(world: Any, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    def overtaken(connection: Connection, layout: Layout, shard: Shard) -> None:
        if shard.number == after:
            connection.call("SET", MIGRATING, "another process")

    monkeypatch.setattr(migrations, "MIGRATIONS", (Migration(2, overtaken),))
    with pytest.raises(StoreUnavailable, match="took over"):
        world.store.migrate()
    assert state(world)[0] == 1


DIES = """
import os, signal, sys
from aggregator.server import prepare
from aggregator.settings import ServerSettings
from aggregator.store import migrations

def run(connection, layout, shard):
    if connection.call("HSETNX", shard.key("life"), "moved", 1):
        connection.call("HINCRBY", shard.key("counters"), "moved", 1)
    if shard.number == 20:
        os.kill(os.getpid(), signal.SIGKILL)

migrations.MIGRATIONS = (migrations.Migration(2, run),)
prepare(ServerSettings.from_env(os.environ))
"""


def test_a_server_killed_in_the_middle_is_followed_by_the_next(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = os.environ | {
        "REDIS_URL": world.redis_url,
        "SOTTOVOCE_KEYS_FILE": str(world.settings.keys_file),
        "SOTTOVOCE_PLANNED_DEVICES": str(world.settings.planned_devices),
    }
    root = Path(__file__).parents[2]
    died = subprocess.run([sys.executable, "-c", DIES], env=environment, cwd=root, timeout=60)
    assert died.returncode == -9 and state(world) == (1, [1] * 21 + [0] * 43)
    monkeypatch.setattr(migrations, "MIGRATIONS", steps())
    call = world.store._connection.call
    assert call("EXISTS", MIGRATING)
    with redis.Redis.from_url(world.redis_url) as admin:
        assert 0 < admin.ttl(MIGRATING) <= 60
        admin.pexpire(MIGRATING, 100)  # instead of the minute's wait
    prepare(world.settings)
    assert state(world) == (2, [1] * 64) and not call("EXISTS", MIGRATING)

"""/readyz: each thing that uploads depend on turned off and on again."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.machine.embedded import EmbeddedServer
from aggregator.server import prepare
from aggregator.settings import ServerSettings, SettingsError
from aggregator.store.layout import REGISTRIES, REGISTRY_ORDER, SHAPE
from aggregator.watching.readiness import LEAST_FREE_SHARE, Readiness, free_share_of
from client_sdk.report import PROBLEM_TYPE
from tests.aggregator.conftest import Gunicorn, World


@dataclass
class Disk:
    free: float | None = 0.5

    def share(self) -> float:
        if self.free is None:
            raise FileNotFoundError(2, "No such file or directory")
        return self.free


def ready(world: World, readiness: Readiness | None = None) -> str:
    """Return "ready", or why not."""
    app = create_app(
        store=world.store, keys=world.keys, catalogue=world.catalogue, readiness=readiness
    )
    answer = app.test_client().get("/readyz")
    assert app.test_client().get("/livez").status_code == 200
    if answer.status_code == 200:
        return "ready"
    assert answer.status_code == 503 and answer.mimetype == "application/problem+json"
    assert answer.json["type"] == PROBLEM_TYPE + "unavailable" and answer.json["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    reason: str = answer.json["reason"]
    return reason


@contextmanager
def setting(admin: Any, name: str, off: str | int, on: str | int) -> Iterator[None]:
    admin.config_set(name, off)
    try:
        yield
    finally:
        admin.config_set(name, on)


@pytest.fixture
def admin(world: World) -> Iterator[Any]:
    with redis.Redis.from_url(world.redis_url) as client:
        yield client


def test_a_store_that_takes_no_writes_is_not_ready(world: World, admin: Any) -> None:
    with setting(admin, "maxmemory", 1, 0):
        assert ready(world) == "store"
    assert ready(world) == "ready"


def test_a_store_that_may_evict_is_not_ready(world: World, admin: Any) -> None:
    with setting(admin, "maxmemory-policy", "allkeys-lru", "noeviction"):
        assert ready(world) == "policy"
    assert ready(world) == "ready"


def test_a_store_of_another_version_is_not_ready(world: World, admin: Any) -> None:
    ours = admin.hget(SHAPE, "schema")
    admin.hset(SHAPE, "schema", int(ours) + 1)
    assert ready(world) == "schema"
    admin.hset(SHAPE, "schema", ours)
    assert ready(world) == "ready"


def test_a_restored_store_is_not_ready(world: World, admin: Any) -> None:
    world.store.raise_generation(world.now)
    world.store.raise_generation(world.now)
    key = world.store._layout.all_shards[5].key("life")
    admin.hset(key, "generation", 0)
    assert ready(world) == "restored"
    admin.hset(key, "generation", 2)
    assert ready(world) == "ready"


def test_a_server_that_knows_no_metric_is_not_ready(world: World, admin: Any) -> None:
    kept = admin.dump(REGISTRIES), admin.dump(REGISTRY_ORDER)
    admin.delete(REGISTRIES, REGISTRY_ORDER)
    world.catalogue = Catalogue(world.store)
    assert ready(world) == "catalogue"
    admin.restore(REGISTRIES, 0, kept[0])
    admin.restore(REGISTRY_ORDER, 0, kept[1])
    assert ready(world) == "ready"


def test_a_disk_that_is_nearly_full_is_not_ready(world: World) -> None:
    disk = Disk()
    readiness = Readiness(world.store, world.catalogue, free_share=disk.share)
    assert ready(world, readiness) == "ready"
    for free in (LEAST_FREE_SHARE - 0.001, 0.0, None):
        disk.free = free
        assert ready(world, readiness) == "disk"
    disk.free = LEAST_FREE_SHARE
    assert ready(world, readiness) == "ready"


def test_the_share_of_a_disk_that_is_free_is_measured(tmp_path: Path) -> None:
    assert 0 <= free_share_of(tmp_path) <= 1
    with pytest.raises(FileNotFoundError):
        free_share_of(tmp_path / "missing")


def test_reports_that_nobody_folds_make_a_server_not_ready(world: World) -> None:
    readiness = Readiness(world.store, world.catalogue, most_lag_seconds=0.01)
    assert ready(world, readiness) == "ready"
    world.charged(world.device(), world.report("theme"))
    time.sleep(0.05)
    assert ready(world, readiness) == "fold_lag"
    assert ready(world) == "ready"  # within the default limit
    world.folder.fold_once()
    assert ready(world, readiness) == "ready"


def test_the_limits_are_settings(
    world: World, serve: Callable[..., Gunicorn], tmp_path: Path
) -> None:
    missing = tmp_path / "store"
    missing.mkdir()
    server = serve(world, SOTTOVOCE_READY_FOLD_LAG="0.01", SOTTOVOCE_STORE_DIRECTORY=str(missing))

    def reason() -> str | None:
        found: str | None = requests.get(server.url + "/readyz", timeout=10).json().get("reason")
        return found

    # The test's own disk may be nearly full; either way it is looked at.
    at_rest = "disk" if free_share_of(missing) < LEAST_FREE_SHARE else None
    assert reason() == at_rest
    missing.rmdir()
    assert reason() == "disk"
    missing.mkdir()
    device = world.device()
    body = device.batch(world.report("theme"))
    assert server.post(device, body).status_code == 200
    time.sleep(0.05)
    assert reason() == (at_rest or "fold_lag")
    world.folder.fold_once()
    assert reason() == at_rest


def test_a_server_outlives_its_store_and_is_ready_again_at_once(
    new_world: Callable[..., World], serve: Callable[..., Gunicorn], tmp_path: Path
) -> None:
    directory = tmp_path / "store"
    with EmbeddedServer.start(directory, appendfsync="no") as store:
        world = new_world(store.url)
        server = serve(world)
    # Stopped. Uploads get a 503, never an answer that says they were taken.
    away = requests.get(server.url + "/readyz", timeout=10)
    assert away.status_code == 503 and away.json()["reason"] == "store"
    device = world.device()
    body = device.batch(world.report("theme"))
    assert server.post(device, body).status_code == 503
    assert requests.get(server.url + "/livez", timeout=10).status_code == 200
    with EmbeddedServer.start(directory, appendfsync="no") as store:
        assert store.url == world.redis_url
        # Nothing is remembered of the outage, so the first question is answered with yes.
        assert requests.get(server.url + "/readyz", timeout=10).status_code == 200
        assert server.post(device, body).json()["verdict"] == "accepted"


def test_a_store_that_may_outgrow_its_machine_is_warned_of_at_start(
    world: World, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine = int(admin.info("memory")["total_system_memory"])
    ours = admin.config_get("maxmemory")["maxmemory"]
    for most, warned in ((machine // 2, True), (0, True), (2 * machine // 5, False)):
        caplog.clear()
        with setting(admin, "maxmemory", most, ours):
            prepare(world.settings)
        assert ("maxmemory should be at most" in caplog.text) == warned


@pytest.mark.slow
def test_a_store_of_a_million_devices_loads_behind_a_live_server(
    new_world: Callable[..., World], serve: Callable[..., Gunicorn], tmp_path: Path
) -> None:
    # server.md, section 5, row 16: alive throughout, ready within 15 s (docs/benchmarks.md).
    directory, devices = tmp_path / "store", 1_000_000
    with EmbeddedServer.start(directory, appendfsync="everysec") as store:
        world = new_world(store.url, planned_devices=devices)
        shards, buckets = world.store._layout.all_shards, range(world.settings.buckets)
        each = -(-devices // (len(shards) * len(buckets)))
        record = bytes(25) + b"\1"
        with redis.Redis.from_url(store.url) as client:
            for shard in shards:
                pipeline = client.pipeline(transaction=False)
                for bucket in buckets:
                    names = (n.to_bytes(8, "big") for n in range(each))
                    pipeline.hset(
                        shard.in_bucket("ledger", bucket), mapping=dict.fromkeys(names, record)
                    )
                pipeline.execute()
        server = serve(world)
    seen = [requests.get(server.url + "/readyz", timeout=10).json()["reason"]]
    stopping = threading.Event()

    def watch() -> None:
        while not stopping.wait(0.02):
            assert requests.get(server.url + "/livez", timeout=10).status_code == 200
            answer = requests.get(server.url + "/readyz", timeout=10)
            seen.append(answer.json().get("reason", "ready"))

    watcher = ThreadPoolExecutor().submit(watch)
    began = time.monotonic()
    with EmbeddedServer.start(directory, appendfsync="everysec"):
        while "ready" not in seen and not watcher.done():
            time.sleep(0.02)
        print(f"ready after {time.monotonic() - began:.1f} s")
        stopping.set()
        watcher.result()
        assert world.store.accounts.sampled(1, random.sample, ())[1] > 1
    assert set(seen) == {"store", "ready"}


def test_version_names_the_schema(world: World) -> None:
    told = world.app.test_client().get("/version").json
    assert told["name"] == "sottovoce" and told["version"] and told["schema"] == 1


def test_metrics_cannot_share_the_port_of_the_server() -> None:
    with pytest.raises(SettingsError, match="SOTTOVOCE_METRICS_PORT must not be the port"):
        ServerSettings.from_env({"SOTTOVOCE_PORT": "9000", "SOTTOVOCE_METRICS_PORT": "9000"})

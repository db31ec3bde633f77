"""A store that is down, slow, full or wrong: 503, nothing half done, and back soon afterwards."""

import itertools
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from aggregator import problems
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.fold import Folder
from aggregator.group import series_of
from aggregator.machine.embedded import find_server
from aggregator.store import Store
from aggregator.store.layout import SHAPE
from aggregator.store.migrations import newest_schema
from client_sdk.report import PROBLEM_TYPE

RECOVERY_SECONDS = 5.0  # server.md, section 5, row 15


class Valkey:
    """A store of a test's own, at an address that stays."""

    def __init__(self, **options: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sv-"))
        self.socket = self.directory / "s"
        self.url = f"unix://{self.socket}"
        self.admin = redis.Redis(unix_socket_path=str(self.socket), retry=Retry(NoBackoff(), 0))
        self._options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
        } | {name.replace("_", "-"): value for name, value in options.items()}
        self.start()

    def start(self, *, wait: bool = True, **options: str) -> None:
        chosen = self._options | {name.replace("_", "-"): text for name, text in options.items()}
        arguments = itertools.chain.from_iterable((f"--{name}", chosen[name]) for name in chosen)
        # Where a file may not grow, a write then fails, as it does on a full disk.
        ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]
        self.process = subprocess.Popen(
            [*ignoring, str(find_server()), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            restore_signals=False,
        )
        if wait:
            eventually(lambda: bool(self.admin.ping()))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def limit_files(self, size: int) -> None:
        _, most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))

    def end(self) -> None:
        self.admin.close()
        self.kill()
        shutil.rmtree(self.directory)


def eventually(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(redis.RedisError):
            if true():
                return
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def valkey_with() -> Iterator[Callable[..., Valkey]]:
    """Start a store with options of its own."""
    started: list[Valkey] = []

    def start(**options: str) -> Valkey:
        started.append(Valkey(**options))
        return started[-1]

    yield start
    for each in started:
        each.end()


# What can be wrong with a store: each of these breaks one and mends it again.


@contextmanager
def down(store: Valkey) -> Iterator[None]:
    store.kill()
    yield
    store.start()


@contextmanager
def loading(store: Valkey) -> Iterator[None]:
    # A store that loads listens to clients every 1,000 keys: these take it a tenth of a second.
    with store.admin.pipeline(transaction=False) as filling:
        for number in range(150_000):
            filling.set(f"ballast:{number}", "x")
        filling.execute()
    store.kill()
    store.start(wait=False, key_load_delay="50")  # microseconds a key
    eventually(lambda: store.admin.info("persistence")["loading"] == 1)
    yield
    assert store.admin.info("persistence")["loading"] == 1
    store.admin.config_set("key-load-delay", "0")
    eventually(lambda: store.admin.info("persistence")["loading"] == 0)


@contextmanager
def busy(store: Valkey) -> Iterator[None]:
    def run_without_end() -> None:
        with (
            redis.Redis(unix_socket_path=str(store.socket)) as client,
            suppress(redis.ResponseError),
        ):
            client.eval("while true do end", 0)

    store.admin.config_set("busy-reply-threshold", 10)
    stuck = threading.Thread(target=run_without_end)
    stuck.start()
    with pytest.raises(redis.ResponseError, match="BUSY"):
        while store.admin.ping():
            pass
    yield
    store.admin.script_kill()
    stuck.join()


@contextmanager
def out_of_memory(store: Valkey) -> Iterator[None]:
    store.admin.config_set("maxmemory", 1)
    yield
    store.admin.config_set("maxmemory", 0)


@contextmanager
def full_disk(store: Valkey) -> Iterator[None]:
    store.limit_files(sum(path.stat().st_size for path in store.directory.rglob("*.aof")) + 64)
    eventually(lambda: refuses_writes(store))
    yield
    store.limit_files(resource.RLIM_INFINITY)


def refuses_writes(store: Valkey) -> bool:
    try:
        store.admin.set("ballast", "x" * 64)
    except redis.ResponseError as error:
        return "MISCONF" in str(error)
    return False


@contextmanager
def read_only_replica(store: Valkey) -> Iterator[None]:
    store.admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield
    store.admin.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def evicting(store: Valkey) -> Iterator[None]:
    store.admin.config_set("maxmemory-policy", "allkeys-lru")
    yield
    store.admin.config_set("maxmemory-policy", "noeviction")


@contextmanager
def taken_over_by_a_newer_version(store: Valkey) -> Iterator[None]:
    store.admin.hset(SHAPE, "schema", newest_schema() + 1)
    yield
    store.admin.hset(SHAPE, "schema", newest_schema())


CAUSES = [
    down,
    pytest.param(loading, marks=pytest.mark.slow),
    busy,
    out_of_memory,
    full_disk,
    read_only_replica,
    evicting,
    taken_over_by_a_newer_version,
]
SEEN_BY_INTAKE_ONLY = (out_of_memory, evicting, taken_over_by_a_newer_version)
"""The fold may go on: it frees memory, and changes no account."""


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_a_bad_store_is_a_503_and_takes_the_batch_soon_after_it_is_mended(
    cause: Callable[[Valkey], Any],
    valkey_with: Callable[..., Valkey],
    new_world: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = valkey_with()
    world = new_world(store.url, shards=4, store_timeout_seconds=1.0)
    earlier, device = world.device(), world.device()
    for number in range(3):
        assert world.charged(earlier, world.report("crashed", epoch=day(world) - number))
    body = device.batch(world.report("theme", 1), world.report("home_page", 5))
    client = world.app.test_client()
    with folding(world), ExitStack() as broken:
        broken.enter_context(cause(store))
        world.store._vigil._sound_until = float("-inf")  # as after two seconds
        for _ in range(3):
            refused_for_now(world.send(device, body))
        refused_for_now(client.get("/readyz"))
        assert client.get("/livez").status_code == 200
        if cause not in SEEN_BY_INTAKE_ONLY:
            eventually(lambda: "fold waits" in caplog.text)
        broken.close()
        mended = time.monotonic()
        eventually(lambda: client.get("/readyz").status_code == 200, RECOVERY_SECONDS)
        eventually(lambda: world.send(device, body).status_code == 200, RECOVERY_SECONDS)
        assert time.monotonic() - mended < RECOVERY_SECONDS
        eventually(lambda: bool(world.store.figures.lag() == 0), 2 * RECOVERY_SECONDS)
    # Not "duplicate": nothing of it had been taken while the answer was 503.
    counters = world.store.figures.counters()
    assert (counters["batches"], counters["duplicates"], counters["clones"]) == (4, 0, 0)
    assert counters["folded"] == counters["accepted"] == 5
    assert world.store.accounts.spent(device.id) == 1_000_000 + 8_000_000
    assert store.admin.exists(*streams(world)) == 0 or not any(
        store.admin.xlen(stream) for stream in streams(world)
    )
    world.store.close()


@contextmanager
def folding(world: Any) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=Folder(world.store).run, args=(stop, 0.05))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def day(world: Any) -> int:
    return int(world.epoch("crashed"))


def streams(world: Any) -> list[str]:
    return [shard.key("stream") for shard in world.store._shards]


def refused_for_now(answer: Any) -> None:
    assert answer.status_code == 503, answer.get_data(as_text=True)
    assert answer.json["type"] == f"{PROBLEM_TYPE}unavailable"
    assert int(answer.headers["Retry-After"]) in problems.RETRY_AFTER_SECONDS


def test_a_full_store_is_drained_by_the_fold_and_takes_uploads_again(
    valkey_with: Callable[..., Valkey], new_world: Callable[..., Any]
) -> None:
    store = valkey_with()
    world = new_world(store.url, shards=1)
    bodies = uploads_of_all_cohorts(world)
    # Once, so that all that stays is there: buffers, loaded scripts, tallies.
    assert world.send(*next(bodies)).status_code == 200
    world.folder.fold_once()
    used = store.admin.info("memory")["used_memory"]
    store.admin.config_set("maxmemory", used + 2**20)
    for device, body in itertools.islice(bodies, 20_000):
        answer = world.send(device, body)
        if answer.status_code != 200:
            break
    refused_for_now(answer)
    assert "OOM" in answer.json["detail"] or "maxmemory" in answer.json["detail"]
    folded = world.folder.fold_once()
    assert folded > 100 and not store.admin.xlen(streams(world)[0])
    assert world.send(device, body).json["verdict"] == "accepted"
    counters = world.store.figures.counters()
    assert counters["accepted"] == counters["folded"] + 1 == folded + 2
    world.store.close()


def uploads_of_all_cohorts(world: Any) -> Iterator[tuple[Any, bytes]]:
    for number in itertools.count():
        device = world.device()
        yield device, device.batch(world.report("wide", 1 << number % 2048, number % 4))


def test_at_the_memory_limit_every_script_but_those_that_drain_refuses(
    valkey_with: Callable[..., Valkey], new_world: Callable[..., Any]
) -> None:
    store = valkey_with()
    world = new_world(store.url, shards=1)
    device = world.device()
    world.charged(device, world.report("theme"))
    store.admin.config_set("maxmemory", 1)
    before = everything(store)
    with pytest.raises(StoreUnavailable):
        world.store.registries.add("0" * 64, "text")
    refused_for_now(world.send(device, device.batch(world.report("crashed"))))
    assert everything(store) == before
    assert world.folder.fold_once() == 1
    world.store.tallies.close_intake(0, series_of(world.metric("theme")), world.epoch("theme"))
    world.store.tallies.freeze(0, series_of(world.metric("theme")), world.epoch("theme"))
    assert world.store.tallies.is_closed(world.metric("theme"), world.epoch("theme"))
    world.store.raise_generation(world.now)
    world.store.close()


def everything(store: Valkey) -> Mapping[bytes, bytes]:
    return {key: store.admin.dump(key) for key in store.admin.scan_iter()}


def test_a_store_of_a_newer_or_unknown_schema_is_refused_at_start_and_not_changed(
    valkey_with: Callable[..., Valkey], new_world: Callable[..., Any]
) -> None:
    store = valkey_with()
    world = new_world(store.url)
    store.admin.hset(SHAPE, "schema", newest_schema() + 1)
    before = everything(store)
    with pytest.raises(StoreRefused, match=f"newer version .schema {newest_schema() + 1}"):
        world.store.check()
    assert everything(store) == before
    world.store.close()


@pytest.mark.parametrize(
    ("version", "refused"), [("6.2.14", True), ("7.0.0", False), ("10.1.2", False)]
)
def test_a_store_that_is_too_old_is_refused(
    version: str,
    refused: bool,
    redis_url: str,
    world: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No old store is at hand: what one would say of itself is the only thing made up here.
    call = world.store._connection.call_each

    def as_if(*command: Any) -> Any:
        answers = call(*command)
        if command == ("INFO", "server"):
            return [answer | {"redis_version": version} for answer in answers]
        return answers

    monkeypatch.setattr(world.store._connection, "call_each", as_if)
    if refused:
        with pytest.raises(StoreRefused, match=r"must be version 7.0 or newer, it is 6\.2\.14"):
            world.store.check()
    else:
        world.store.check()


def test_a_store_with_another_number_of_shards_is_refused_and_not_changed(
    valkey_with: Callable[..., Valkey], new_world: Callable[..., Any]
) -> None:
    store = valkey_with()
    world = new_world(store.url, shards=8)
    before = everything(store)
    other = Store.connect(replace(world.settings, shards=16), world.keys.pseudonym_key)
    with pytest.raises(StoreRefused, match="SOTTOVOCE_SHARDS=8 instead of 16"):
        other.check()
    assert everything(store) == before
    other.close()
    world.store.close()


def test_scripts_flushed_all_the_time_fail_no_upload(world: Any) -> None:
    stop = threading.Event()

    def flush() -> None:
        with redis.Redis.from_url(world.redis_url) as admin:
            while not stop.is_set():
                admin.script_flush()

    answers: list[int] = []

    def send() -> None:
        for _ in range(50):
            device = world.device()
            answers.append(world.send(device, device.batch(world.report("theme"))).status_code)

    flushing = threading.Thread(target=flush)
    sending = [threading.Thread(target=send) for _ in range(4)]
    flushing.start()
    for thread in sending:
        thread.start()
    for thread in sending:
        thread.join()
    stop.set()
    flushing.join()
    assert answers == [200] * 200
    assert world.folder.fold_once() == 200


def test_a_thousand_devices_come_back_over_more_than_a_minute(world: Any) -> None:
    # A pause of each of 61 whole seconds; that fewer than 45 of them are drawn by 1,000 devices, or
    # one by more than 60, happens with probability below 1e-9 (mean 16.4 each, Chernoff).
    world.store.check_writable = lambda: (_ for _ in ()).throw(StoreUnavailable("down"))
    client = world.app.test_client()
    pauses = [int(client.get("/readyz").headers["Retry-After"]) for _ in range(1000)]
    assert min(pauses) >= 5 and max(pauses) - min(pauses) >= 58
    assert len(set(pauses)) >= 45
    assert max(map(pauses.count, pauses)) <= 60

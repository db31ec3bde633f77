"""kill -9 in mid-load: afterwards tallies hold the acknowledged reports, each exactly once."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import requests

from aggregator.machine.embedded import find_server

pytestmark = pytest.mark.slow

UPLOADS = 1200
RUN_FOLD = """
import os, threading
from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
settings = ServerSettings.from_env(os.environ)
store = Store.connect(settings, Keys.load(settings.keys_file).pseudonym_key)
Folder(store, entries_per_commit=5).run(threading.Event(), 0.02)
"""


@dataclass
class Killable:
    """A process that can be killed and started again with the same command."""

    command: list[str]
    environment: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def killable_store() -> Iterator[tuple[str, Killable]]:
    """A store that syncs every write, at an address that stays."""
    directory = Path(tempfile.mkdtemp(prefix="sv-"))
    socket = directory / "s"
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "dir": str(directory),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
    }
    arguments = itertools.chain.from_iterable(
        (f"--{name}", value) for name, value in options.items()
    )
    store = Killable([str(find_server()), *arguments])
    with redis.Redis(unix_socket_path=str(socket)) as client:
        wait_until(lambda: bool(client.ping()))
    yield f"unix://{socket}", store
    store.kill()
    shutil.rmtree(directory)


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(redis.RedisError, requests.RequestException):
            if true():
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Load:
    """Devices that each send one batch, with the same bytes until it is answered.

    Every upload sets a bit of its own, so that a double count shows as a cell above 1.
    """

    def __init__(self, world: Any, server: Any) -> None:
        self._world, self._server = world, server
        self._numbers = itertools.count()
        self.acknowledged = 0
        self.retries = 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send_all) for _ in range(8)]
        for thread in self._threads:
            thread.start()

    def _send_all(self) -> None:
        while (number := next(self._numbers)) < UPLOADS:
            device = self._world.device()
            own_bit = self._world.report("wide", 1 << number % 2048, number // 2048)
            body = device.batch(own_bit, self._world.report("theme", number % 4))
            while not self._sent(device, body):
                time.sleep(0.02)

    def _sent(self, device: Any, body: bytes) -> bool:
        try:
            answer = self._server.post(device, body)
        except requests.RequestException:
            answer = None
        with self._lock:
            if answer is None or answer.status_code == 503:
                self.retries += 1
                return False
            assert answer.status_code == 200, answer.text
            assert answer.json()["reports"] == ["accepted", "accepted"]
            self.acknowledged += 1
            return True

    def wait_for(self, acknowledged: int) -> None:
        wait_until(lambda: self.acknowledged >= acknowledged, 100)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(100)
        assert self.acknowledged == UPLOADS


def assert_exactly_once(world: Any) -> None:
    wait_until(lambda: world.store.figures.lag() == 0)
    wide = world.store.tallies.of(world.metric("wide"), world.epoch("wide"))
    assert wide.counts.max() == 1 and wide.counts.sum() == wide.n == UPLOADS
    theme = world.store.tallies.of(world.metric("theme"), world.epoch("theme"))
    assert theme.n == UPLOADS and theme.counts.tolist() == [[UPLOADS // 4] * 4]
    counters = world.store.figures.counters()
    assert counters["accepted"] == counters["folded"] == 2 * UPLOADS
    assert sorted(set(world.store.accounts.every_spent())) == [5_000_000]


def server_worker(server: Any) -> psutil.Process:
    children: list[psutil.Process] = psutil.Process(server.process.pid).children()
    return children[0]


@pytest.mark.parametrize("victim", ["store", "server worker", "fold worker", "all in turn"])
def test_tallies_equal_the_acknowledged_reports_after_kill_9(
    killable_store: tuple[str, Killable],
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    victim: str,
) -> None:
    url, store = killable_store
    world = new_world(url)
    server = serve(world)
    environment = os.environ | {
        "REDIS_URL": url,
        "SOTTOVOCE_KEYS_FILE": str(world.settings.keys_file),
        "SOTTOVOCE_PLANNED_DEVICES": str(world.settings.planned_devices),
    }
    folds = [Killable([sys.executable, "-c", RUN_FOLD], environment) for _ in range(2)]
    try:
        load = Load(world, server)
        load.wait_for(UPLOADS // 6)
        if victim in ("store", "all in turn"):
            store.kill()
            time.sleep(0.3)
            store.start()
            load.wait_for(UPLOADS // 3)
            assert load.retries > 0
        if victim in ("server worker", "all in turn"):
            worker = server_worker(server)
            worker.send_signal(signal.SIGKILL)
            load.wait_for(UPLOADS // 2)
            wait_until(lambda: server_worker(server).pid != worker.pid)
        if victim in ("fold worker", "all in turn"):
            for number in range(6):
                folds[number % 2].kill()
                folds[number % 2].start()
                load.wait_for(UPLOADS // 2 + number * UPLOADS // 16)
        load.finish()
        assert_exactly_once(world)
    finally:
        for fold in folds:
            fold.kill()
        world.store.close()

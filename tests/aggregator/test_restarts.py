"""Servers stopped and restarted under load: whatever was begun is finished, and counts once."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from client_sdk import Client, loads
from client_sdk.report import REPORTS_PATH
from tests.aggregator.conftest import REGISTRY, RUN_SERVER, environment_of, free_port
from tests.aggregator.test_proxy import Nginx, nginx_before

__all__ = ["nginx_before"]

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


class Restartable:
    """A server that comes back at the same address."""

    def __init__(self, world: Any) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = environment_of(world) | {"SOTTOVOCE_PORT": str(self.port)}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN_SERVER],
            env=self._environment,
            cwd=ROOT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 40
        while True:
            with suppress(requests.ConnectionError):
                if requests.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(30) == 0


@pytest.fixture
def server_of() -> Iterator[Callable[[Any], Restartable]]:
    running: list[Restartable] = []

    def start(world: Any) -> Restartable:
        world.now = time.time()
        running.append(Restartable(world))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait()


def test_sigterm_finishes_every_upload_that_the_store_was_asked_to_take(
    world: Any, server_of: Callable[[Any], Restartable]
) -> None:
    server = server_of(world)
    answered: list[int] = []
    ended = threading.Event()

    def upload() -> None:
        with requests.Session() as session:
            while not ended.is_set():
                device = world.device()
                body = device.batch(world.report("theme", 1))
                try:
                    answer = session.post(
                        server.url + REPORTS_PATH,
                        data=body,
                        headers=device.headers(body),
                        timeout=30,
                    )
                except requests.ConnectionError:  # not taken: the count below would be too high
                    return
                answered.append(answer.status_code)

    threads = [threading.Thread(target=upload) for _ in range(16)]
    for thread in threads:
        thread.start()
    while len(answered) < 200:
        time.sleep(0.01)
    with redis.Redis.from_url(world.redis_url) as admin:
        # Whatever is under way waits for the store while the server is told to stop.
        admin.execute_command("CLIENT", "PAUSE", 1500, "ALL")
    time.sleep(0.3)
    before = len(answered)
    server.stop()
    ended.set()
    for thread in threads:
        thread.join()
    assert set(answered) == {200}
    assert len(answered) >= before + 16, "the uploads that were under way were not answered"
    counters = world.store.figures.counters()
    assert counters["batches"] == len(answered) and counters["duplicates"] == 0


def test_a_rolling_restart_with_key_rotation_loses_and_refuses_nothing(
    world: Any,
    server_of: Callable[[Any], Restartable],
    nginx_before: Callable[..., Nginx],
    tmp_path: Path,
) -> None:
    registries = [with_seal(keys(world, "rotate", "sealing"))]
    world.catalogue.register(registries[0])
    servers = [server_of(world), server_of(world)]
    nginx = nginx_before(*(server.port for server in servers))
    stop = threading.Event()
    numbers = iter(range(10_000))
    lock = threading.Lock()

    def devices() -> int:
        count = 0
        while not stop.is_set():
            with lock:
                number = next(numbers)
            # Every other device has the newest file, the rest go on with the first.
            text = registries[-1 if number % 2 else 0]
            client = Client(
                loads(text if number % 3 else REGISTRY),
                endpoint=nginx.url,
                write_key=world.keys.write_key,
                enabled=True,
                respect_environment=False,
                state_dir=tmp_path / f"device{number}",
                ca_bundle=str(nginx.ca),
            )
            for metric, value in (("theme", "dark"), ("home_page", "x"), ("wide", "y")):
                client.record(metric, value)
                assert client.flush(40), client.status()
            assert not client.status().refused and not client.dropped
            client.close()
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(devices) for _ in range(4)]
        for server in servers:
            time.sleep(1)
            server.stop()
            keys(world, "rotate", "master")
            server.start()
            registries.append(with_seal(keys(world, "rotate", "sealing")))
            time.sleep(1)
        stop.set()
        count = sum(job.result() for job in jobs)
    assert count > 8
    world.folder.fold_once()
    for name in ("theme", "home_page", "wide"):
        assert world.store.tallies.of(world.metric(name), world.epoch(name)).n == count
    counters = world.store.figures.counters()
    assert counters["accepted"] == counters["folded"] == 3 * count
    assert counters["clones"] == counters["gaps"] == 0


def keys(world: Any, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "sottovoce", "keys", *arguments],
        env=environment_of(world),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def with_seal(printed: str) -> str:
    """The registry with the line that a rotation has printed for it."""
    found = re.search(r"^\s*(seal = \{.*\})$", printed, re.MULTILINE)
    assert found, printed
    return REGISTRY.replace("[project]", f"[project]\n{found[1]}")

"""A real server side around a real store, and devices that speak to it byte by byte."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from flask import Flask

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry
from client_sdk.report import (
    DEVICES_PATH,
    REPORTS_PATH,
    Report,
    encode_batch,
    report_to_json,
)
from tests.aggregator.contract import check, conforming

NOW = 1_796_040_000.0  # 30 November 2026, 12:00 UTC, a Monday
REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31

[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 0.5
epoch = "day"
owners = ["ui@example.org"]
starts = 2026-11-01
expires = 2027-01-01

[metrics.plan]
question = "Which plan was chosen?"
type = "category"
values = ["free", "paid"]
catch_all = "free"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
owners = ["ui@example.org"]
starts = 2026-11-01
expires = 2027-01-01

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 16, hashes = 2, cohorts = 64 }
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31

[metrics.wide]
question = "A vector with a bit for every device of a test"
type = "string"
sensitivity = "experiment"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 1 }
rappor = { bits = 2048, hashes = 1, cohorts = 4 }
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31
"""


@dataclass
class Device:
    """A device as the server sees one: id, key and a sequence."""

    id: str
    key: bytes
    sequence: int = 0

    def batch(self, *reports: str, sequence: int | None = None) -> bytes:
        """A fresh batch; the nonce is the sequence, so repeating both repeats the bytes."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        return encode_batch(self.id, sequence, f"{sequence:032x}", reports)

    def headers(self, body: bytes) -> dict[str, str]:
        return {MAC_HEADER: batch_mac(self.key, body), "Content-Type": "application/json"}


@dataclass
class World:
    """All parts of the server, in this process, with a clock that the test moves."""

    redis_url: str
    settings: ServerSettings
    keys: Keys
    store: Store
    catalogue: Catalogue
    registry: Registry
    now: float = NOW
    app: Any = field(init=False)

    def __post_init__(self) -> None:
        self.app = conforming(self.app_with())

    def app_with(self, **given: Any) -> Flask:
        """An application of these parts, with what else is given, or instead of them."""
        parts = {
            "store": self.store,
            "keys": self.keys,
            "catalogue": self.catalogue,
            "clock": lambda: self.now,
        }
        return create_app(**parts | given)

    @property
    def folder(self) -> Folder:
        return Folder(self.store)

    def metric(self, name: str) -> Metric:
        return self.registry.metrics[name]

    def epoch(self, name: str) -> int:
        return epoch_of(self.metric(name).epoch, day_of(self.now))

    def device(self) -> Device:
        """Enrol as the app does, without HTTP."""
        return Device(*self.keys.enrol())

    def report(self, name: str, response: int = 0, cohort: int = 0, **changes: Any) -> str:
        """A report of the current epoch as it travels."""
        metric = self.metric(name)
        report = Report(name, metric.fingerprint, self.epoch(name), cohort, response)
        return report_to_json(report._replace(**changes), metric.mechanism)

    def send(self, device: Device, body: bytes, **headers: str | None) -> Any:
        """POST a batch through the test client; None takes a header away."""
        sent: dict[str, Any] = dict(device.headers(body))
        for name, value in headers.items():
            sent[name.replace("_", "-")] = value
        sent = {name: value for name, value in sent.items() if value is not None}
        return self.app.test_client().post(REPORTS_PATH, data=body, headers=sent)

    def enrol(self, body: bytes = b"", key: str | None = None) -> Any:
        shown = self.keys.write_key if key is None else key
        headers = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json"}
        return self.app.test_client().post(DEVICES_PATH, data=body, headers=headers)

    def contents(self) -> dict[bytes, bytes]:
        """Every key of every shard that requests may change, with its serialized value."""
        with redis.Redis.from_url(self.redis_url) as client:
            keys = [key for key in client.scan_iter(match="{s*") if not key.endswith(b":life")]
            return {key: client.dump(key) for key in keys}

    def charged(self, device: Device, *reports: str) -> list[str]:
        """Send reports in a batch of their own; return their answers."""
        answer = self.send(device, device.batch(*reports))
        assert answer.status_code == 200, answer.json
        told: list[str] = answer.json["reports"]
        return told


def make_world(
    redis_url: str,
    directory: Path,
    registry: str = REGISTRY,
    *,
    check: bool = True,
    planned_devices: int = 8192,
    **settings: Any,
) -> World:
    fitted = ServerSettings(
        redis_url=redis_url,
        keys_file=directory / "keys.json",
        planned_devices=planned_devices,
        **settings,
    )
    keys = Keys.load_or_create(fitted.keys_file)
    store = Store.connect(fitted, keys.pseudonym_key)
    if check:
        store.check()
    catalogue = Catalogue(store)
    return World(redis_url, fitted, keys, store, catalogue, catalogue.register(registry))


@pytest.fixture
def world(redis_url: str, tmp_path: Path) -> Iterator[World]:
    made = make_world(redis_url, tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def new_world(tmp_path: Path) -> Callable[..., World]:
    """Make a world of a test's own store."""
    return lambda redis_url, **settings: make_world(redis_url, tmp_path, **settings)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Gunicorn:
    """The server as it is run, in processes of its own."""

    url: str
    process: subprocess.Popen[bytes]

    def post(self, device: Device, body: bytes, session: Any = requests) -> requests.Response:
        answer: requests.Response = session.post(
            self.url + REPORTS_PATH, data=body, headers=device.headers(body), timeout=30
        )
        check(answer, "POST", REPORTS_PATH)
        return answer


RUN_SERVER = """
import os
import sys
from aggregator.watching.logs import configure
from aggregator.server import run
from aggregator.settings import ServerSettings
settings = ServerSettings.from_env(os.environ)
configure("serve", settings, sys.stderr)
run(settings)
"""


def environment_of(world: World) -> dict[str, str]:
    return os.environ | {
        "REDIS_URL": world.redis_url,
        "SOTTOVOCE_KEYS_FILE": str(world.settings.keys_file),
        "SOTTOVOCE_PLANNED_DEVICES": str(world.settings.planned_devices),
        "SOTTOVOCE_SHARDS": str(world.settings.shards),
        "SOTTOVOCE_WORKERS": str(world.settings.workers),
        "SOTTOVOCE_THREADS": str(world.settings.threads),
    }


@pytest.fixture
def serve() -> Iterator[Callable[..., Gunicorn]]:
    """Start gunicorn for a world, with further variables; the time is then the real one."""
    running = []

    def start(world: World, **environment: str) -> Gunicorn:
        world.now = time.time()
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_SERVER],
            env=environment_of(world) | {"SOTTOVOCE_PORT": str(port)} | environment,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        running.append(process)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while True:
            with suppress(requests.ConnectionError):
                if requests.get(f"{url}/readyz", timeout=5).status_code == 200:
                    return Gunicorn(url, process)
            assert time.monotonic() < deadline and process.poll() is None, "gunicorn did not start"
            time.sleep(0.05)

    yield start
    for process in running:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

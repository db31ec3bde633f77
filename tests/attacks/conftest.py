"""What the attack suite shares: how a finding is noted, and the real server to attack.

Every test attacks shipped code. Its docstring states the bound that the design promises and why a
false alarm is at most 1e-6; a control runs the same attack where the protection is missing.
`--junitxml FILE` writes what was measured.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from scipy import stats

from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.server import prepare
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.wsgi import application
from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry, loads
from client_sdk.report import DEVICES_PATH, REPORTS_PATH, Report, encode_batch, report_to_json

FALSE_ALARM = 1e-6

HEAD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = {lifetime}
contact = "telemetry@example.org"
"""


def as_registry(*tables: str, lifetime: object = 1000) -> Registry:
    return loads(HEAD.format(lifetime=lifetime) + "\n".join(tables))


@pytest.fixture
def registry_of() -> Callable[..., Registry]:
    """Make a registry of [metrics.NAME] tables."""
    return as_registry


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Note an attack, what bounds it, what it achieved, and what it achieves unprotected."""
    # As record_property does, which complains about pytest's default form of junit files.
    properties = request.node.user_properties

    def write(attack: str, *, bound: object, measured: object, control: object) -> None:
        told = {"attack": attack, "bound": bound, "measured": measured, "control": control}
        for name, value in told.items():
            properties.append((name, f"{value:.4g}" if isinstance(value, float) else value))

    return write


@pytest.fixture
def most_hits() -> Callable[[int, float], int]:
    """The number of hits in n trials of chance p that is exceeded with at most 1e-6."""
    return lambda n, p: int(stats.binom.isf(FALSE_ALARM, n, p))


@dataclass
class Device:
    """A device as the server sees one: id, key and a sequence."""

    id: str
    key: bytes
    sequence: int = 0

    def batch(self, *reports: str, sequence: int | None = None) -> bytes:
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        return encode_batch(self.id, sequence, os.urandom(16).hex(), reports)


@dataclass
class World:
    """The server's parts on a real store, and its metrics.

    Attributes:
        now: Unix time of all reports: one moment, so that midnight falls into no test.
        app: The application that gunicorn serves, for calls without a network.
    """

    settings: ServerSettings
    registry: Registry
    keys: Keys
    store: Store
    now: float = field(default_factory=time.time)
    app: Any = field(init=False)

    def __post_init__(self) -> None:
        self.app = application(self.settings)

    def register(self, registry: Registry) -> None:
        """Serve a newer version of the registry too; its cap is the one that holds."""
        assert self.settings.metrics_file is not None
        self.settings.metrics_file.write_text(registry.text)
        prepare(self.settings)
        self.app = application(self.settings)

    def metric(self, name: str) -> Metric:
        return self.registry.metrics[name]

    def epoch(self, name: str, before: int = 0) -> int:
        """The present epoch's number, or that of `before` epochs earlier."""
        return epoch_of(self.metric(name).epoch, day_of(self.now)) - before

    def report(self, name: str, response: int = 0, before: int = 0, cohort: int = 0) -> str:
        metric = self.metric(name)
        report = Report(name, metric.fingerprint, self.epoch(name, before), cohort, response)
        return report_to_json(report, metric.mechanism)

    def enrol(self, body: bytes = b"{}") -> Any:
        shown = {"Authorization": f"Bearer {self.keys.write_key}"}
        shown["Content-Type"] = "application/json"
        return self.app.test_client().post(DEVICES_PATH, data=body, headers=shown)

    def device(self) -> Device:
        told = self.enrol().json
        return Device(told["device"], bytes.fromhex(told["key"]))

    def send(self, body: bytes, key: bytes) -> Any:
        headers = {MAC_HEADER: batch_mac(key, body), "Content-Type": "application/json"}
        return self.app.test_client().post(REPORTS_PATH, data=body, headers=headers)

    def tally(self, name: str, before: int = 0) -> Any:
        Folder(self.store).fold_once()
        return self.store.tallies.of(self.metric(name), self.epoch(name, before))

    def contents(self) -> dict[bytes, bytes]:
        """All that requests may change, serialized."""
        assert self.settings.redis_url is not None
        with redis.Redis.from_url(self.settings.redis_url) as client:
            return {key: client.dump(key) for key in client.scan_iter(match="{s*")}


@pytest.fixture
def world_of(redis_url: str, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Make a server for a registry; its clock is the machine's."""
    made = []

    def make(registry: Registry) -> World:
        folder = tmp_path / "server"
        folder.mkdir()
        metrics = folder / "metrics.toml"
        metrics.write_text(registry.text)
        settings = ServerSettings(
            redis_url=redis_url,
            keys_file=folder / "keys.json",
            metrics_file=metrics,
            planned_devices=8192,
        )
        keys = Keys.load_or_create(settings.keys_file)
        prepare(settings)
        made.append(World(settings, registry, keys, Store.connect(settings, keys.pseudonym_key)))
        return made[-1]

    yield make
    for world in made:
        world.store.close()


@pytest.fixture
def lasting() -> Callable[..., str]:
    """A daily metric that began some days ago and lasts as many more."""
    today = datetime.now(UTC).date()

    def table(name: str, keys: str, days: int = 100) -> str:
        return f"""
[metrics.{name}]
question = "Which is it?"
sensitivity = "product"
epoch = "day"
starts = {today - timedelta(days=days)}
expires = {today + timedelta(days=days)}
{keys}
"""

    return table


RUN_SERVER = """
import os
from aggregator.server import run
from aggregator.settings import ServerSettings
run(ServerSettings.from_env(os.environ))
"""


@pytest.fixture
def serve() -> Iterator[Callable[[World], str]]:
    """Start gunicorn for a world and return its URL."""
    running = []

    def start(world: World) -> str:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_SERVER],
            env=os.environ
            | {
                "REDIS_URL": str(world.settings.redis_url),
                "SOTTOVOCE_KEYS_FILE": str(world.settings.keys_file),
                "SOTTOVOCE_METRICS": str(world.settings.metrics_file),
                "SOTTOVOCE_PLANNED_DEVICES": str(world.settings.planned_devices),
                "SOTTOVOCE_PORT": str(port),
                "SOTTOVOCE_THREADS": "32",
            },
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        running.append(process)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while True:
            with suppress(requests.ConnectionError):
                if requests.get(f"{url}/readyz", timeout=5).status_code == 200:
                    return url
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

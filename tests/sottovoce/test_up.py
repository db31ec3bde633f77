"""`sottovoce up`: everything on one machine, for real use."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry as HttpRetry

from aggregator.keyring.keys import Keys
from client_sdk import Client
from client_sdk.epochs import label
from client_sdk.pending import current_epoch
from sottovoce.system import free_port
from tests.registries import Date, registry, theme
from tests.sottovoce.conftest import processes_naming, wait_until

METRICS = registry(theme(epoch="month", min_reports=5, expires=Date("2030-01-01")))


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    return path


class Running:
    """A system that was started by the command."""

    def __init__(self, start, metrics: Path, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.process = start("up", "--metrics", metrics, "--data", data, "--port", self.port)
        lines = []
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
        printed = dict(
            re.findall(
                r"^  (endpoint|metrics|dashboard|pages|ledger) +(.*)$",
                "".join(lines),
                flags=re.MULTILINE,
            )
        )
        assert printed["endpoint"] == f"http://127.0.0.1:{self.port}"
        assert printed["pages"].startswith(str(data / "releases" / "index.html"))
        assert printed["ledger"] == f"sottovoce ledger --data {data}"
        self.metrics = printed["metrics"]
        self.dashboard = printed["dashboard"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", self.dashboard)
        self.write_key = Keys.load(data / "keys.json").write_key

    def report(self, state: Path, value: str) -> None:
        client = Client(
            self.data.parent / "metrics.toml",
            endpoint=f"http://127.0.0.1:{self.port}",
            write_key=self.write_key,
            enabled=True,
            respect_environment=False,
            state_dir=state,
        )
        client.record("theme", value)
        assert client.flush(20), client.status()
        assert not client.status().refused
        client.close()


def command(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the running system's store."""
    sockets = [path for path in (data / "store").rglob("*.sock") if path.is_socket()]
    environment = {
        **os.environ,
        "REDIS_URL": f"unix://{sockets[0]}",
        "SOTTOVOCE_KEYS_FILE": str(data / "keys.json"),
        "SOTTOVOCE_RELEASES": str(data / "releases"),
    }
    return subprocess.run(
        [sys.executable, "-m", "sottovoce", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_reported_survives_the_end_of_everything(sottovoce, metrics, tmp_path, number):
    data = tmp_path / "data"
    system = Running(sottovoce, metrics, data)
    for device in range(5):
        system.report(tmp_path / f"device{device}", "dark")
    assert "ldp_redis_up 1.0\n" in requests.get(system.metrics, timeout=10).text
    system.process.send_signal(number)
    system.process.wait(30)
    wait_until(lambda: not processes_naming(data), 40)

    system = Running(sottovoce, metrics, data)
    for device in range(5, 8):
        system.report(tmp_path / f"device{device}", "light")
    registry = Client(metrics).registry
    theme = registry.metrics["theme"]
    import time

    epoch = label("month", current_epoch(theme, time.time()))
    published = command(data, "publish", "--close", "theme", epoch)
    assert published.returncode == 0, published.stderr
    shown = json.loads(command(data, "releases", "theme", epoch, "--json").stdout)
    assert [release["n"] for release in shown] == [8]
    policy = HttpRetry(total=10, backoff_factor=0.1)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=policy))
        listed = session.get(f"{system.dashboard}v1/releases", timeout=10).json()["releases"]
    assert [(release["metric"], release["epoch"], release["n"]) for release in listed] == [
        ("theme", epoch, 8)
    ]
    told = requests.get(system.metrics, timeout=10).text
    for line in (
        'ldp_batches_total{outcome="accepted"} 8.0',
        'ldp_reports_accepted_total{metric="theme"} 8.0',
        "ldp_devices_enrolled_total 8.0",
        'ldp_key_age_seconds{kind="master"}',
        "ldp_store_disk_free_ratio",
    ):
        assert f"\n{line}" in told, line
    ledger = json.loads(command(data, "ledger", "--json").stdout)
    assert (ledger["devices"], ledger["highest"]) == (8, 1.0)
    device = command(data, "ledger", "--state", str(tmp_path / "device0"), "--json")
    assert json.loads(device.stdout)["spent_epsilon"] == 1.0
    # Closed is closed: the next report of this month is refused, and says why.
    client = Client(
        metrics,
        endpoint=f"http://127.0.0.1:{system.port}",
        write_key=system.write_key,
        enabled=True,
        respect_environment=False,
        state_dir=tmp_path / "late",
    )
    client.record("theme", "dark")
    client.flush(20)
    assert client.status().refused == {"epoch_closed": 1}
    client.close()
    again = command(data, "publish", "--close", "theme", epoch)
    assert again.returncode == 0
    shown_again = json.loads(command(data, "releases", "theme", epoch, "--json").stdout)
    assert shown_again == shown
    system.process.send_signal(signal.SIGINT)
    assert system.process.wait(30) in (0, 130)
    wait_until(lambda: not processes_naming(data), 40)


def store_of(system: Running) -> redis.Redis:
    (socket,) = [path for path in (system.data / "store").rglob("*.sock") if path.is_socket()]
    return redis.Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0))


def status(system: Running, path: str) -> int:
    return requests.get(f"http://127.0.0.1:{system.port}{path}", timeout=20).status_code


@pytest.mark.slow
def test_a_killed_store_is_started_again_while_the_server_lives(sottovoce, metrics, tmp_path):
    system = Running(sottovoce, metrics, tmp_path / "data")
    system.report(tmp_path / "before", "dark")
    with store_of(system) as store:
        os.kill(store.info("server")["process_id"], signal.SIGKILL)
        assert status(system, "/livez") == 200
        wait_until(lambda: status(system, "/readyz") == 200)
        system.report(tmp_path / "after", "light")
    ledger = json.loads(command(tmp_path / "data", "ledger", "--json").stdout)
    assert ledger["devices"] == 2
    system.process.send_signal(signal.SIGTERM)
    _, said = system.process.communicate(timeout=30)
    assert "the store has ended, see " in said and "starting it again in 0.5 s" in said
    wait_until(lambda: not processes_naming(tmp_path / "data"), 40)


@pytest.mark.slow
def test_a_full_disk_stops_the_store_and_room_brings_it_back_with_all_it_acknowledged(
    sottovoce, metrics, tmp_path
):
    # With appendfsync always the store ends when it cannot write. What may not grow here is each of
    # its files, which needs neither root nor a disk to fill.
    data = tmp_path / "data"
    system = Running(sottovoce, metrics, data)
    for device in range(3):
        system.report(tmp_path / f"device{device}", "dark")
    with store_of(system) as store:
        pid = store.info("server")["process_id"]
    (log,) = (data / "store" / "appendonlydir").glob("*.incr.aof")
    full = (log.stat().st_size + 64, resource.RLIM_INFINITY)
    for process in (system.process.pid, pid):  # a store that is started again has its parent's
        resource.prlimit(process, resource.RLIMIT_FSIZE, full)
    client = Client(
        metrics,
        endpoint=f"http://127.0.0.1:{system.port}",
        write_key=system.write_key,
        enabled=True,
        respect_environment=False,
        state_dir=tmp_path / "waiting",
    )
    client.record("theme", "light")
    assert not client.flush(5)
    assert client.status().queued == 1
    assert status(system, "/livez") == 200 and status(system, "/readyz") == 503
    assert system.process.poll() is None
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(system.process.pid, resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: status(system, "/readyz") == 200)
    client.close()
    system.report(tmp_path / "after", "light")
    ledger = json.loads(command(data, "ledger", "--json").stdout)
    assert ledger["devices"] == 4
    system.process.send_signal(signal.SIGTERM)
    system.process.communicate(timeout=30)
    wait_until(lambda: not processes_naming(data), 40)

"""What the examples run against: one real server side, in processes of its own.

The examples run as they are. Two things are set from outside, as an operator would: where the
server is, and that a report leaves at once instead of within the hour.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aggregator.settings import ServerSettings
from client_sdk import load
from sottovoce.system import System, free_port, running

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SETTLED_SECONDS = 1.0
"""So long nothing more may come: a second copy would."""
AT_ONCE = """
from client_sdk import Client
Client.__init__.__kwdefaults__["upload_within_seconds"] = 0.0
"""


@pytest.fixture(scope="module")
def system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """Store, server and fold for the example of a test module, EXAMPLE."""
    settings = ServerSettings(
        port=free_port(), workers=1, threads=4, planned_devices=1000, fold_interval_seconds=0.1
    )
    with running(
        (EXAMPLES / request.module.EXAMPLE / "metrics.toml").read_text(),
        tmp_path_factory.mktemp("data"),
        settings=settings,
        with_schedule=False,
        log_directory=tmp_path_factory.mktemp("logs"),
        appendfsync="everysec",
    ) as started:
        yield started


@dataclass(frozen=True)
class Installation:
    """One machine on which an example is installed: its home, and its environment."""

    home: Path
    environment: dict[str, str]

    def charged(self) -> dict[str, int]:
        """Reports that the ledger of its only device says were charged, by metric."""
        paths = list((self.home / "state").rglob("state.sqlite3"))
        if not paths:
            return {}
        (path,) = paths
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT metric, reports FROM shares WHERE reports > 0")
            return dict(rows.fetchall())


@pytest.fixture
def install(system: System, tmp_path: Path) -> Callable[[str], Installation]:
    """Make a home for an example: nothing of this process's environment gets there."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AT_ONCE)

    def make(name: str) -> Installation:
        home = tmp_path / name
        home.mkdir()
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": f"{site}{os.pathsep}{ROOT}",
            "SOTTOVOCE_ENDPOINT": system.endpoint,
            "SOTTOVOCE_WRITE_KEY": system.write_key,
        }
        return Installation(home, environment)

    return make


@pytest.fixture
def arrived(request: pytest.FixtureRequest, system: System) -> Callable[[], dict[str, int]]:
    """Reports that the server has counted, by metric, over all epochs."""
    registry = load(EXAMPLES / request.module.EXAMPLE / "metrics.toml")

    def count() -> dict[str, int]:
        counts = {
            name: sum(
                system.store.tallies.of(metric, epoch).n
                for epoch in system.store.tallies.epochs_with_reports(metric)
            )
            for name, metric in registry.metrics.items()
        }
        return {name: count for name, count in counts.items() if count}

    return count


@pytest.fixture
def wait_until() -> Callable[..., None]:
    def wait_until(holds: Callable[[], object], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.05)

    return wait_until


@pytest.fixture
def settle(
    arrived: Callable[[], dict[str, int]], wait_until: Callable[..., None]
) -> Callable[[dict[str, int]], None]:
    """Wait until as much has arrived as is expected, then whether more comes."""

    def settle(expected: dict[str, int]) -> None:
        wait_until(lambda: sum(arrived().values()) >= sum(expected.values()))
        time.sleep(SETTLED_SECONDS)
        assert arrived() == expected

    return settle


@contextmanager
def started(command: list[str], home: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            **options,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    assert "Traceback" not in (home / "log").read_text()


@pytest.fixture
def start() -> Callable[..., Any]:
    """Run a server of an example; end it as its operator does, and see that it is quiet."""
    return started

"""What host apps test with: fixtures that load late, clients of one device, a clock."""

import json
import os
import subprocess
import sys
import tomllib
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from client_sdk import pytest_plugin
from client_sdk.epochs import day_of
from client_sdk.testing import ClientFactory, FakeClock

ROOT = Path(__file__).parents[2]


@pytest.fixture
def device(tmp_path: Path) -> Any:
    factory = ClientFactory(tmp_path / "state", FakeClock())
    yield factory
    factory.close()


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(100.0)
    assert (clock(), clock(), clock.moved) == (100.0, 100.0, False)
    clock.tick(days=1, hours=1, seconds=0.5)
    assert (clock(), clock.moved) == (100.0 + 86_400 + 3600 + 0.5, True)
    clock.move_to(date(2026, 12, 1))
    assert clock() == 1_796_083_200 + 43_200  # 2026-12-01T12:00:00Z


def test_a_client_begins_when_all_its_metrics_have_started(
    device: ClientFactory, registry_of: Any
) -> None:
    device(registry_of())
    assert day_of(device.clock()) == date(2026, 12, 1)


def test_a_clock_that_the_test_set_stays_where_it_is(
    device: ClientFactory, registry_of: Any
) -> None:
    device.clock.move_to(date(2026, 11, 1))
    client = device(registry_of())
    client.record("theme", "dark")
    assert client.dropped == {"not_started": 1}


def test_a_second_client_is_the_app_started_again(device: ClientFactory, registry_of: Any) -> None:
    for _ in range(2):
        client = device(registry_of())
        client.record("theme", "dark")
        client.flush()
        client.close()
    assert len(device.reports("theme")) == len(device.reports()) == 1
    assert client.dropped == {"already_reported": 1}


def test_nothing_leaves_before_reports_are_asked_for(
    device: ClientFactory, registry_of: Any
) -> None:
    client = device(registry_of())
    client.record("theme", "dark")
    device.clock.tick(days=1)
    client.record("theme", "dark")
    assert device.transport.batches == []
    assert len(device.reports()) == 2


def test_a_client_remembers_what_was_recorded_whatever_became_of_it(
    device: ClientFactory, registry_of: Any
) -> None:
    client = device(registry_of(), enabled=False)
    client.record("theme", "dark")
    client.record("no_such_metric", 3)
    assert client.recorded == [("theme", "dark"), ("no_such_metric", 3)]
    assert client.dropped == {"disabled": 2}


def test_a_state_that_accepts_twice_is_not_hidden_by_a_forgiving_server(
    device: ClientFactory, registry_of: Any
) -> None:
    """Each batch has its own sequence number and is acknowledged: the queue empties."""
    client = device(registry_of())
    for _ in range(3):
        client.record("theme", "dark")
        assert client.flush()
        device.clock.tick(days=1)
    assert client.status().queued == 0
    assert len(device.transport.batches) == len(device.transport.macs) == 3


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert import_module(module) is pytest_plugin


def test_the_plugin_loads_nothing_of_the_sdk_before_a_fixture_is_used() -> None:
    code = (
        "import pytest, sys\n"
        "before = set(sys.modules)\n"
        "import client_sdk.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == ["client_sdk", "client_sdk.pytest_plugin"]


def test_fixtures_work_in_a_host_app_and_close_what_they_made(
    tmp_path: Path, registry_of: Any
) -> None:
    (tmp_path / "metrics.toml").write_text(registry_of().text)
    (tmp_path / "test_app.py").write_text(
        "import _thread\n"
        "before = _thread._count()\n"
        "made = []\n"
        "def test_one(sottovoce_client, sottovoce_reports):\n"
        "    made.append(sottovoce_client('metrics.toml'))\n"
        "    made[0].record('theme', 'dark')\n"
        "    assert len(sottovoce_reports()) == 1\n"
        "def test_two(sottovoce_client, sottovoce_reports, sottovoce_canary):\n"
        "    assert made and _thread._count() == before\n"
        "    with sottovoce_canary('CANARY-7f3a'):\n"
        "        assert sottovoce_reports() == []  # a device of its own\n"
        "def test_three(sottovoce_client, sottovoce_canary):\n"
        "    with sottovoce_canary('CANARY-7f3a') as canary:\n"
        "        client = sottovoce_client('metrics.toml')\n"
        "        client.status = lambda: canary.value  # a client made in the block is watched\n"
    )
    command = ["-m", "pytest", "-q", "-W", "error", "-p", "client_sdk.pytest_plugin"]
    ran = subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CI": "1",
            "DO_NOT_TRACK": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout and "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "CanaryFound" in ran.stdout and "status of the client" in ran.stdout


def test_an_erasure_is_recorded_and_confirmed(tmp_path: Path, registry_of: Any) -> None:
    make = ClientFactory(tmp_path, FakeClock())
    client = make(registry_of())
    client.record("theme", "dark")
    assert len(make.reports()) == 1
    assert client.erase()
    assert client.status().spent_epsilon == 1.0
    (request,) = make.transport.erasures
    (batch,) = make.transport.batches
    assert json.loads(request)["device"] == json.loads(batch)["device"]
    make.close()

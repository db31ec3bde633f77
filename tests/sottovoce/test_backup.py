"""The drill: the commands that docs/operations.md gives for backing up and restoring, on `up`."""

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from client_sdk.report import REPORTS_PATH
from tests.aggregator.conftest import Device, World, make_world
from tests.sottovoce.conftest import processes_naming, wait_until
from tests.sottovoce.test_ledger import ADDED
from tests.sottovoce.test_up import Running

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
CAP = 12_000_000


def documented(heading: str) -> str:
    """The shell commands of one section, for this interpreter and day."""
    section = OPERATIONS.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    block = block.replace("2026-11-29", datetime.now(UTC).date().isoformat())
    command = f"{shlex.quote(sys.executable)} -m sottovoce "
    return re.sub(r"^sottovoce ", command, block, flags=re.MULTILINE)


def run(commands: str, folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def store_of(data: Path) -> World:
    (socket,) = (path for path in (data / "store").rglob("*.sock") if path.is_socket())
    world = make_world(f"unix://{socket}", data, ADDED)
    world.now = time.time()
    return world


def sent(system: Running, device: Device, report: str) -> tuple[str, int]:
    """Report over HTTP; return the answer and what the server says was spent."""
    body = device.batch(report)
    url = f"http://127.0.0.1:{system.port}{REPORTS_PATH}"
    answer = requests.post(url, data=body, headers=device.headers(body), timeout=30)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    return told["reports"][0], told["spent"]


def end(system: Running, number: int) -> None:
    system.process.send_signal(number)
    system.process.wait(30)
    wait_until(lambda: not processes_naming(system.data), 40)


@pytest.mark.slow
def test_the_documented_backup_and_restore_give_nobody_budget_back(
    sottovoce: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One bucket a shard: a recovery syncs each to the disk.
    monkeypatch.setenv("SOTTOVOCE_PLANNED_DEVICES", "8192")
    metrics, data = tmp_path / "metrics.toml", tmp_path / "data"
    metrics.write_text(ADDED)
    system = Running(sottovoce, metrics, data)
    world = store_of(data)
    greedy, others = world.device(), [world.device() for _ in range(20)]
    for device in (greedy, *others):
        assert sent(system, device, world.report("theme")) == ("accepted", 1_000_000)

    # Uploads and rewrites of the append-only file go on while the copy is made.
    stop = threading.Event()

    def go_on() -> None:
        with redis.Redis.from_url(world.redis_url) as admin:
            for number in range(200):
                device = world.device()
                world.charged(device, world.report("theme"))
                if number in (0, 10, 20) and not stop.is_set():
                    with suppress(redis.ResponseError):  # the last one runs still: as good
                        admin.bgrewriteaof()
                if stop.wait(0.005):
                    return

    writer = threading.Thread(target=go_on)
    writer.start()
    run(documented("Backing up"), tmp_path)
    stop.set()
    writer.join()

    # After the backup it spends all of its life; the store goes on for some minutes.
    newcomer = world.device()
    assert sent(system, newcomer, world.report("theme")) == ("accepted", 1_000_000)
    assert sent(system, greedy, world.report("home_page")) == ("accepted", 9_000_000)
    assert sent(system, greedy, world.report("crashed", 1)) == ("accepted", CAP)
    for _ in range(3):
        world.store.raise_generation(world.now)
    world.store.close()
    end(system, 15)

    restore, recover = documented("After restoring a backup").rsplit("\n", 2)[0:2]
    run(restore, tmp_path)
    refused = sottovoce("up", "--metrics", metrics, "--data", data, "--port", system.port)
    _, complaint = refused.communicate(timeout=60)
    assert refused.returncode == 2 and "ledger --restored-from" in complaint
    assert "Servers may use the store again" in run(recover, tmp_path)

    system = Running(sottovoce, metrics, data)
    world = store_of(data)
    for report in (world.report("home_page"), world.report("crashed", 1)):
        assert sent(system, greedy, report) == ("budget_exhausted", CAP)
    # Known as one that reported theme; all else may have been charged since.
    assert sent(system, others[0], world.report("crashed")) == ("budget_exhausted", CAP)
    assert sent(system, newcomer, world.report("crashed")) == ("budget_exhausted", CAP)
    assert sent(system, world.device(), world.report("crashed")) == ("accepted", 3_000_000)
    assert max(world.store.accounts.every_spent()) <= CAP
    assert min(world.store.accounts.spent(device.id) for device in (greedy, *others)) == CAP
    world.store.close()
    end(system, 15)

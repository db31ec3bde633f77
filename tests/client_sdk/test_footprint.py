"""What the SDK takes of its host's memory before the first upload, in fresh processes.

Measured 2026-11-30, Linux x86_64, Python 3.11.7, beyond the bare interpreter: 0.9 MiB after the
import, 5.5 after making a client, 6.4 after the first record. The bar is 9 MB.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MOST_MIB = 7.5
NOON = 1_796_126_400  # of 2026-12-01
COSTLY = set(
    "dataclasses inspect pathlib urllib.parse threading logging hashlib hmac secrets random ssl "
    "http.client asyncio requests cryptography".split()
)

MEASURED = """
import sys
def resident():
    with open("/proc/self/status") as status:  # not ru_maxrss, which starts at the parent's
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
resident()
bare, modules = resident(), set(sys.modules)
from client_sdk import Client
figures = [resident()]
client = Client({metrics!r}, enabled=True, clock=lambda: {now}, endpoint="http://127.0.0.1:9")
figures.append(resident())
client.record("theme", "dark")
client._worker_here().store(30)
figures.append(resident())
assert client.status().queued == 1
print(*(figure - bare for figure in figures))
print(*sorted(set(sys.modules) - modules))
"""


@pytest.fixture
def measured(host: Any, tmp_path: Path) -> tuple[list[float], set[str]]:
    """MiB after import, client and first record, and the modules that are loaded by then."""
    program = MEASURED.format(metrics=str(tmp_path / "metrics.toml"), now=NOON)
    # As pip installs it: with byte code, so that nothing is compiled.
    environment = host.environment(PYTHONPYCACHEPREFIX=str(tmp_path / "cache"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for run in range(2):
        said = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "XDG_STATE_HOME": str(tmp_path / str(run))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    return [int(figure) / 1024 for figure in said[0].split()], set(said[1].split())


def test_the_first_record_leaves_the_sdk_well_below_nine_megabytes(
    measured: tuple[list[float], set[str]],
) -> None:
    (imported, made, recorded), _ = measured
    assert imported < 2.5
    assert made <= recorded < MOST_MIB


def test_nothing_costly_is_loaded_before_the_first_upload(
    measured: tuple[list[float], set[str]],
) -> None:
    _, modules = measured
    assert "client_sdk.recorder" in modules
    assert COSTLY & modules == set()

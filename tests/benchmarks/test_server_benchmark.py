"""The server's benchmarks measure uploads that are taken, and print what the docs show."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "server"
MODULES = ("run", "soak", "uploads", "serving")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmark as its command does; gone again after the test."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    monkeypatch.syspath_prepend(str(BENCHMARK))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)
        if before[name] is not None:
            sys.modules[name] = before[name]


@pytest.mark.slow
def test_every_upload_that_is_timed_is_taken_and_folded(module: Any) -> None:
    run = module("run")
    args = argparse.Namespace(uploads=100, connections=4, workers=1, threads=4)
    cells = run.measured("everysec", 10, args)  # raises if an upload was lost
    assert len(cells) == len(run.HEADER) and cells[:2] == ["everysec", "10"]


@pytest.mark.slow
def test_memory_does_not_grow_with_uploads(module: Any) -> None:
    # Half a minute shows gross leaks only: 4 KB an upload of ten reports. Ten minutes are for
    # benchmarks/server/soak.py, whose figures are in docs/benchmarks.md.
    rate = 60
    for name, memory in module("soak").soaked(30, rate, 10, 40).items():
        assert memory.bytes_per_second < 4096 * rate, name


def test_the_documented_tables_have_the_columns_that_are_printed(module: Any) -> None:
    page = (BENCHMARK.parents[1] / "docs" / "benchmarks.md").read_text()
    for name in ("run", "soak"):
        each = module(name)
        assert module("run").line(each.HEADER) in page, name


@pytest.mark.parametrize("command", ["run", "soak"])
def test_the_command_explains_itself(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK / f"{command}.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "python benchmarks/server/" in ran.stdout

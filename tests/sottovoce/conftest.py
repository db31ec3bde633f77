"""Helpers for tests that run whole systems."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest


def processes_naming(folder: Path) -> list[psutil.Process]:
    """Return every process whose command line or environment names a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != psutil.Process().pid and any(str(folder) in word for word in words):
            found.append(process)
    return found


def wait_until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for something, at most so long."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@pytest.fixture
def sottovoce() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start commands as a user would; what still runs after the test is killed."""
    started = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()

"""The schedule as a process: ticks, survives failures, logs each result, stops on SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import logging, sys, time
from pathlib import Path
from estimator.publish import Outcome
from estimator.schedule import run

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s %(message)s")
logging.getLogger("apscheduler").setLevel(logging.WARNING)
ticks = 0

def publish():
    global ticks
    ticks += 1
    if ticks == 1:
        raise ConnectionError("the store is away")
    print("tick", ticks, flush=True)
    if ticks == 4:
        time.sleep(1)
        print("finished", flush=True)
    return [
        Outcome("theme", "2026-W49", "0123", "OK", "", Path("x")),
        Outcome("theme", "2026-W49", "4567", "WITHHELD", "fewer than 100 reports", Path("y")),
        Outcome("home", "2026-12-01", "", "FAILED", "could not be closed: shard 3"),
    ]

run(publish, 0.1)
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_schedule_survives_failures_and_finishes_its_tick_on_a_signal(number):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("tick 4"):
                break
        started = time.monotonic()
        process.send_signal(number)
        rest, _ = process.communicate(timeout=20)
        assert time.monotonic() - started < 15
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    # The tick that was running is finished, and no other one begins.
    assert "finished" in rest
    assert "tick" not in rest
    assert rest.strip().endswith("ended")
    text = "\n".join(lines)
    assert "FAILED: nothing could be published" in text
    assert "the store is away" in text
    for line in (
        "estimator.schedule OK theme 2026-W49 0123",
        "estimator.schedule WITHHELD theme 2026-W49 4567: fewer than 100 reports",
        "estimator.schedule FAILED home 2026-12-01: could not be closed: shard 3",
    ):
        assert line in lines

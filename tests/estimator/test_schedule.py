"""The schedule as a process: ticks, survives failures, logs each result, stops on SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from estimator.schedule import NOTIFY_MINUTES, notified, notify_trigger

ROOT = Path(__file__).parents[2]

PROGRAM = """
import logging, sys, time
from pathlib import Path
from apscheduler.schedulers.background import BackgroundScheduler
from estimator import schedule
from estimator.publish import Outcome

class Watched(BackgroundScheduler):
    def __init__(self, **options):
        super().__init__(**options)
        made.append(self)

made = []
schedule.BackgroundScheduler = Watched

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s %(message)s")
# It warns of every tick that falls into a running one: how many do depends on speed.
logging.getLogger("apscheduler").setLevel(logging.ERROR)
ticks = 0

def publish():
    global ticks
    ticks += 1
    if ticks == 1:
        raise ConnectionError("the store is away")
    print("tick", ticks, flush=True)
    if ticks == 4:
        # Until the signal has had its effect, however long that takes.
        while made[0].running:
            time.sleep(0.01)
        print("finished", flush=True)
    return [
        Outcome("theme", "2026-W49", "0123", "OK", "", Path("x")),
        Outcome("theme", "2026-W49", "4567", "WITHHELD", "fewer than 100 reports", Path("y")),
        Outcome("home", "2026-12-01", "", "FAILED", "could not be closed: shard 3"),
    ]

schedule.run(publish, 0.1)
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
        process.send_signal(number)
        rest, _ = process.communicate(timeout=100)
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


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_looks_at_digests_come_at_full_hours_of_utc_whatever_the_zone(zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        trigger = notify_trigger()
        for day in ("2027-03-14", "2027-03-28", "2027-04-04", "2027-10-03", "2027-10-31"):
            moment = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=UTC)
            seen = []
            while moment.date().isoformat() == day:
                seen.append(moment)
                moment = trigger.get_next_fire_time(moment, moment + timedelta(microseconds=1))
            assert len(seen) == 24 * 60 // NOTIFY_MINUTES
            assert {each.hour for each in seen if each.minute == 0} == set(range(24))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_store_that_is_away_costs_one_line_and_no_publication(caplog):
    def look():
        raise ConnectionError("the store is away")

    notified(look)
    (record,) = caplog.records
    assert record.getMessage() == "no digest could be composed or noted: the store is away"


BESIDE = """
import threading
from estimator import schedule

schedule._NOTIFY_AFTER_SECONDS = 0.0
begun, hangs = threading.Semaphore(0), threading.Event()

def publish():
    if begun.acquire(timeout=100) and begun.acquire(timeout=100):
        print("published beside", flush=True)
    return []

def hang():
    begun.release()
    hangs.wait(100)

schedule.run(publish, 0.1, notify=hang, preview=hang)
"""


def test_publishing_goes_on_while_a_digest_and_a_preview_hang():
    process = subprocess.Popen(
        [sys.executable, "-c", BESIDE],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "published beside\n"
    finally:
        process.kill()
        process.communicate()

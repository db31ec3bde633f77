"""kill -9, again and again: what was acknowledged is counted, and once; the rest is sent again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.aggregator.conftest import environment_of
from tests.faults.census import MOST, Census, Senders
from tests.faults.folding import folding
from tests.faults.syncs import NotedProgram

pytestmark = pytest.mark.slow

KILLS = 20
# Dies at one commit in five, half the time before it and half the time after it. Lingers between
# read and commit, so that the two race.
DEADLY_FOLD = """
import os, random, signal, sys, threading, time
from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
settings = ServerSettings.from_env(os.environ)
store = Store.connect(settings, Keys.load(settings.keys_file).pseudonym_key)
commit, chance = store.tallies.commit, random.Random(int(sys.argv[1]))
def deadly(*arguments):
    drawn = chance.random()
    time.sleep(chance.uniform(0, 0.03))
    if drawn < 0.1:
        os.kill(os.getpid(), signal.SIGKILL)
    done = commit(*arguments)
    if drawn > 0.9:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
store.tallies.commit = deadly
Folder(store, entries_per_commit=10).run(threading.Event(), 0.01)
"""


class DeadlyFolds:
    """Two fold workers, started again whenever they die.

    Attributes:
        suicides: Deaths between read and commit, or right after a commit.
        kills: Deaths at any moment.
    """

    def __init__(self, world: Any, seed: int) -> None:
        self._environment = environment_of(world)
        self._chance = random.Random(seed)
        self._workers = [self._start(), self._start()]
        self.suicides = self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", DEADLY_FOLD, str(self._chance.getrandbits(32))]
        return subprocess.Popen(
            command, env=self._environment, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE
        )

    def watch(self, seconds: float) -> None:
        """Restart the dead for a while, then kill one at random."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for at, worker in enumerate(self._workers):
                if worker.poll() is not None:
                    _, said = worker.communicate()
                    assert worker.returncode == -signal.SIGKILL, said.decode()
                    self.suicides += 1
                    self._workers[at] = self._start()
            time.sleep(0.01)
        at = self._chance.randrange(2)
        if self._workers[at].poll() is None:
            self._end(at)
            self.kills += 1
            self._workers[at] = self._start()

    def _end(self, at: int) -> None:
        self._workers[at].kill()
        self._workers[at].communicate()

    def end(self) -> None:
        for at, worker in enumerate(self._workers):
            if worker.returncode is None:
                self._end(at)


@pytest.fixture
def deadly_folds(seed: int) -> Iterator[Callable[[Any], DeadlyFolds]]:
    started: list[DeadlyFolds] = []

    def start(world: Any) -> DeadlyFolds:
        started.append(DeadlyFolds(world, seed))
        return started[-1]

    yield start
    for folds in started:
        folds.end()


def test_two_fold_workers_killed_again_and_again_fold_bit_exactly(
    redis_url: str,
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    deadly_folds: Callable[[Any], DeadlyFolds],
    seed: int,
) -> None:
    world = new_world(redis_url, shards=2)  # so that they meet
    census = Census(world)
    senders = Senders(census, serve(world), MOST, threads=3)
    folds = deadly_folds(world)
    chance = random.Random(seed)
    while folds.suicides + folds.kills < KILLS + 4 or not (folds.suicides and folds.kills):
        folds.watch(chance.uniform(0.5, 2.0))
        assert senders.failure is None, senders.failure
    senders.finish()
    folds.end()
    before = world.store.figures.lag()
    world.folder.fold_once()
    census.check()
    print(
        f"{folds.suicides} died at a commit, {folds.kills} anywhere; {senders.sent} uploads, "
        f"{senders.sent - before // 2} folded by the dying"
    )
    assert before < 2 * senders.sent  # the dying did fold
    world.store.close()


@pytest.mark.parametrize("fsync", ["always", "everysec"])
@pytest.mark.timeout(240)
def test_a_store_killed_again_and_again_loses_nothing_that_was_acknowledged(
    start_store: Callable[..., Any],
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    tmp_path: Path,
    seed: int,
    fsync: str,
) -> None:
    """With everysec it is killed at moments when no background sync runs; see test_power_cut."""
    noted = NotedProgram.build(tmp_path)
    store = start_store(appendfsync=fsync, program=noted.program)
    world = new_world(store.url)
    census = Census(world)
    senders = Senders(census, serve(world), MOST)
    chance = random.Random(seed)
    outages, recoveries = [], []
    with folding(world):
        for _ in range(KILLS):
            senders.wait_for(senders.sent + 5)
            time.sleep(chance.uniform(0, 0.3))
            if fsync == "everysec":
                noted.wait_between_syncs()
            killed_at = time.monotonic()
            store.kill()
            time.sleep(0.05)
            store.start()
            ready_at, before = time.monotonic(), senders.sent
            senders.wait_for(before + 1)
            outages.append(time.monotonic() - killed_at)
            recoveries.append(time.monotonic() - ready_at)
        senders.finish()
    world.folder.fold_once()
    print(
        f"{fsync}: {KILLS} kills, {senders.sent} acknowledged, {senders.refused[503]} x 503, "
        f"kill to next acknowledged at most {max(outages):.2f} s, "
        f"store ready to next acknowledged at most {max(recoveries):.3f} s"
    )
    census.check()
    assert senders.refused[503] > 0 and max(recoveries) < 5
    world.store.close()


def test_server_processes_killed_again_and_again_lose_nothing(
    world: Any, serve: Callable[[Any], Any], seed: int
) -> None:
    census, server = Census(world), serve(world)
    senders = Senders(census, server, MOST, threads=4)
    chance = random.Random(seed)
    for _ in range(KILLS // 2):
        senders.wait_for(senders.sent + 20)
        time.sleep(chance.uniform(0, 0.2))
        workers = psutil.Process(server.process.pid).children()
        os.kill(chance.choice(workers).pid, signal.SIGKILL)
    senders.wait_for(senders.sent + 20)
    senders.finish()
    world.folder.fold_once()
    print(f"{senders.sent} acknowledged, {senders.broken} requests broken")
    census.check()

"""A census: every report sets a cell of its own, so a tally shows who was counted, and how often.

No mechanism draws these responses: a cell of 2 is a report counted twice, a cell of 0 one lost.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import requests

from client_sdk.report import REPORTS_PATH

METRIC, CELLS = "wide", 2048
MOST = 4 * CELLS
"""Reports of one census: cohorts times cells of its metric."""


class Census:
    """Hands out uploads and remembers what was acknowledged.

    Each upload is of a device of its own: its own cell of "wide", and a cell of "theme".
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.acknowledged: dict[int, float] = {}
        self.bodies: dict[int, tuple[Any, bytes]] = {}
        self.verdicts: Counter[str] = Counter()

    def upload(self) -> tuple[int, Any, bytes]:
        """Return a number, a new device, and its first batch."""
        number = next(self._numbers)
        assert number < MOST, "the census is full"
        device = self.world.device()
        own = self.world.report(METRIC, 1 << number % CELLS, number // CELLS)
        body = device.batch(own, self.world.report("theme", number % 4))
        self.bodies[number] = device, body
        return number, device, body

    def note(self, number: int, answer: Any) -> None:
        """Note an answer of status 200: everything was accepted, now or before."""
        told = answer.json() if callable(answer.json) else answer.json
        assert answer.status_code == 200, told
        assert told["reports"] == ["accepted", "accepted"] and told["spent"] == 5_000_000
        with self._lock:
            self.acknowledged.setdefault(number, time.monotonic())
            self.verdicts[told["verdict"]] += 1

    def counted(self) -> set[int]:
        """Return the numbers in the tally; fail if one is there twice."""
        world = self.world
        tally = world.store.tallies.of(world.metric(METRIC), world.epoch(METRIC))
        assert tally.counts.max() <= 1, "a report was counted twice"
        theme = world.store.tallies.of(world.metric("theme"), world.epoch("theme"))
        found = {int(number) for number in np.flatnonzero(tally.counts)}
        assert tally.n == theme.n == len(found), "the metrics of one batch differ"
        cells = Counter(number % 4 for number in found)
        assert theme.counts.tolist() == [[cells[cell] for cell in range(4)]]
        return found

    def check(self) -> None:
        """Check that exactly what was acknowledged was counted, once, and charged, once."""
        counted, acknowledged = self.counted(), set(self.acknowledged)
        assert counted == acknowledged, (
            f"lost: {sorted(acknowledged - counted)}; not acknowledged: "
            f"{sorted(counted - acknowledged)}"
        )
        counters = self.world.store.figures.counters()
        assert counters["accepted"] == counters["folded"] == 2 * len(acknowledged)
        assert counters["late"] == counters["clones"] == counters["gaps"] == 0
        assert Counter(self.world.store.accounts.every_spent()) == {5_000_000: len(acknowledged)}


class Senders:
    """Threads that upload a census to a server, each batch until it is acknowledged.

    Attributes:
        refused: Answers that told to come back, by status.
        broken: Requests without an answer.
    """

    def __init__(self, census: Census, server: Any, uploads: int, threads: int = 8) -> None:
        self.census, self._server, self._left = census, server, itertools.count()
        self._uploads = uploads
        self.refused: Counter[int] = Counter()
        self.broken = 0
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        try:
            with requests.Session() as session:
                while not self._stop.is_set() and next(self._left) < self._uploads:
                    number, device, body = self.census.upload()
                    while not self._sent(session, number, device, body):
                        time.sleep(0.01)
        except BaseException as error:
            self.failure = error

    def _sent(self, session: requests.Session, number: int, device: Any, body: bytes) -> bool:
        answer = None
        with suppress(requests.RequestException):
            answer = session.post(
                self._server.url + REPORTS_PATH,
                data=body,
                headers=device.headers(body),
                timeout=30,
            )
        if answer is None or not answer.text.endswith("}"):  # `requests` takes a cut head as whole
            self.broken += 1
        elif answer.status_code == 503:
            assert int(answer.headers["Retry-After"]) > 0
            self.refused[503] += 1
        else:
            self.census.note(number, answer)
            return True
        return False

    @property
    def sent(self) -> int:
        """Uploads acknowledged so far."""
        return len(self.census.acknowledged)

    def wait_for(self, acknowledged: int, seconds: float = 100) -> None:
        """Wait until so many uploads are acknowledged."""
        deadline = time.monotonic() + seconds
        while self.sent < acknowledged:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, f"stuck at {self.sent} uploads"
            time.sleep(0.005)

    def finish(self) -> None:
        """Start no further upload; wait until all that were started are acknowledged."""
        self._stop.set()
        for thread in self._threads:
            thread.join(100)
        assert self.failure is None, self.failure
        assert not any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Wait until every upload is acknowledged."""
        for thread in self._threads:
            thread.join(100)
        self.finish()


def resend(census: Census, server: Any, numbers: Iterable[int]) -> Counter[str]:
    """Send batches again, as they were; return their verdicts."""
    verdicts: Counter[str] = Counter()
    with requests.Session() as session:
        for number in numbers:
            answer = server.post(*census.bodies[number], session)
            census.note(number, answer)
            verdicts[answer.json()["verdict"]] += 1
    return verdicts

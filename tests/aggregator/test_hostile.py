"""A hundred thousand hostile requests: 2xx or 4xx each, and the store holds what was answered.

30,000 travel to the server as it runs, over connections that are kept; 70,000 go into the
application in this process, which is faster, and where the store's own count of writes is read
after each.
"""

import http.client
import io
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from aggregator.keyring.kinds import OpeningKey
from aggregator.keyring.rotation import rotate
from client_sdk.report import ACCEPTED, REFUSAL_REASONS, REPORTS_PATH
from tests.aggregator.hostile import Hostile, requests_of

MIB = 2**20


@dataclass
class Books:
    """What the answers say that the store holds."""

    statuses: Counter[int] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    spent: dict[str, int] = field(default_factory=dict)
    wrong: list[tuple[int, bytes]] = field(default_factory=list)

    def note(self, sent: Hostile, status: int, answer: bytes) -> None:
        self.statuses[status] += 1
        if status // 100 not in (2, 4) or not isinstance(json.loads(answer), dict):
            self.wrong.append((status, sent.body))
        if sent.path != REPORTS_PATH or status not in (HTTPStatus.OK, HTTPStatus.CONFLICT):
            return
        told = json.loads(answer)
        if told["verdict"] == "accepted":
            self.counters["batches"] += 1
            self.counters.update(told["reports"])
            self.charge(json.loads(sent.plain)["device"], told["spent"])
        else:
            self.counters[{"duplicate": "duplicates"}.get(told["verdict"], "clones")] += 1

    def charge(self, device: str, spent: int) -> None:
        self.spent[device] = max(spent, self.spent.get(device, 0))  # answers cross on the way

    def compare(self, world: Any) -> None:
        """Assert that the store holds this, and nothing else."""
        found = world.store.figures.counters()
        for name in ("batches", "duplicates", "clones", ACCEPTED, *REFUSAL_REASONS):
            assert (name, found[name]) == (name, self.counters[name])
        assert {device: world.store.accounts.spent(device) for device in self.spent} == self.spent
        assert len(list(world.store.accounts.every_spent())) == len(self.spent)
        while world.folder.fold_once():
            pass
        assert world.store.figures.counters()["folded"] == self.counters[ACCEPTED]


def ask(app: Any, sent: Hostile) -> tuple[int, bytes]:
    """Call an application without a client around it."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": sent.path,
        "SERVER_NAME": "test",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(sent.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(sent.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in sent.headers.items():
        named = name.upper().replace("-", "_")
        environ[named if named == "CONTENT_TYPE" else f"HTTP_{named}"] = value
    statuses: list[str] = []
    body = b"".join(app(environ, lambda status, headers: statuses.append(status)))
    return int(statuses[0].split()[0]), body


@pytest.fixture
def sealing(world: Any) -> Any:
    """A world that opens sealed uploads too."""
    world.keys = rotate(world.settings.keys_file, OpeningKey, date(2026, 11, 30)).keys
    world.__post_init__()
    return world


def test_a_refused_body_changes_nothing_at_all(sealing: Any) -> None:
    books = Books()
    in_process(sealing, 3000, 1, books)
    assert books.wrong == []
    books.compare(sealing)
    assert set(books.statuses) >= {200, 400, 401, 409}  # it was not all one answer
    assert books.counters["duplicates"] and books.counters["already_reported"]


def in_process(world: Any, count: int, seed: int, books: Books) -> None:
    """Call the application; nothing is written for what it refuses."""
    with redis.Redis.from_url(world.redis_url) as admin:

        def writes() -> int:
            return int(admin.info("persistence")["rdb_changes_since_last_save"])

        before = writes()
        for sent in requests_of(world, count, seed):
            status, answer = ask(world.app, sent)
            books.note(sent, status, answer)
            after = writes()
            if after != before and status >= 400 and status != HTTPStatus.CONFLICT:
                books.wrong.append((status, sent.body))
            before = after


def over_http(url: str, requests: Iterable[Hostile], books: Books) -> None:
    """Send requests over one connection that is kept."""
    where = urlsplit(url)
    with closing(http.client.HTTPConnection(str(where.hostname), where.port, 60)) as connection:
        for sent in requests:
            connection.request("POST", sent.path, sent.body, sent.headers)
            answer = connection.getresponse()
            books.note(sent, answer.status, answer.read())
            if answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                connection.close()  # the server does, rather than read such a body


def resident(processes: Iterable[psutil.Process]) -> int:
    return sum(process.memory_info().rss for process in processes)


def all_of(pid: int) -> list[psutil.Process]:
    server = psutil.Process(pid)
    return [server, *server.children(recursive=True)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_thousand_hostile_requests_do_no_harm(
    sealing: Any, serve: Callable[[Any], Any]
) -> None:
    server = serve(sealing)
    threads, each, here, warm = 8, 3750, 70_000, 500
    kept = [Books() for _ in range(threads)]
    seen_first = threading.Barrier(threads + 1, timeout=300)

    def send(books: Books, requests: Iterator[Hostile]) -> None:
        over_http(server.url, (next(requests) for _ in range(warm)), books)
        seen_first.wait()
        seen_first.wait()
        over_http(server.url, requests, books)

    running = [
        threading.Thread(target=send, args=(books, requests_of(sealing, each, seed)))
        for seed, books in enumerate(kept)
    ]
    for thread in running:
        thread.start()
    seen_first.wait()
    processes = all_of(server.process.pid)
    before = resident(processes)
    seen_first.wait()
    for thread in running:
        thread.join()
    assert resident(processes) - before < 50 * MIB
    assert all_of(server.process.pid) == processes  # none died

    books = Books()
    processes = [psutil.Process()]
    in_process(sealing, warm, threads, books)
    before = resident(processes)
    in_process(sealing, here - warm, threads + 1, books)
    assert resident(processes) - before < 50 * MIB

    for other in kept:
        books.statuses += other.statuses
        books.counters += other.counters
        for device, spent in other.spent.items():
            books.charge(device, spent)
        books.wrong += other.wrong
    assert books.wrong == []
    assert books.statuses.total() == 100_000
    books.compare(sealing)

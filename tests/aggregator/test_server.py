"""The server as it runs: gunicorn with several processes and threads."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from client_sdk.authentication import MAC_HEADER
from client_sdk.report import DEVICES_PATH, REPORTS_PATH


@pytest.fixture
def server(world: Any, serve: Callable[[Any], Any]) -> Any:
    return serve(world)


def raw(server: Any, head: str, chunks: Iterator[bytes] | None = None) -> tuple[bytes, bool]:
    """Send bytes as they are; return the answer and whether the connection was closed."""
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        try:
            for chunk in chunks or ():
                connection.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        except TimeoutError:
            return answer, False
        return answer, True


def test_a_device_can_enrol_and_report_over_http(world: Any, server: Any) -> None:
    authorization = {"Authorization": f"Bearer {world.keys.write_key}"}
    told = requests.post(server.url + DEVICES_PATH, headers=authorization, timeout=10)
    assert told.status_code == 201
    device = world.device()
    device.id, device.key = told.json()["device"], bytes.fromhex(told.json()["key"])
    body = device.batch(world.report("theme", 1))
    assert server.post(device, body).json()["verdict"] == "accepted"
    assert server.post(device, body).json()["verdict"] == "duplicate"
    for path in ("/livez", "/readyz", "/version"):
        assert requests.get(server.url + path, timeout=10).status_code == 200


def resident(server: Any) -> int:
    process = psutil.Process(server.process.pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def settled(server: Any) -> int:
    """Resident memory once every worker has loaded its modules."""
    now, before = resident(server), 0
    while now != before:
        time.sleep(0.3)
        now, before = resident(server), now
    return now


def test_a_chunked_body_is_refused_unread(world: Any, server: Any) -> None:
    # C37: 50 MiB without a length, and 50 MiB with one; memory stays, the connection is closed.
    device = world.device()
    body = device.batch(world.report("theme"))
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\nHost: test\nContent-Type: application/json\n"
        f"{MAC_HEADER}: {device.headers(body)[MAC_HEADER]}\n"
    )
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    answer, _ = raw(
        server, head + "Transfer-Encoding: chunked\nConnection: close\n\n", iter([whole])
    )
    assert answer.startswith(b"HTTP/1.1 411 ") and b"Content-Length" in answer
    before = settled(server)
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    endless = (piece for _ in range(800))
    answer, closed = raw(server, head + "Transfer-Encoding: chunked\n\n", endless)
    assert closed and (not answer or answer.startswith(b"HTTP/1.1 411 "))
    blank = (b" " * 0x10000 for _ in range(800))
    answer, closed = raw(server, head + f"Content-Length: {800 * 0x10000}\n\n", blank)
    assert closed and (not answer or answer.startswith(b"HTTP/1.1 413 "))
    assert resident(server) - before < 8 * 2**20
    assert world.contents() == {}


def test_a_body_that_never_ends_is_not_taken(world: Any, server: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme"))
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
        head = (
            f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            f"{MAC_HEADER}: {device.headers(body)[MAC_HEADER]}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body[:-1])
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert not answer or answer.split()[1][:1] == b"4"
    assert world.contents() == {}


def test_threads_and_processes_lose_no_report(world: Any, server: Any) -> None:
    # C44: 10 threads x 100 uploads x 10 reports against 2 server processes.
    names = [f"theme:{past}" for past in range(10)]
    week = world.epoch("theme")
    failures = []

    def upload() -> None:
        with requests.Session() as session:
            for number in range(100):
                device = world.device()
                reports = [
                    world.report("theme", number % 4, epoch=week - past)
                    for past in range(len(names))
                ]
                answer = server.post(device, device.batch(*reports), session)
                if answer.status_code != 200 or set(answer.json()["reports"]) != {"accepted"}:
                    failures.append(answer.text)

    threads = [threading.Thread(target=upload) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert world.folder.fold_once() == 10_000
    tallies = [world.store.tallies.of(world.metric("theme"), week - past) for past in range(10)]
    assert sum(tally.n for tally in tallies) == 10_000
    assert sum(int(tally.counts.sum()) for tally in tallies) == 10_000
    assert len(list(world.store.accounts.every_spent())) == 1000


def test_eight_connections_with_the_same_upload_count_once(world: Any, server: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme", 1))
    gate = threading.Barrier(8)
    verdicts = []

    def send() -> None:
        gate.wait()
        verdicts.append(server.post(device, body).json()["verdict"])

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdicts) == ["accepted"] + ["duplicate"] * 7


def test_errors_are_problem_documents_over_http_too(world: Any, server: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme"))[:-1]
    answer = server.post(device, body)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert json.loads(answer.text)["field"] == "body"


def test_answers_are_not_to_be_kept_and_tell_no_versions(world: Any, server: Any) -> None:
    shown = {"Authorization": f"Bearer {world.keys.write_key}"}
    answers = [
        requests.post(server.url + DEVICES_PATH, headers=shown, timeout=10),
        requests.post(server.url + DEVICES_PATH, timeout=10),
        server.post(world.device(), b"{}"),
        requests.get(server.url + "/livez", timeout=10),
        requests.get(server.url + "/nowhere", timeout=10),
    ]
    assert [answer.status_code for answer in answers] == [201, 401, 400, 200, 404]
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert not any(digit in answer.headers.get("Server", "") for digit in "0123456789")
        assert "Set-Cookie" not in answer.headers and "X-RateLimit-Limit" not in answer.headers


def test_no_header_of_a_peer_changes_path_or_address(world: Any, server: Any) -> None:
    """The client is on this machine, which gunicorn would trust by default."""
    for name, value in (
        ("SCRIPT_NAME", "/livez"),
        ("PATH_INFO", "/livez"),
        ("Script-Name", "/livez"),
        ("Path-Info", "/livez"),
        ("X-Forwarded-Prefix", "/nowhere"),
        ("X-Original-URL", "/livez"),
        ("X-HTTP-Method-Override", "GET"),
    ):
        head = f"GET /nowhere HTTP/1.1\nHost: a\n{name}: {value}\nConnection: close\n\n"
        answer, _ = raw(server, head)
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), (name, answer[:80])
    line = "PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\nGET /livez HTTP/1.1\nHost: a\n\n"
    answer, _ = raw(server, line)
    assert answer.startswith(b"HTTP/1.1 400")

"""HTTP for real: a small server on this machine that misbehaves in the ways servers do."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client_sdk import Client, TransportError
from client_sdk.locks import ProcessLock
from client_sdk.transport import MOST_ANSWER_BYTES, HttpTransport, Reply

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: list[Answer]
    requests: list[tuple[str, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), body))
        answers = self.server.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *arguments: object) -> None:
        pass


def reply(
    status: int = 200, body: bytes = b"{}", length: int | None = None, **headers: str
) -> Answer:
    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)
        if length is not None:
            handler.close_connection = True

    return act


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def stall(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "5")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.wfile.flush()
    time.sleep(1)


@pytest.fixture
def http() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.answers, server.requests = [reply()], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def transport(http: Server) -> Iterator[HttpTransport]:
    made = HttpTransport(
        f"http://127.0.0.1:{http.server_port}/", "write-key", timeout_seconds=0.3, retries=0
    )
    yield made
    made.close()


def test_a_batch_is_posted_with_its_mac_and_no_word_about_the_host(
    http: Server, transport: HttpTransport
) -> None:
    http.answers = [reply(body=b'{"a":1}')]
    assert transport.send(b'{"version":1}', "ab" * 32) == Reply(200, b'{"a":1}')
    ((path, headers, body),) = http.requests
    assert (path, body) == ("/v1/reports", b'{"version":1}')
    assert headers.pop("Host").startswith("127.0.0.1:")
    assert headers == {
        "User-Agent": "sottovoce",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Content-Length": "13",
        "Sottovoce-MAC": "ab" * 32,
    }


def test_enrolment_shows_the_write_key_and_a_users_netrc_does_not_replace_it(
    http: Server, transport: HttpTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    transport.enrol()
    transport.send(b"{}", "")
    (path, headers, body), (_, later, _) = http.requests
    assert (path, body) == ("/v1/devices", b"{}")
    assert headers["Authorization"] == "Bearer write-key"
    assert "Authorization" not in later


def test_cookies_are_not_kept(http: Server, transport: HttpTransport) -> None:
    http.answers = [reply(Set_Cookie="id=7; Path=/")]
    transport.send(b"{}", "")
    transport.send(b"{}", "")
    assert "Cookie" not in http.requests[1][1]


@pytest.mark.parametrize("status", [400, 403, 409, 429, 500, 503])
def test_an_error_status_is_a_reply_and_is_not_retried(
    status: int, http: Server, transport: HttpTransport
) -> None:
    http.answers = [reply(status, b"{}", Retry_After="7")]
    began = time.perf_counter()
    with_retries = HttpTransport(f"http://127.0.0.1:{http.server_port}", "", retries=2)
    assert with_retries.send(b"{}", "") == Reply(status, b"{}", 7.0)
    with_retries.close()
    assert len(http.requests) == 1
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("1e9", 86_400.0),
        ("inf", 86_400.0),
        ("nan", 3600.0),
        ("soon", 3600.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 3600.0),
    ],
)
def test_a_requested_pause_is_clamped(
    header: str, pause: float, http: Server, transport: HttpTransport
) -> None:
    http.answers = [reply(503, Retry_After=header)]
    assert transport.send(b"{}", "").retry_after == pause


def test_redirects_are_not_followed(http: Server, transport: HttpTransport) -> None:
    http.answers = [reply(307, b"", Location="/elsewhere")]
    assert transport.send(b"{}", "").status == 307
    assert len(http.requests) == 1


def test_a_dropped_connection_is_retried_with_the_same_bytes(http: Server) -> None:
    http.answers = [hang_up, hang_up, reply()]
    transport = HttpTransport(f"http://127.0.0.1:{http.server_port}", "", retries=2)
    assert transport.send(b'{"sequence":1}', "ab").status == 200
    transport.close()
    assert [(path, body) for path, _, body in http.requests] == [
        ("/v1/reports", b'{"sequence":1}')
    ] * 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hang_up, id="hangs up"),
        pytest.param(stall, id="stalls in the body"),
        pytest.param(reply(body=b"{", length=50), id="ends in the body"),
        pytest.param(reply(body=b"junk", Content_Encoding="gzip"), id="broken gzip"),
        pytest.param(reply(body=b" " * (MOST_ANSWER_BYTES + 1)), id="too long"),
        pytest.param(lambda h: h.wfile.write(b"HTTP/9 what\r\n\r\n"), id="not HTTP"),
    ],
)
def test_an_answer_that_does_not_arrive_whole_is_a_transport_error(
    answer: Answer, http: Server, transport: HttpTransport
) -> None:
    http.answers = [answer]
    with pytest.raises(TransportError, match=r"no answer from|too long|cannot be read"):
        transport.send(b"{}", "")


@pytest.mark.parametrize(
    ("endpoint", "key"),
    [
        ("nonsense", ""),
        ("http://", ""),
        ("http://[", ""),
        ("ftp://127.0.0.1", ""),
        ("http://127.0.0.1:1", ""),
        ("http://127.0.0.1:99999", ""),
        ("http://" + "a" * 70 + ".invalid", ""),
        ("http://127.0.0.1:1", "schlüssel\n"),
        ("http://127.0.0.1:1", "ключ"),
    ],
)
def test_an_address_or_key_that_cannot_work_is_a_transport_error(endpoint: str, key: str) -> None:
    transport = HttpTransport(endpoint, key, timeout_seconds=0.3, retries=0)
    with pytest.raises(TransportError):
        transport.enrol()
    transport.close()


def test_a_client_closes_its_connections(http: Server, client_of: Callable[..., Client]) -> None:
    http.answers = [reply(403)]
    client = client_of(transport=None, endpoint=f"http://127.0.0.1:{http.server_port}")
    client.record("theme", "dark")
    assert not client.flush()
    assert len(http.requests) == 1
    client.close(5)  # an open socket would fail this test as a ResourceWarning


def test_a_lock_is_free_after_its_holder_released_it_even_if_a_fork_copied_it(
    tmp_path: Path,
) -> None:
    lock, other = ProcessLock(tmp_path / "lock"), ProcessLock(tmp_path / "lock")
    assert lock.acquire() and lock.acquire()
    assert not other.acquire()
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    lock.release()
    assert other.acquire()
    other.release()
    os.kill(child, 9)
    os.waitpid(child, 0)

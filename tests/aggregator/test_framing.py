"""Bytes on a real socket: whatever is not exactly one request with a length is refused.

The cases are those that others were bitten by: request smuggling in gunicorn (CVE-2024-1135,
CVE-2024-6827), bodies without a length in Werkzeug (issues 690, 1513) and compression bombs.
"""

import json
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from client_sdk.authentication import MAC_HEADER
from client_sdk.report import DEVICES_PATH, MAX_BATCH_BYTES, REPORTS_PATH


@pytest.fixture
def server(world: Any, serve: Callable[[Any], Any]) -> Any:
    return serve(world)


def answers(server: Any, data: bytes) -> list[tuple[int, bytes]]:
    """Send bytes as they are; return status and body of each answer until the server hangs up."""
    where = urlsplit(server.url)
    found: list[tuple[int, bytes]] = []
    with (
        socket.create_connection((where.hostname, where.port), timeout=20) as connection,
        connection.makefile("rb") as stream,
    ):
        try:
            connection.sendall(data)
            while line := stream.readline():
                status = int(line.split()[1])
                length = 0
                while (header := stream.readline().strip()) != b"":
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                if status != 100:
                    found.append((status, stream.read(length)))
        except ConnectionResetError:  # it had not read all when it hung up
            pass
    return found


def status(server: Any, data: bytes) -> int:
    """The only answer's status."""
    (only,) = answers(server, data)
    return only[0]


def upload(world: Any, device: Any) -> tuple[bytes, bytes]:
    """A good upload: its request up to the framing, and its body."""
    body = device.batch(world.report("theme", 1))
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        f"{MAC_HEADER}: {device.headers(body)[MAC_HEADER]}\r\nConnection: close\r\n"
    )
    return head.encode(), body


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


# {n} is the length of the body. Only an unknown coding is not the client's fault: RFC 9112, 6.1.
CHUNKED = {
    "Transfer-Encoding: chunked": 411,
    "Transfer-Encoding: Chunked": 411,
    "Transfer-Encoding: identity, chunked": 411,
    "Transfer-Encoding: gzip, chunked": 411,
    "Content-Length: {n}\r\nTransfer-Encoding: chunked": 400,
    "Transfer-Encoding: chunked\r\nContent-Length: {n}": 400,
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked": 400,
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity": 400,
    "Transfer-Encoding: chunked, identity": 400,
    "Transfer-Encoding: chunked, chunked": 400,
    "Transfer-Encoding: chunked, identity\r\nContent-Length: {n}": 400,
    "Transfer-Encoding: \x0bchunked": 400,
    "Transfer-Encoding : chunked\r\nContent-Length: {n}": 400,
    "Transfer-Encoding: xchunked": 501,
}
LENGTHS = {
    "": 411,
    "Transfer-Encoding: identity": 400,
    "Transfer-Encoding: identity\r\nContent-Length: {n}": 400,
    "Transfer-Encoding: gzip": 400,
    "Transfer-Encoding:\r\nContent-Length: {n}": 501,
    "Content_Length: {n}": 411,
    "Content-Length: +{n}": 400,
    "Content-Length: -1": 400,
    "Content-Length: 0x10": 400,
    "Content-Length: {n}.0": 400,
    "Content-Length: abc": 400,
    "Content-Length: {n}, {n}": 400,
    "Content-Length: {n}\r\nContent-Length: {n}": 400,
    "Content-Length: {n}\r\nContent-Length: 1": 400,
    "Content-Length: {n}\nX: y": 400,
    "Content-Length: {n}\r\nX: a\r\n b": 400,
    "Content-Length: {n}\r\nX: a\0b": 400,
    "Content-Length: {n}\r\nHost: other": 400,
    "Content-Length: {n}\r\nContent-Type: text/plain": 400,
    "Content-Length: {n}\r\nExpect: 42": 417,
    "Content-Length: " + "9" * 18: 413,
    "Content-Length: " + "9" * 30: 400,
    "Content-Length: " + "9" * 5000: 400,
    "Content-Length: {n}\r\nX: " + "a" * 9000: 431,
    "Content-Length: {n}" + "\r\nX: y" * 200: 431,
    "Content-Length: {n}\r\nContent-Encoding: gzip": 415,
    "Content-Length: {n}\r\nContent-Encoding: br": 415,
    "Content-Length: {n}\r\nContent-Encoding: gzip, identity": 415,
    "Content-Length: {n}\r\nContent-Encoding: identity\r\nContent-Encoding: zstd": 415,
    f"Content-Length: {{n}}\r\n{MAC_HEADER}: {'0' * 64}": 401,
}
HARMLESS = (
    "Content-Length: {n}\r\nContent-Encoding: Identity",
    "Content-Length: {n}\r\nExpect: 100-continue",
    "Content-Length: {n}\r\nX: \xff\xfe",
    "Content-Length: {n}\r\nTransfer_Encoding: chunked",
    "Content-Length: {n}\r\nX-HTTP-Method-Override: DELETE",
    "Content-Length: {n}\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
    "Content-Length: {n}\r\nSCRIPT_NAME: /v1\r\nPATH_INFO: /livez",
)


def test_a_good_upload_in_bad_framing_leaves_no_trace(world: Any, server: Any) -> None:
    device = world.device()
    head, body = upload(world, device)
    found = {}
    for framings, sent in ((CHUNKED, chunked(body)), (LENGTHS, body)):
        for framing in framings:
            line = framing.format(n=len(body)).encode("latin-1")
            whole = head + line + (b"\r\n" if line else b"") + b"\r\n" + sent
            found[framing] = status(server, whole)
    assert found == CHUNKED | LENGTHS
    assert world.contents() == {}


def test_headers_that_say_nothing_to_us_change_nothing(world: Any, server: Any) -> None:
    for framing in HARMLESS:
        head, body = upload(world, world.device())
        line = framing.format(n=len(body)).encode("latin-1")
        ((code, told),) = answers(server, head + line + b"\r\n\r\n" + body)
        assert (framing, code) == (framing, 200)
        assert json.loads(told)["verdict"] == "accepted"


def test_a_good_upload_cut_off_anywhere_leaves_no_trace(world: Any, server: Any) -> None:
    # Under a shorter length that is true, and under the right one before the sender hangs up.
    device = world.device()
    head, body = upload(world, device)
    where = urlsplit(server.url)
    for kept in (0, 1, 40, len(body) // 2, len(body) - 1):
        line = b"Content-Length: %d\r\n\r\n" % kept
        # What is left over is no request; whether it is answered depends on the connection.
        code, _ = answers(server, head + line + body)[0]
        assert code == 400
        whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:kept]
        with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
            connection.sendall(whole)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        assert not answer or answer.startswith(b"HTTP/1.1 400 ")
    assert world.contents() == {}


def test_hostile_json_is_a_400_on_the_wire_too(world: Any, server: Any) -> None:
    device = world.device()
    _, good = upload(world, device)
    bodies = {
        "open arrays": b"[" * 60_000,
        "open objects": b'{"a":' * 12_000,
        "an integer of 5000 digits": good.replace(b'"cohort":0', b'"cohort":' + b"9" * 5000),
        "NaN": good.replace(b'"cohort":0', b'"cohort":NaN'),
        "infinity": good.replace(b'"cohort":0', b'"cohort":1e999'),
        "a key twice": good.replace(b'"cohort":0', b'"cohort":0,"cohort":0'),
        "no UTF-8": good.replace(b'"theme"', b'"them\xff"'),
        "UTF-16": good.decode().encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "a zero byte": good + b"\0",
        "two batches": good + good,
        "blanks to the limit": b" " * MAX_BATCH_BYTES,
    }
    with_mac = {name: server.post(device, body) for name, body in bodies.items()}
    assert {name: answer.status_code for name, answer in with_mac.items()} == dict.fromkeys(
        bodies, 400
    )
    assert all(answer.json()["type"].endswith(":malformed") for answer in with_mac.values())
    too_long = server.post(device, b" " * (MAX_BATCH_BYTES + 1))
    assert too_long.status_code == 413
    assert world.contents() == {}


def test_a_hundred_thousand_brackets_are_refused_by_their_length(world: Any, server: Any) -> None:
    assert server.post(world.device(), b"[" * 100_000).status_code == 413


LINES = {
    b"GET /" + b"a" * 10_000 + b" HTTP/1.1": 414,
    b"GET /" + b"a" * 4000 + b" HTTP/1.1": 404,
    b"GET /livez?" + b"%ff&[=" * 600 + b" HTTP/1.1": 200,
    b"A" * 5000 + b" / HTTP/1.1": 414,
    b"A" * 21 + b" / HTTP/1.1": 400,
    b"A" * 20 + b" /livez HTTP/1.1": 405,
    b"post /v1/reports HTTP/1.1": 400,
    b"P\xc3\x96ST /v1/reports HTTP/1.1": 400,
    b"TRACE /v1/reports HTTP/1.1": 405,
    b"CONNECT test:1 HTTP/1.1": 404,
    b"PRI * HTTP/2.0": 400,
    b"GET /livez HTTP/9.9": 400,
    b"GET /livez": 400,
    b"GET  /livez HTTP/1.1": 400,
    b"GET /\xff\xfe HTTP/1.1": 400,
    b"GET /\0 HTTP/1.1": 400,
    b"GET /%00 HTTP/1.1": 404,
    b"GET http://[/livez HTTP/1.1": 400,
    b"POST /v1//reports HTTP/1.1": 404,
    b"POST //v1/reports HTTP/1.1": 411,  # by WSGI a path begins with one slash
    b"GET /v1/../livez HTTP/1.1": 404,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": 400,
}


def test_request_lines_are_taken_literally_or_refused(world: Any, server: Any) -> None:
    rest = b"\r\nHost: test\r\nConnection: close\r\n\r\n"
    assert {line: status(server, line + rest) for line in LINES} == LINES


def test_a_body_that_is_refused_unread_is_no_request(world: Any, server: Any) -> None:
    hidden = b"GET /version HTTP/1.1\r\nHost: test\r\n\r\n"
    for path, kind in ((REPORTS_PATH, b"text/plain"), (DEVICES_PATH, b"text/plain")):
        first = (
            f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(hidden)}\r\n".encode()
            + b"Content-Type: "
            + kind
            + b"\r\n\r\n"
        )
        last = b"GET /livez HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        found = answers(server, first + hidden + last)
        assert [code for code, _ in found] in ([415, 200], [415])
        assert all(b"version" not in body for _, body in found)


def test_a_log_names_nobody_who_sends_bad_http(
    capfd: pytest.CaptureFixture[str], world: Any, serve: Callable[[Any], Any]
) -> None:
    # gunicorn's own warnings name the sender's address, and quote line or header.
    server = serve(world)
    for line in (b"GET /planted HTTP/9.9", b"PLANTED", b"GET /livez HTTP/1.1\r\nExpect: planted"):
        assert status(server, line + b"\r\nHost: test\r\n\r\n") >= 400
    rest = b"Host: test\r\nSCRIPT_NAME: /planted\r\nConnection: close\r\n\r\n"
    assert status(server, b"GET /livez HTTP/1.1\r\n" + rest) == 200
    server.process.terminate()
    server.process.wait(15)
    logged = "".join(capfd.readouterr())
    assert "127.0.0.1" not in logged and "planted" not in logged.lower()

"""The other end, on 127.0.0.1: a server that keeps what it gets, one that never answers, none."""

import gzip
import json
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from client_sdk.authentication import answer_mac
from client_sdk.report import DEVICES_PATH, REPORTS_PATH


class Sink:
    """Keeps what it is sent; to our SDK it answers as an aggregator, to others with a plain yes.

    Attributes:
        url: Where it listens.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: list[bytes] = []
        self._batches: set[tuple[str, int]] = set()
        self._key = os.urandom(32)
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                status, body = sink.take(self.path, _body_of(self))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *arguments: object) -> None: ...

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *arguments: object) -> None: ...

        self._httpd = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._httpd.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._httpd.server_port}"

    def close(self) -> None:
        self._httpd.shutdown()
        self._httpd.server_close()

    def take(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Keep a body and return the answer to it."""
        with self._lock:
            if path == DEVICES_PATH:
                identity = {"device": os.urandom(16).hex(), "key": self._key.hex()}
                return 201, json.dumps(identity).encode()
            if path == REPORTS_PATH:
                return 200, self._take_batch(body)
            self._bodies.append(body)
            return 200, b'{"status":1,"flags":{}}'

    def _take_batch(self, body: bytes) -> bytes:
        """Count a batch once: it says itself when it comes a second time."""
        batch: dict[str, Any] = json.loads(body)
        sequence, nonce = batch["sequence"], batch["nonce"]
        if (nonce, sequence) not in self._batches:
            self._batches.add((nonce, sequence))
            self._bodies.append(json.dumps(batch["reports"], separators=(",", ":")).encode())
        verdicts = ["accepted"] * len(batch["reports"])
        mac = answer_mac(self._key, nonce, sequence, "accepted", 0, verdicts)
        answer = {"sequence": sequence, "verdict": "accepted", "spent": 0}
        return json.dumps({**answer, "reports": verdicts, "mac": mac}).encode()

    def copies(self, needle: bytes, wait_seconds: float, settle_seconds: float = 1.0) -> int:
        """Return how often something arrived: waits for the first copy, then for a second."""
        deadline = time.monotonic() + wait_seconds
        while not self._count(needle) and time.monotonic() < deadline:
            time.sleep(0.05)
        if self._count(needle):
            time.sleep(settle_seconds)
        return self._count(needle)

    def _count(self, needle: bytes) -> int:
        with self._lock:
            return sum(body.count(needle) for body in self._bodies)


def _body_of(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding") == "chunked":
        body = b""
        while size := int(request.rfile.readline().strip() or b"0", 16):
            body += request.rfile.read(size)
            request.rfile.readline()
    else:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
    encoding = request.headers.get("Content-Encoding", "")
    with suppress(OSError, zlib.error):
        return gzip.decompress(body) if encoding == "gzip" else body
    return body


@contextmanager
def sink() -> Iterator[Sink]:
    """A server that answers."""
    made = Sink()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def hung() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    accepted = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    accepted.append(listener.accept())

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    for connection, _ in accepted:
        connection.close()


def nobody() -> str:
    """The URL of a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"

"""Applications served on this machine, and a gate before them that hears all and can be unkind."""

import json
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Request

Mishap = Callable[[WSGIApplication, WSGIEnvironment, StartResponse], Iterable[bytes]]
"""What happens to one request instead of what should."""


@contextmanager
def served(app: WSGIApplication) -> Iterator[str]:
    """Serve an application; gives its URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="site")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Heard:
    """One request as the server got it.

    Attributes:
        method: GET, POST.
        path: With what stands behind a `?`.
        headers: In order.
        body: Its bytes.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def whole(self) -> bytes:
        """All of it."""
        head = "\n".join(f"{name}: {value}" for name, value in self.headers)
        return f"{self.method} {self.path}\n{head}\n\n".encode() + self.body


class Gate:
    """Notes every request before the application gets it.

    Args:
        app: The application.

    Attributes:
        heard: In order.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._mishaps: dict[str, deque[Mishap]] = defaultdict(deque)
        self.heard: list[Heard] = []

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        body = request.get_data()
        environ["wsgi.input"] = BytesIO(body)  # to be read again
        headers = tuple((name, value) for name, value in request.headers)
        self.heard.append(Heard(request.method, request.full_path.rstrip("?"), headers, body))
        waiting = self._mishaps[request.path]
        if waiting:
            return waiting.popleft()(self._app, environ, start)
        return self._app(environ, start)

    def next(self, path: str, *mishaps: Mishap) -> None:
        """Let these happen to the next requests of a path."""
        self._mishaps[path] = deque(mishaps)

    def posted(self, name: str) -> list[bytes]:
        """Bodies that were posted to addresses that end so, in order."""
        return [each.body for each in self.heard if each.path.endswith(name) and each.body]


def busy(status: str, pause: int | None = None) -> Mishap:
    """The server has no time: it does nothing, and perhaps says when to come again."""

    def answer(app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        headers = [("Content-Type", "text/plain"), ("Content-Length", "0")]
        start(status, headers + ([("Retry-After", str(pause))] if pause is not None else []))
        return []

    return answer


def refused(status: str, problem: str) -> Mishap:
    """The server says no, in its own form."""

    def answer(app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        start(status, [("Content-Type", "application/problem+json")])
        return [json.dumps({"type": f"urn:sottovoce:problem:{problem}"}).encode()]

    return answer


def cut_before(app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
    """The connection breaks before the server has acted."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    start("200 OK", [])
    return []


def cut_after(app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
    """The server acts, and its answer is lost on the way."""
    run_wsgi_app(app, environ, buffered=True)
    return cut_before(app, environ, start)


def forged(change: Callable[[dict[str, Any]], None]) -> Mishap:
    """The server acts, and somebody on the way changes what it says."""

    def answer(app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        said, status, headers = run_wsgi_app(app, environ, buffered=True)
        told = json.loads(b"".join(said))
        change(told)
        headers.remove("Content-Length")
        start(status, list(headers))
        return [json.dumps(told).encode()]

    return answer


class Held:
    """A mishap: the server acts, and keeps its answer until it is let go."""

    def __init__(self) -> None:
        self.acted = threading.Event()
        self.free = threading.Event()

    def __call__(
        self, app: WSGIApplication, environ: WSGIEnvironment, start: StartResponse
    ) -> list[bytes]:
        said, status, headers = run_wsgi_app(app, environ, buffered=True)
        self.acted.set()
        assert self.free.wait(60), "nobody has let go what was held"
        start(status, list(headers))
        return list(said)

"""What the SDK's suites share: a registry to vary, and a server played by a script."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Registry, loads
from client_sdk.authentication import answer_mac, erase_mac, erased_mac
from client_sdk.consent import MACHINES, WISH
from client_sdk.errors import TransportError
from client_sdk.transport import Reply

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01T00:00:00Z, a Tuesday

HEAD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = {lifetime}
contact = "telemetry@example.org"
"""
THEME = """
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2026-12-08
"""
HOME_PAGE = """
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "day"
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2027-12-01
"""


def build_registry(*tables: str, lifetime: object = 100, **changes: str) -> Registry:
    """The registry of some tables, with `key = value` lines replaced in all of them."""
    text = HEAD.format(lifetime=lifetime) + "".join(tables or (THEME,))
    lines = []
    for line in text.splitlines():
        key = line.partition(" = ")[0]
        lines.append(f"{key} = {changes[key]}" if key in changes else line)
    return loads("\n".join(lines))


class Clock:
    """A clock that stands still until it is moved. Unix time in seconds."""

    def __init__(self, now: float = START + DAY / 2) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class ScriptedTransport:
    """Plays a server whose next answers a test decides.

    Attributes:
        bodies: Each batch as it was sent.
        macs: Its MAC.
        answer: Makes the reply to a batch; raises TransportError to play a dead network.
        erasures: Each request to erase a device.
        erasure: Makes the reply to it.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.macs: list[str] = []
        self.enrolments = 0
        self.key = os.urandom(32)
        self.device = os.urandom(16).hex()
        self.enrolment: Callable[[], Reply] = self.identity
        self.answer: Callable[[bytes], Reply] = self.accepted
        self.erasures: list[bytes] = []
        self.erasure: Callable[[bytes], Reply] = self.erased

    def enrol(self) -> Reply:
        self.enrolments += 1
        return self.enrolment()

    def send(self, body: bytes, mac: str) -> Reply:
        self.bodies.append(body)
        self.macs.append(mac)
        return self.answer(body)

    def erase(self, body: bytes, mac: str) -> Reply:
        self.erasures.append(body)
        assert mac == erase_mac(self.key, body)
        return self.erasure(body)

    def erased(self, body: bytes) -> Reply:
        mac = erased_mac(self.key, json.loads(body)["nonce"])
        return Reply(200, json.dumps({"verdict": "erased", "mac": mac}).encode())

    def identity(self) -> Reply:
        return Reply(201, json.dumps({"device": self.device, "key": self.key.hex()}).encode())

    def accepted(self, body: bytes) -> Reply:
        return self.signed(body)

    def signed(
        self,
        body: bytes,
        *,
        status: int = 200,
        verdict: str = "accepted",
        spent: int = 0,
        reports: list[str] | None = None,
        key: bytes | None = None,
        **forged: Any,
    ) -> Reply:
        """An answer with a valid MAC, then altered by `forged`."""
        batch = json.loads(body)
        if reports is None:
            reports = ["accepted"] * len(batch["reports"])
        sequence = batch["sequence"]
        mac = answer_mac(key or self.key, batch["nonce"], sequence, verdict, spent, reports)
        answer = {
            "sequence": sequence,
            "verdict": verdict,
            "spent": spent,
            "reports": reports,
            "mac": mac,
        }
        return Reply(status, json.dumps({**answer, **forged}).encode())

    @staticmethod
    def dead(body: bytes = b"") -> Reply:
        raise TransportError("no answer")

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [report for body in self.bodies for report in json.loads(body)["reports"]]


@pytest.fixture
def registry_of() -> Callable[..., Registry]:
    return build_registry


@pytest.fixture
def tables() -> dict[str, str]:
    return {"theme": THEME, "home_page": HOME_PAGE}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> ScriptedTransport:
    return ScriptedTransport()


@pytest.fixture
def client_of(
    tmp_path: Any, clock: Clock, server: ScriptedTransport
) -> Iterator[Callable[..., Client]]:
    """Makes clients on one state directory; they are closed after the test."""
    made = []

    def make(registry: Registry | None = None, **options: Any) -> Client:
        given = {
            "enabled": True,
            "respect_environment": False,  # tests run under pytest, and in CI
            "state_dir": tmp_path / "state",
            "transport": server,
            "clock": clock,
            "upload_within_seconds": 1e9,  # nothing leaves unless a test flushes
            **options,
        }
        client = Client(registry or build_registry(), **given)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close(5)


class Sink:
    """A real HTTP server that takes reports, or misbehaves.

    Attributes:
        mode: "up"; "hung": never answers; "deaf": stores and never answers; or a status.
        delay: Seconds that every answer takes.
        bodies: Each batch as it arrived.
        paths: Each request's path.
    """

    def __init__(self) -> None:
        self.mode: str | int = "up"
        self.delay = 0.0
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: dict[str, str] = {}
        self.key = bytes(range(32))
        self.released = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sink.take(self)

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *arguments: object) -> None:
                pass  # a client that was killed, as these tests do

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.paths.append(handler.path)
        time.sleep(self.delay)
        if handler.path.endswith("/v1/devices") and self.mode in ("up", "deaf"):
            answer = {"device": os.urandom(16).hex(), "key": self.key.hex()}
            return self.answer(handler, 201, json.dumps(answer).encode())
        if handler.path.endswith("/v1/erase") and self.mode == "up":
            mac = erased_mac(self.key, json.loads(body)["nonce"])
            return self.answer(handler, 200, json.dumps({"verdict": "erased", "mac": mac}).encode())
        if self.mode != "hung" and handler.path.endswith("/v1/reports"):
            self.bodies.append(body)
        if self.mode in ("hung", "deaf"):
            self.released.wait(60)
            return None
        if isinstance(self.mode, int):
            return self.answer(handler, self.mode, b"{}")
        batch = json.loads(body)
        verdicts = ["accepted"] * len(batch["reports"])
        mac = answer_mac(self.key, batch["nonce"], batch["sequence"], "accepted", 0, verdicts)
        told = {"sequence": batch["sequence"], "verdict": "accepted", "spent": 0}
        document = {**told, "reports": verdicts, "mac": mac}
        return self.answer(handler, 200, json.dumps(document).encode())

    def answer(self, handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        handler.send_response(status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Every report of every distinct batch: the same bytes again count once."""
        return [each for body in dict.fromkeys(self.bodies) for each in json.loads(body)["reports"]]

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


class Host:
    """Programs that embed the SDK, each run by a Python of its own on one device.

    A program finds `client_of(**options)`, which makes a client as an app would, `URL`, and the
    usual modules. It sees no variable that tells of a test or a build server.

    Attributes:
        seconds: How long the last run took.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.seconds = 0.0
        self.registry = build_registry(THEME, HOME_PAGE)
        (folder / "metrics.toml").write_text(self.registry.text)

    def environment(self, **changes: str) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if k not in (WISH, *MACHINES)}
        root = str(Path(__file__).parents[2])
        return {**own, "PYTHONPATH": root, "XDG_STATE_HOME": str(self.folder / "home"), **changes}

    def start(self, program: str, python: str = sys.executable, **changes: str) -> Any:
        text = PROGRAM.format(folder=str(self.folder), url=self.url) + textwrap.dedent(program)
        return subprocess.Popen(
            [python, "-W", "error", "-c", text],
            cwd=self.folder,
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, seconds: float = 30.0, **changes: str) -> str:
        """Run a program that must end well and say nothing on standard error."""
        began = time.perf_counter()
        with self.start(program, **changes) as process:
            try:
                said, complaints = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        self.seconds = time.perf_counter() - began
        assert complaints == ""
        assert process.returncode == 0
        return str(said)


PROGRAM = """
import atexit, gc, json, os, signal, sys, threading, time
from client_sdk import Client
URL, FOLDER = {url!r}, {folder!r}
NOON = {noon!r}
def client_of(**options):
    given = dict(endpoint=URL, enabled=True, clock=lambda: NOON, upload_within_seconds=1e9)
    return Client(FOLDER + "/metrics.toml", **{{**given, **options}})
"""
PROGRAM = PROGRAM.replace("{noon!r}", repr(START + DAY / 2))


@pytest.fixture
def host(tmp_path: Path, sink: Sink) -> Host:
    return Host(tmp_path, sink.url)

"""The canary finds a value wherever it is let out, and the shipped client lets it out nowhere."""

import http.server
import logging
import os
import resource
import socket
import sqlite3
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from client_sdk import Client, loads
from client_sdk.errors import RegistryError
from client_sdk.testing import ClientFactory, FakeClock, ObservedClient, RecordingTransport
from client_sdk.testing.canary import Canary, CanaryFound, forms
from client_sdk.transport import HttpTransport

CANARY = "CANARY-7f3ä/9+x"

# Compiled under a name of its own: frames of this file hold the value, and may.
LEAKY = compile(
    """
import base64, gzip, hashlib, json, logging, os, socket, sqlite3, struct, sys, threading, warnings

def plain_file(value, place): (place / "state").write_text(value, encoding="utf-8")
def wide_file(value, place): (place / "state").write_bytes(b"\\x01" + value.encode("utf-16"))
def repr_file(value, place): (place / "state").write_text(repr([value]), encoding="utf-8")
def bytes_repr_file(value, place): (place / "state").write_text(repr(value.encode()))
def json_file(value, place): (place / "state").write_text(json.dumps({"v": value}))
def base64_file(value, place):
    (place / "state").write_bytes(base64.b64encode(b"ab" + value.encode() + b"c"))
def urlsafe_file(value, place):
    (place / "state").write_bytes(base64.urlsafe_b64encode(b"x" + value.encode() + b"c"))
def hex_file(value, place): (place / "state").write_text((b"ab" + value.encode()).hex().upper())
def hashed_file(value, place):
    (place / "state").write_bytes(hashlib.sha256(value.encode()).digest())
def packed_file(value, place): (place / "state").write_bytes(gzip.compress(value.encode()))
def file_name(value, place): (place / value.encode().hex()).touch()
def database(value, place):
    with sqlite3.connect(place / "state") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (v)")
        connection.execute("INSERT INTO t VALUES (?)", (value,))
    connection.close()

def debug_log(value, place): logging.getLogger("leaky").debug("got %s", value)
def silenced_log(value, place):
    logger = logging.getLogger("leaky.silenced")
    logger.propagate, logger.level = False, logging.CRITICAL
    logger.info("got", extra={"value": value})
def log_with_traceback(value, place):
    try:
        fail(value)
    except ValueError:
        logging.getLogger("leaky").debug("failed", exc_info=True)
def fail(value): raise ValueError("says nothing")

def warning(value, place): warnings.warn(f"odd: {value}", DeprecationWarning, stacklevel=1)
def standard_output(value, place): print("got", value)
def standard_error(value, place):
    for letter in value:
        sys.stderr.write(letter)
def descriptor(value, place): os.write(2, value.encode())
def child_process(value, place):
    if os.fork() == 0:
        os.write(1, value.encode())
        os._exit(0)
    os.wait()

def environment(value, place): os.environ["LEAKY"] = value
def uncaught(value, place):
    thread = threading.Thread(target=fail, args=(value,))
    thread.start()
    thread.join()
def unraisable(value, place):
    class Odd:
        def __del__(self):
            fail(value)
    Odd()
def reaches_the_app(value, place): fail(value)
def behind_another(value, place):
    try:
        raise KeyError(value)
    except KeyError as error:
        raise RuntimeError("says nothing") from error

def datagram(value, place):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x:" + value.encode(), ("127.0.0.1", 9))
def bytes_in_pieces(value, place):
    one, other = socket.socketpair()
    with one, other:
        for byte in value.encode():
            one.sendall(bytes([byte]))
def looked_up(value, place):
    try:
        socket.getaddrinfo(value.encode().hex() + ".invalid", 80)
    except OSError:
        pass
""",
    "leaky.py",
    "exec",
)
NAMES: dict[str, Any] = {}
exec(LEAKY, NAMES)
LEAKS = {name: it for name, it in NAMES.items() if isinstance(it, FunctionType) and name != "fail"}
WHERE = {
    "plain_file": "file state (utf-8)",
    "wide_file": "file state (utf-16-le)",
    "repr_file": "file state (",
    "bytes_repr_file": "file state (repr of bytes)",
    "json_file": "file state (json)",
    "base64_file": "file state (base64 of utf-8)",
    "urlsafe_file": "file state (base64 of utf-8)",
    "hex_file": "file state (hex of utf-8)",
    "hashed_file": "file state (sha256)",
    "packed_file": "file state (utf-8)",
    "file_name": "the name of file",
    "database": "file state (utf-8)",
    "debug_log": "a log record",
    "silenced_log": "a log record",
    "log_with_traceback": "the traceback of a log record",
    "warning": "a warning",
    "standard_output": "standard output",
    "standard_error": "standard error",
    "descriptor": "standard error",
    "child_process": "standard output",
    "environment": "the environment variable LEAKY",
    "uncaught": "an exception that nobody caught",
    "unraisable": "an exception that nobody caught",
    "reaches_the_app": "an exception that reached the app",
    "behind_another": "an exception that reached the app",
    "datagram": "the network",
    "bytes_in_pieces": "the network",
    "looked_up": "a name that was looked up",
}


def test_every_leak_of_the_list_is_told_apart() -> None:
    assert LEAKS.keys() == WHERE.keys()


@pytest.fixture
def tolerant(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaks warn, raise in threads and set variables: that is what they are for."""
    monkeypatch.setenv("LEAKY", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


NOISY = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@NOISY
@pytest.mark.parametrize("name", WHERE)
def test_a_leak_is_found_and_named(name: str, tmp_path: Path, tolerant: None) -> None:
    with pytest.raises(CanaryFound) as found, Canary(CANARY) as canary:
        canary.watch(tmp_path)
        LEAKS[name](canary.value, tmp_path)
    assert WHERE[name] in str(found.value)


@NOISY
@pytest.mark.parametrize("name", WHERE)
def test_the_same_leak_of_another_value_is_no_find(
    name: str, tmp_path: Path, tolerant: None
) -> None:
    with suppress(ValueError, RuntimeError), Canary(CANARY) as canary:
        canary.watch(tmp_path)
        LEAKS[name]("another value: 1-2", tmp_path)


def test_a_repr_a_status_and_what_was_sent_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Telltale(ObservedClient):
        def __repr__(self) -> str:
            return f"Client({self.recorded})"

    client = Telltale(loads(REGISTRY), transport=RecordingTransport())
    client.record("home_page", CANARY)
    canary = Canary(CANARY)
    canary.watch(client)
    assert {find.place for find in canary.finds()} == {"repr of the client"}
    summary = Client.status(client)._replace(summary=CANARY)
    monkeypatch.setattr(client, "status", lambda: summary)
    assert {find.place for find in canary.finds()} == {"repr of the client", "status of the client"}
    transport = RecordingTransport()
    transport.batches, transport.macs = [b"{}", CANARY.encode()], [CANARY, ""]
    canary = Canary(CANARY)
    canary.watch(transport)
    assert {find.place for find in canary.finds()} == {
        "a header that was sent",
        "a batch that was sent",
    }


def test_headers_and_bodies_of_real_requests_are_heard(refusing: str) -> None:
    import requests

    with pytest.raises(CanaryFound, match="in the network"), Canary(CANARY):
        requests.post(refusing, headers={"X-Value": CANARY.encode().hex()}, timeout=5)
    with pytest.raises(CanaryFound, match="in the network"), Canary(CANARY):
        requests.post(refusing, data=CANARY.encode(), timeout=5)


def test_bytes_are_heard_before_tls_hides_them() -> None:
    import ssl

    context = ssl.create_default_context()
    with pytest.raises(CanaryFound, match="in the network"), Canary(CANARY) as canary:
        session = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.example")
        with suppress(ssl.SSLError):  # no handshake yet: only what is handed over matters
            session.write(canary.value.encode())


def test_after_the_block_everything_is_as_it_was() -> None:
    def hooks() -> list[object]:
        return [
            *(sys.stdout, sys.stderr, sys.unraisablehook, threading.excepthook),
            *(socket.socket.__dict__.get("send"), socket.getaddrinfo),
            *(logging.Logger.handle, logging.Logger.isEnabledFor, warnings.filters[:]),
            *(os.fstat(1).st_ino, os.fstat(2).st_ino),
        ]

    before = hooks()
    with Canary(CANARY):
        assert all(a is not b for a, b in zip(hooks()[:9], before[:9], strict=True))
    assert hooks() == before


def test_what_is_heard_still_arrives(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Canary(CANARY), pytest.warns(UserWarning, match="careful"):
        print("said")
        os.write(2, b"written")
        logging.getLogger("app").warning("logged")
        logging.getLogger("app").debug("not wanted by the app")
        warnings.warn("careful", stacklevel=1)
    out, err = capfd.readouterr()
    assert ("said" in out, "written" in err) == (True, True)
    assert caplog.messages == ["logged"]


def test_a_warning_that_the_app_turned_into_an_error_stays_one() -> None:
    with pytest.raises(UserWarning, match="careful"), Canary(CANARY):
        warnings.warn("careful", stacklevel=1)


def test_an_exception_without_the_value_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), Canary(CANARY):
        1 / 0  # noqa: B018


def test_a_short_value_is_refused_because_chance_would_find_it() -> None:
    with pytest.raises(ValueError, match="8 characters, got 4"):
        Canary("dark")


def test_a_number_is_found_as_the_database_stores_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state")) as connection, connection:
        connection.execute("CREATE TABLE t (v REAL)")
        connection.execute("INSERT INTO t VALUES (?)", (31415926.53,))
    canary = Canary("31415926.53")
    canary.watch(tmp_path)
    assert [find.form for find in canary.finds()] == ["binary number"]


def test_forms_cover_both_normal_forms_of_a_text() -> None:
    needles = {needle for _, needle in forms("caf\u00e9-7f3a")}
    assert "cafe\u0301-7f3a".encode() in needles


REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
epoch = "day"
starts = 2026-12-01
expires = 2027-12-01

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "day"
starts = 2026-12-01
expires = 2026-12-20

[metrics.load_seconds]
question = "How many seconds does a page take?"
type = "number"
range = [0, 10]
buckets = 5
missing = 0
sensitivity = "product"
epsilon = 1.0
epoch = "day"
starts = 2026-12-01
expires = 2026-12-20

[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
starts = 2026-12-01
expires = 2026-12-20
"""


@contextmanager
def server(status: int, body: bytes = b"", **headers: str) -> Iterator[str]:
    """A server that gives every request the same answer; yields its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.fixture
def refusing() -> Iterator[str]:
    with server(500, b"no") as url:
        yield url


def unreachable() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def use(client: Any, value: str) -> None:
    """Everything that an app can do with a value, right and wrong."""
    client.record("home_page", value)
    client.record("theme", value)
    client.record("crashed", value)
    client.record("load_seconds", value)
    client.record(value, True)
    client.record("home_page", [value])
    client.record("home_page", value * 100)
    client.flush()
    client.status()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 4 KiB: what a full disk does to SQLite, for every user."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[ClientFactory]:
    factory = ClientFactory(tmp_path / "state", FakeClock())
    yield factory
    factory.close()


def test_the_shipped_client_leaks_nothing_when_all_is_well(device: ClientFactory) -> None:
    with Canary(CANARY) as canary:
        canary.watch(device)
        client = device(loads(REGISTRY))
        for _ in range(3):
            use(client, canary.value)
            canary.check()  # while the journal is still there
            device.clock.tick(days=1)
        client.close()
    assert len(device.reports("home_page")) == 3
    assert client.recorded[0] == ("home_page", CANARY)


def test_the_shipped_client_leaks_no_number_either(device: ClientFactory) -> None:
    number = "31415926.53"
    with Canary(number) as canary:
        canary.watch(device)
        client = device(loads(REGISTRY))
        client.record("load_seconds", float(number))
        client.flush()
        client.record("load_seconds", Decimal(number))
        client.close()
    assert len(device.reports("load_seconds")) == 1


@pytest.mark.parametrize("failure", ["500", "nonsense", "429", "dead", "no_address", "no_header"])
def test_the_shipped_client_leaks_nothing_when_the_network_fails(
    failure: str, device: ClientFactory
) -> None:
    answers = {"500": (500, b"no"), "nonsense": (200, b"{"), "429": (429, b""), "dead": (0, b"")}
    status, body = answers.get(failure, (0, b""))
    with ExitStack() as stack:
        url, key = unreachable(), "key"
        if status:
            url = stack.enter_context(server(status, body, Retry_After="5"))
        elif failure == "no_address":
            url = "no such scheme"
        elif failure == "no_header":
            key = "a\nb"
        canary = stack.enter_context(Canary(CANARY))
        canary.watch(device)
        client = device(loads(REGISTRY), transport=HttpTransport(url, key, 1.0, retries=0))
        use(client, canary.value)
        assert client.status().queued == 2
        client.opt_out()
        use(client, canary.value)
        client.close()


def test_the_shipped_client_leaks_nothing_when_the_disk_is_full(device: ClientFactory) -> None:
    first = device(loads(REGISTRY))
    first.record("crashed", True)
    assert first.flush()
    first.close(5)
    with Canary(CANARY) as canary:
        canary.watch(device)
        with full_disk():
            client = device(loads(REGISTRY))
            use(client, canary.value)
            client.close()
    assert client.dropped["no_state"]
    assert "no state" in client.status().summary


@pytest.mark.parametrize("damage", ["overwritten", "cut", "empty", "folder", "nowhere"])
def test_the_shipped_client_leaks_nothing_when_its_state_is_damaged(
    damage: str, device: ClientFactory
) -> None:
    first = device(loads(REGISTRY))
    first.record("crashed", True)
    assert first.flush()
    first.close(5)
    (path,) = device.directory.glob("*.sqlite3")
    content = path.read_bytes()
    if damage == "overwritten":
        path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage != "nowhere":
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    with Canary(CANARY) as canary:
        canary.watch(device)
        state = "/dev/null/nowhere" if damage == "nowhere" else device.directory
        client = device(loads(REGISTRY), state_dir=state)
        use(client, canary.value)
        client.close()
    assert client.dropped["no_state"]


def test_the_shipped_client_leaks_nothing_when_the_sdk_itself_is_broken(
    device: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def broken(self: object, pending: list[Any], *more: object) -> list[str]:
        told.append(f"unexpected: {[each.value for each in pending]}")
        raise RuntimeError(told[-1])

    monkeypatch.setattr("client_sdk.recorder.Recorder.store", broken)
    with Canary(CANARY) as canary:
        canary.watch(device)
        client = device(loads(REGISTRY))
        use(client, canary.value)
        client.close()
    assert client.dropped["internal_error"]
    assert CANARY in told[0]  # the error itself would have given it away


def test_the_shipped_client_leaks_nothing_when_the_app_asks_wrongly(device: ClientFactory) -> None:
    with Canary(CANARY) as canary:
        for enabled in (False, True):
            client = device(loads(REGISTRY), enabled=enabled)
            canary.watch(client)
            use(client, canary.value)
            client.close()
        with pytest.raises(RegistryError):
            device(Path("no-such-metrics.toml"))

"""`sottovoce health`: what each part must have done, and how it is told that it has not."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from sottovoce.__main__ import main
from sottovoce.health import fold_trouble, schedule_trouble, server_trouble

NOW = 1_796_040_000.0


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_is_asked_where_it_listens_and_past_any_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with answering(200, b"") as (port, asked):
        assert server_trouble(host, port, "/readyz") is None
    assert asked == ["/readyz"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"reason": "disk", "detail": "it is full"}', "disk: it is full"),
        (b'{"detail": "no"}', "503: no"),
        (b"[]", "http://127.0.0.1:PORT/readyz answers 503"),
        (b"<html>", "http://127.0.0.1:PORT/readyz answers 503"),
    ],
)
def test_a_server_that_is_not_ready_says_why(body: bytes, told: str) -> None:
    with answering(503, body) as (port, _):
        assert server_trouble("127.0.0.1", port, "/readyz") == told.replace("PORT", str(port))
    assert "does not answer" in (server_trouble("127.0.0.1", port, "/readyz") or "")


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> ServerSettings:
    Keys.load_or_create(tmp_path / "keys.json")
    return ServerSettings(redis_url, tmp_path / "keys.json", shards=4, planned_devices=2048)


@pytest.fixture
def store(settings: ServerSettings) -> Iterator[Store]:
    made = Store.connect(settings, Keys.load(settings.keys_file).pseudonym_key)
    made.check()
    yield made
    made.close()


def test_folding_is_healthy_for_a_while_after_a_pass(
    store: Store, settings: ServerSettings
) -> None:
    assert "passed through the store ever" in str(fold_trouble(store, settings, NOW, 180))
    store.raise_generation(NOW - 1000)
    store._generation.lift(0, 2, NOW)  # one that died in the first of four shards
    assert "for 1000 seconds" in str(fold_trouble(store, settings, NOW, 180))
    stop = threading.Event()
    folder = Folder(store, clock=lambda: NOW, every_minute=stop.set)
    folder.run(stop, 0.01)
    assert fold_trouble(store, settings, NOW + 180, 180) is None
    assert fold_trouble(store, settings, NOW - 3600, 180) is None  # the clock was put back
    told = fold_trouble(store, settings, NOW + 182, 180)
    assert told == ("no fold worker has passed through the store for 182 seconds, 180 are allowed")


def test_publishing_is_healthy_for_a_while_after_a_pass_without_a_failure(store: Store) -> None:
    assert "without a failure has ended ever" in str(schedule_trouble(store, NOW, 600))
    store.figures.note_published({}, NOW)
    store.figures.note_published({"failed": 1}, None)
    assert schedule_trouble(store, NOW + 600, 600) is None
    assert "for 601 seconds" in str(schedule_trouble(store, NOW + 601, 600))


def test_reports_that_wait_too_long_are_no_health(
    store: Store, settings: ServerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.raise_generation(NOW)
    monkeypatch.setattr(store.figures, "oldest_seconds", lambda: 601.0)
    assert fold_trouble(store, settings, NOW, 180) == "a report has waited 601 seconds for the fold"


def test_the_command_ends_with_0_or_1_and_one_line(
    settings: ServerSettings,
    store: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDIS_URL", settings.required_redis_url())
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(settings.keys_file))
    monkeypatch.setenv("SOTTOVOCE_SHARDS", "4")
    assert main(["health", "schedule"]) == 1
    store.figures.note_published({}, time.time())
    assert main(["health", "schedule"]) == 0
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(settings.keys_file) + ".missing")
    assert main(["health", "fold"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "schedule works" and len(lines) == 3 and "must be readable" in lines[2]
    assert main(["health", "fold", "--within", "0"]) == 2

"""Logs of the processes as they run: JSON, and silent about who sent what."""

import io
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from aggregator.settings import ServerSettings, SettingsError
from aggregator.watching.logs import configure
from client_sdk.report import REPORTS_PATH
from tests.aggregator.conftest import World, environment_of, free_port

ROOT = Path(__file__).parents[2]
FIELDS = {"time", "level", "logger", "role", "process", "message"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def configured(stream: io.StringIO, **environment: str) -> Iterator[logging.Logger]:
    """Configure the root logger, and put pytest's handlers back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    try:
        configure("fold", ServerSettings.from_env(environment), stream)
        yield logging.getLogger("aggregator.test")
    finally:
        root.handlers, root.level = handlers, level
        root.setLevel(level)


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        assert line.keys() >= FIELDS
        moment = datetime.fromisoformat(line["time"])
        assert moment.tzinfo == UTC and line["time"].endswith("Z")
    return found


def test_a_line_is_one_json_object_even_with_a_traceback() -> None:
    stream = io.StringIO()
    with configured(stream) as log:
        log.info("folded %d\nreports", 3)
        try:
            raise ValueError("two\nlines")
        except ValueError:
            log.exception("failed")
        log.debug("not shown")
    first, second = lines(stream.getvalue())
    assert first["message"] == "folded 3\nreports" and first["role"] == "fold"
    assert first["level"] == "info" and first["logger"] == "aggregator.test"
    assert "exception" not in first and first["process"] == os.getpid()
    assert second["level"] == "error" and "ValueError: two\nlines" in second["exception"]


def test_a_terminal_gets_text_unless_told_otherwise() -> None:
    for stream, environment, is_json in (
        (Terminal(), {}, False),
        (Terminal(), {"SOTTOVOCE_LOG_FORMAT": "json"}, True),
        (io.StringIO(), {}, True),
        (io.StringIO(), {"SOTTOVOCE_LOG_FORMAT": "text"}, False),
    ):
        with configured(stream, **environment) as log:
            log.warning("folded")
        text = stream.getvalue()
        assert text.startswith("{") == is_json and "folded" in text


def test_the_level_is_a_setting() -> None:
    stream = io.StringIO()
    with configured(stream, SOTTOVOCE_LOG_LEVEL="error") as log:
        log.warning("not shown")
        log.error("shown")
    assert [line["message"] for line in lines(stream.getvalue())] == ["shown"]
    for variable in ("SOTTOVOCE_LOG_LEVEL", "SOTTOVOCE_LOG_FORMAT"):
        with pytest.raises(SettingsError, match=f"{variable} must be one of"):
            ServerSettings.from_env({variable: "xml"})


def test_a_request_that_failed_is_logged_without_what_it_held(world: World) -> None:
    stream = io.StringIO()
    secret = "planted-value-of-a-device"

    def fail() -> float:
        raise RuntimeError(secret)

    device = world.device()
    body = device.batch(world.report("theme"))
    with configured(stream):
        world.app.view_functions["take_reports"] = fail
        answer = world.app.test_client().post(
            REPORTS_PATH + f"?{secret}", data=body, headers=device.headers(body)
        )
    assert answer.status_code == 500 and secret not in answer.text
    (line,) = lines(stream.getvalue())
    assert line["message"] == "a request failed"
    assert "RuntimeError" in line["exception"] and "in fail" in line["exception"]
    assert secret not in stream.getvalue() and device.id not in stream.getvalue()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., tuple[Any, Path]]]:
    """Start a command of `sottovoce` with its standard error in a file."""
    running = []

    def start(world: World, name: str, **environment: str) -> tuple[Any, Path]:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "sottovoce", name],
                env=environment_of(world) | environment,
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
        running.append(process)
        return process, log

    yield start
    for process in running:
        process.kill()
        process.wait()


def end(process: Any) -> None:
    process.terminate()
    assert process.wait(30) == 0


def test_a_server_logs_json_and_names_no_sender(
    world: World, command: Callable[..., tuple[Any, Path]]
) -> None:
    port = free_port()
    planted = "agent-of-one-device"
    process, log = command(world, "serve", SOTTOVOCE_PORT=str(port), SOTTOVOCE_LOG_LEVEL="debug")
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while True:
        with suppress(requests.ConnectionError):
            if requests.get(url + "/readyz", timeout=5).status_code == 200:
                break
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    device = world.device()
    world.now = time.time()
    body = device.batch(world.report("theme"))
    headers = device.headers(body) | {"User-Agent": planted, "X-Forwarded-For": "203.0.113.77"}
    assert (
        requests.post(url + REPORTS_PATH, data=body, headers=headers, timeout=9).status_code == 200
    )
    assert requests.post(url + REPORTS_PATH, data=body[:-1], headers=headers, timeout=9).status_code
    for nonsense in (b"NOT HTTP " + planted.encode() + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(nonsense)
            assert connection.recv(9999).startswith(b"HTTP/1.1 4")
    end(process)
    found = lines(log.read_text())
    assert {line["role"] for line in found} == {"serve"}
    assert {"gunicorn.error"} <= {line["logger"] for line in found}
    assert "a request that is not HTTP was refused" in {line["message"] for line in found}
    senders = (line["message"] for line in found if "Listening at" not in line["message"])
    text = "\n".join(senders)
    for secret in (device.id, planted, "203.0.113.77", "127.0.0.1", world.keys.write_key):
        assert secret not in text


def test_the_fold_worker_and_the_schedule_log_json(
    world: World, command: Callable[..., tuple[Any, Path]]
) -> None:
    world.now = time.time()
    world.charged(world.device(), world.report("theme"))
    for name in ("fold", "schedule"):
        process, log = command(world, name, SOTTOVOCE_RELEASES="releases")
        figures = world.store.figures
        done = figures.ledger_sample if name == "schedule" else figures.folded
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline and process.poll() is None, log.read_text()
            time.sleep(0.1)
        end(process)
        assert all(line["role"] == name for line in lines(log.read_text()))
    sample = world.store.figures.ledger_sample()
    assert sample is not None and sample.devices == 1
    assert world.store.figures.published()[1] is not None


def test_no_module_of_the_server_prints_or_logs_a_request() -> None:
    home = ROOT / "aggregator"
    sources = {path.relative_to(home).as_posix(): path.read_text() for path in home.rglob("*.py")}
    source = "".join(sources.values())
    # An address is read in one place, to be counted by its network under a name of the day.
    reading = [
        name for name, text in sources.items() if re.search(r"remote_addr|REMOTE_ADDR", text)
    ]
    assert reading == ["enrolment/limits.py"]
    assert sources["enrolment/limits.py"].count("remote_addr") == 1
    assert not re.findall(r"user_agent|HTTP_USER_AGENT", source)

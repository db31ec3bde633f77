"""A web app under gunicorn, loaded before the fork: its workers are one device together."""

import re
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from sottovoce.system import free_port

EXAMPLE = "flask_prefork"
FOLDER = Path(__file__).parents[2] / "examples" / EXAMPLE


def gunicorn(port: int, log: Path) -> list[str]:
    """The command of the example, and a log that tells the workers apart."""
    address = ["--bind", f"127.0.0.1:{port}", "--access-logfile", str(log)]
    told = ["--access-logformat", "worker %(p)s", "--log-level", "warning"]
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2"]
    return [*command, *address, *told, "app:app"]


def ask(port: int) -> None:
    answer = requests.get(
        f"http://127.0.0.1:{port}/search",
        params={"q": "tea"},
        headers={"Accept-Language": "de", "Connection": "close"},
        timeout=10,
    )
    assert answer.status_code == 200


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask_both_workers(port: int, log: Path) -> None:
    for _ in range(40):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, [port] * 16))
        if len(set(re.findall(r"worker <?(\d+)", log.read_text()))) == 2:
            return
    raise AssertionError("one worker took every request")


def test_an_operator_who_did_not_agree_tells_nothing(
    install: Callable[[str], Any],
    start: Callable[..., Any],
    arrived: Callable[[], dict[str, int]],
    wait_until: Callable[..., None],
) -> None:
    machine, port = install("silent"), free_port()
    log = machine.home / "access"
    with start(gunicorn(port, log), machine.home, cwd=FOLDER, env=machine.environment):
        wait_until(lambda: is_listening(port))
        ask_both_workers(port, log)
    assert not (machine.home / "state").exists()
    assert arrived() == {}


def test_two_forked_workers_report_exactly_once_together(
    install: Callable[[str], Any],
    start: Callable[..., Any],
    settle: Callable[[dict[str, int]], None],
    wait_until: Callable[..., None],
) -> None:
    machine = install("machine")
    environment = {**machine.environment, "TELEMETRY": "on"}
    once = {"search_used": 1, "language": 1}
    for life in range(2):  # the second start neither repeats nor adds
        port, log = free_port(), machine.home / f"access{life}"
        with start(gunicorn(port, log), machine.home, cwd=FOLDER, env=environment):
            wait_until(lambda port=port: is_listening(port))
            ask_both_workers(port, log)
            settle(once)
        assert machine.charged() == once

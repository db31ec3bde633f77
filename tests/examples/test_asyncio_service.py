"""A service of coroutines: many record at once, and each answer arrives once."""

import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXAMPLE = "asyncio_service"
FOLDER = Path(__file__).parents[2] / "examples" / EXAMPLE


def talk(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"hello\nthere\n")
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return answer.read()


def command(machine: Any, *, agreed: bool) -> list[str]:
    settings = machine.home / "settings.toml"
    settings.write_text(f"telemetry = {str(agreed).lower()}\n")
    return [sys.executable, "service.py", str(settings)]


def use(process: Any) -> None:
    port = int(process.stdout.readline())
    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(talk, [port] * 50)) == {b"HELLO\nTHERE\n"}


def test_a_setting_that_says_no_keeps_everything_silent(
    install: Callable[[str], Any],
    start: Callable[..., Any],
    arrived: Callable[[], dict[str, int]],
) -> None:
    machine = install("silent")
    started = command(machine, agreed=False)
    with start(started, machine.home, cwd=FOLDER, env=machine.environment) as process:
        use(process)
    assert not (machine.home / "state").exists()
    assert arrived() == {}


def test_many_coroutines_report_exactly_once(
    install: Callable[[str], Any],
    start: Callable[..., Any],
    settle: Callable[[dict[str, int]], None],
    wait_until: Callable[..., None],
) -> None:
    machine = install("machine")
    for _ in range(2):  # the second start neither repeats nor adds
        started = command(machine, agreed=True)
        with start(started, machine.home, cwd=FOLDER, env=machine.environment) as process:
            use(process)
            wait_until(lambda: machine.charged().get("line_bytes"))
            settle(machine.charged())
        # Once; the other question is the installation's turn in one month of six.
        assert machine.charged() in ({"line_bytes": 1}, {"line_bytes": 1, "blank_lines": 1})

"""The command-line tool: silent before it was asked to tell; then each answer arrives once."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = "cli_tool"
PROGRAM = Path(__file__).parents[2] / "examples" / EXAMPLE / "words.py"


def words(machine: Any, *arguments: str) -> str:
    """Run the tool as a user does; it says nothing about telemetry."""
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        cwd=machine.home,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.fixture
def machine(install: Callable[[str], Any]) -> Any:
    made = install("machine")
    (made.home / "a.txt").write_text("three small words")
    return made


def test_nothing_is_kept_before_the_user_agrees(machine: Any, arrived: Callable[..., Any]) -> None:
    assert words(machine, "a.txt").split() == ["3", "a.txt"]
    assert not (machine.home / "state").exists()
    assert arrived() == {}


def test_what_devices_were_charged_arrives_exactly_once(
    install: Callable[[str], Any],
    arrived: Callable[[], dict[str, int]],
    wait_until: Callable[..., None],
    settle: Callable[[dict[str, int]], None],
) -> None:
    machines = [install(f"machine{number}") for number in range(6)]
    for each in machines:
        (each.home / "a.txt").write_text("three small words")
        words(each, "--telemetry", "on")
        for _ in range(3):
            assert json.loads(words(each, "--format", "json", "a.txt")) == {"a.txt": 3}
    charged: Counter[str] = Counter()
    for each in machines:
        charged.update(each.charged())
    # Once each; the other question is a machine's turn in one month of six.
    assert charged["format"] == 6 and charged["files"] <= 6

    def used_until_all_is_there() -> bool:
        """What a run could not send before it ended, a later one does."""
        for each in machines:
            words(each, "a.txt")
        return sum(arrived().values()) >= charged.total()

    wait_until(used_until_all_is_there, 60)
    settle(dict(charged))


def test_who_changes_their_mind_is_charged_no_more(machine: Any) -> None:
    words(machine, "--telemetry", "on")
    words(machine, "a.txt")
    charged = machine.charged()
    assert charged["format"] == 1
    words(machine, "--telemetry", "off")
    words(machine, "a.txt", "a.txt")
    assert machine.charged() == charged

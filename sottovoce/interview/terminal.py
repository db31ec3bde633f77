"""The interview at a terminal or through a pipe, and what becomes of its answers."""

import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TextIO

from client_sdk import Registry
from client_sdk.review import Finding, review
from sottovoce.interview.entry import alone, entry_of
from sottovoce.interview.file import File
from sottovoce.interview.interview import interview
from sottovoce.interview.step import Setting


class Terminal:
    """Asks over two streams; what comes from a pipe is shown as if it had been typed."""

    def __init__(self, answers: TextIO, shown: TextIO) -> None:
        self._answers = answers
        self._shown = shown

    def say(self, text: str) -> None:
        print(text, file=self._shown)

    def ask(self, prompt: str) -> str:
        print(prompt, end="", file=self._shown, flush=True)
        line = self._answers.readline()
        if not line:
            raise EOFError
        line = line.rstrip("\r\n")
        if not self._answers.isatty():
            print(line, file=self._shown)
        return line


def run(path: Path | None, devices: int) -> int:
    """Hold the interview; print the entry, or add it to a file.

    Args:
        path: Of the file; None prints.
        devices: How many are supposed, unless somebody says it.
    """
    if devices < 1:
        raise ValueError(f"--devices must be at least 1, got {devices}")
    today = datetime.now(UTC).date()
    file = None if path is None else File.at(path)
    talk = Terminal(sys.stdin, sys.stderr)
    try:
        answers = interview(talk, Setting(today, file, devices))
    except KeyboardInterrupt:
        talk.say("\nNothing is written.")
        raise
    except EOFError:
        talk.say("")
        raise ValueError("the answers end before the questions do; nothing is written") from None
    if file is None:
        registry = alone(answers, today)
        print(entry_of(answers), end="")
    elif answers["agreed"]:
        registry = file.write(answers)
        talk.say(f"\nWritten to {file.path}.")
    else:
        talk.say("Nothing is written.")
        return 1
    for found in _notes(registry, answers["name"], today, whole=file is not None):
        talk.say(f"{found.level}: {found}")
    if file is None:
        share = registry.metrics[answers["name"]].share(registry.metrics[answers["name"]].starts)
        talk.say(f"Of its file's lifetime_epsilon it takes {share / 1e6:g}.")
    return 0


def _notes(registry: Registry, name: str, today: date, *, whole: bool) -> list[Finding]:
    """Return what `sottovoce check` finds: of a whole file, or of the entry alone."""
    found = review(registry, today)
    return [each for each in found if whole or not each.key.startswith("project")]

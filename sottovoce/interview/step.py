"""One question of the interview, and the words that questions are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from sottovoce.interview import answers as read
from sottovoce.interview.entry import Answers
from sottovoce.interview.file import File


@dataclass(frozen=True)
class Setting:
    """What is known before the first question.

    Attributes:
        today: A UTC date.
        file: Where the entry goes; None: it is printed.
        devices: How many are supposed, unless somebody says it.
    """

    today: date
    file: File | None = None
    devices: int = 10_000

    @property
    def new_file(self) -> bool:
        return self.file is not None and self.file.registry is None


@dataclass(frozen=True)
class Step:
    """One question.

    Attributes:
        key: Of the answer.
        words: What is asked.
        why: Why it matters, in one line.
        read: From what is typed to the answer; raises ValueError.
        default: What an empty line means; None: an answer is needed.
        when: Whether it is asked at all, after what was answered before.
    """

    key: str
    words: Callable[[Answers], str]
    why: str
    read: Callable[[str, Answers], Any]
    default: Callable[[Answers], str | None] = lambda _: None
    when: Callable[[Answers], bool] = lambda _: True


def said(words: str) -> Callable[[Answers], str]:
    """Return words that are the same whatever was answered."""
    return lambda _: words


def of_types(*types: str) -> Callable[[Answers], bool]:
    """Return the condition that an answer is of one of these types."""
    return lambda answers: answers["type"] in types


def listed(words: str, options: dict[str, str]) -> str:
    """Return a question with its numbered options, each with what it means."""
    lines = [
        f"  {place} {option}" + (f": {said}" if said else "")
        for place, (option, said) in enumerate(options.items(), 1)
    ]
    return "\n".join([words, *lines])


def yes(holds: bool) -> str:
    """Return a default as it would be typed."""
    return "yes" if holds else "no"


def quoted(value: object) -> str:
    """Return a value as it can be typed where - means none and quotes are read."""
    plain = str(value)
    return f'"{plain}"' if plain == read.NOTHING else plain

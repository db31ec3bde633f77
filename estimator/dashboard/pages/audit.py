"""The end of the administrators' log, and whether anybody has changed it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.administration.admin_log import AdminLog, Entry
from aggregator.store.log_heads import Head

LAST = 20
_LONGEST = 300
_DEVICE = re.compile(r"\b[0-9a-f]{32}\b")
"""No act tells one; whatever looks like one is not for a page."""


@dataclass(frozen=True)
class Line:
    """One entry, in words.

    Attributes:
        when: As the log has it.
        who: User and machine.
        act: What was done.
        details: Of the act; long ones are cut.
    """

    when: str
    who: str
    act: str
    details: str


@dataclass(frozen=True)
class Audit:
    """What the page tells of the log.

    Attributes:
        lines: The last `LAST` entries, newest first.
        entries: How many there are in all.
        problems: Signs that somebody changed it.
        notes: What has an innocent reason.
        compared: Whether it was held against what the store has seen of it.
    """

    lines: tuple[Line, ...]
    entries: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    compared: bool


def audit(log: AdminLog, heads: Mapping[str, Head] | None) -> Audit:
    """Read the log once.

    Args:
        log: The administrators' log.
        heads: What the store has seen of logs; None while it does not answer.
    """
    try:
        found = log.findings() if heads is None else log.compared(heads)
    except OSError as error:
        unreadable = f"the log cannot be read: {error.strerror}"
        return Audit((), 0, (unreadable,), (), heads is not None)
    last = tuple(_line(entry) for entry in reversed(found.entries[-LAST:]))
    return Audit(last, len(found.entries), found.problems, found.notes, heads is not None)


def _line(entry: Entry) -> Line:
    details = "; ".join(f"{_short(name)}: {_short(value)}" for name, value in entry.details.items())
    who = f"{entry.who}@{entry.host}"
    when, who, act = (_shown(_short(text)) for text in (entry.time, who, entry.act))
    return Line(when, who, act, _shown(details))


def _shown(text: str) -> str:
    hidden = _DEVICE.sub("(hidden)", text)
    return hidden if len(hidden) <= _LONGEST else hidden[:_LONGEST] + " …"


def _short(value: object) -> str:
    text = json.dumps(value)  # escapes what would turn a line around or break it, or the page
    return text[1:-1] if isinstance(value, str) else text

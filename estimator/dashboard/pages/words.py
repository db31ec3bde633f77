"""Figures as people read them: the filters of the templates."""

from collections.abc import Callable
from datetime import UTC, datetime

from estimator.releases.charts import in_percent
from estimator.releases.telling import influence

NOTHING = "\N{EN DASH}"
_STEPS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: float | None) -> str:
    """Return a whole number with separators; a dash for None."""
    return NOTHING if number is None else f"{round(number):,}"


def figure(number: float | None) -> str:
    """Return a number with four significant digits; a dash for None."""
    if number is None:
        return NOTHING
    return f"{number:,.4g}" if abs(number) < 10_000 else f"{number:,.0f}"


def when(seconds: float | None) -> str:
    """Return a moment, Unix time, in UTC to the minute; a dash for None."""
    if seconds is None:
        return NOTHING
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float | None) -> str:
    """Return a time span in its largest unit, rounded down; a dash for None."""
    if seconds is None:
        return NOTHING
    for size, name in _STEPS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'' if number == 1 else 's'}"
    return "less than a second"


def size(number: float | None) -> str:
    """Return a number of bytes with a binary unit; a dash for None."""
    if number is None:
        return NOTHING
    place = 0
    while number >= 1024 and place < len(_BYTES) - 1:
        number, place = number / 1024, place + 1
    return f"{number:.0f} {_BYTES[place]}" if place == 0 else f"{number:.1f} {_BYTES[place]}"


def milliseconds(seconds: float | None) -> str:
    """Return a short time; a dash for None."""
    if seconds is None:
        return NOTHING
    if seconds == float("inf"):
        return "longer than is measured"
    return f"{1000 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


FILTERS: dict[str, Callable[..., str]] = {
    "count": count,
    "figure": figure,
    "when": when,
    "duration": duration,
    "size": size,
    "milliseconds": milliseconds,
    "percent": in_percent,
    "influence": influence,
}

"""Epochs: numbered UTC days, weeks and months, the only time that a report carries.

Numbers count from 1970: days; weeks that start on Monday (week 0 holds 1 January 1970); months.
A metric with epoch "once" has the single epoch 0. UTC has no daylight saving, so no epoch is
skipped or doubled.
"""

from datetime import date, datetime, timedelta
from typing import Literal

EpochLength = Literal["day", "week", "month", "once"]
LENGTHS: tuple[EpochLength, ...] = ("day", "week", "month", "once")

DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1)
_FIRST_MONDAY = date(1969, 12, 29)


def day_of(seconds: float) -> date:
    """Return the UTC date of a Unix time in seconds."""
    return _EPOCH_DAY + timedelta(days=int(seconds // DAY_SECONDS))


def epoch_of(length: EpochLength, day: date) -> int:
    """Return the number of the epoch that holds a UTC date."""
    if length == "day":
        return (day - _EPOCH_DAY).days
    if length == "week":
        return (day - _FIRST_MONDAY).days // 7
    if length == "month":
        return (day.year - 1970) * 12 + day.month - 1
    return 0


def first_day(length: EpochLength, epoch: int) -> date:
    """Return the first UTC date of an epoch ("once" begins with time itself)."""
    if length == "day":
        return _EPOCH_DAY + timedelta(days=epoch)
    if length == "week":
        return _FIRST_MONDAY + timedelta(weeks=epoch)
    if length == "month":
        return date(1970 + epoch // 12, epoch % 12 + 1, 1)
    return date.min


def end_of(length: EpochLength, epoch: int) -> float:
    """Return the Unix time in seconds at which an epoch ends; "once" never ends by itself."""
    if length == "once":
        return float("inf")
    return (first_day(length, epoch + 1) - _EPOCH_DAY).days * float(DAY_SECONDS)


def label(length: EpochLength, epoch: int) -> str:
    """Return the ISO 8601 name of an epoch: 2026-11-29, 2026-W48, 2026-11, or once."""
    if length == "once":
        return "once"
    day = first_day(length, epoch)
    if length == "day":
        return day.isoformat()
    if length == "month":
        return f"{day.year:04d}-{day.month:02d}"
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


def parse(length: EpochLength, text: str) -> int:
    """Return the number of the epoch with this label.

    Raises:
        ValueError: The text names no epoch of this length.
    """
    try:
        if length == "once":
            epoch = 0
        elif length == "month":
            epoch = epoch_of(length, datetime.strptime(text, "%Y-%m").date())
        elif length == "week":
            epoch = epoch_of(length, datetime.strptime(text + "-1", "%G-W%V-%u").date())
        else:
            epoch = epoch_of(length, date.fromisoformat(text))
    except (ValueError, OverflowError):
        epoch = -1
    if epoch < 0 or label(length, epoch) != text:
        example = label(length, epoch_of(length, date(2026, 11, 29)))
        raise ValueError(f"an epoch of length {length} is written like {example}, got {text!r}")
    return epoch


def as_length(text: str) -> EpochLength:
    """Return `text` as an epoch length.

    Raises:
        ValueError: It is none of day, week, month, once.
    """
    if text not in LENGTHS:
        raise ValueError(f"an epoch must be one of {', '.join(LENGTHS)}, got {text!r}")
    return text

"""How an answer is read: from what somebody typed to a value of metrics.toml.

Each function raises ValueError with the rule where the text is none; whether the value is allowed
is for the registry's own rules to say.
"""

import csv
import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from client_sdk.metric import Label

NOTHING = "-"
"""Typed for no value at all."""


def text(typed: str) -> str:
    """Return a text; one in double quotes as JSON has it, which can be empty."""
    if not typed.startswith('"'):
        return typed
    try:
        return str(json.loads(typed))
    except ValueError as error:
        raise ValueError(f"must end with a double quote as it begins with one, got {typed}") from (
            error
        )


def texts(typed: str) -> list[str]:
    """Return texts with commas between them, or the lines of a file where typed is @FILE."""
    if typed.startswith("@"):
        try:
            lines = Path(typed[1:]).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"must be a readable file after @, got {typed} ({error})") from error
        return [line.strip() for line in lines if line.strip()]
    try:
        (found,) = csv.reader([typed], skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise ValueError(f"must be texts with commas between them ({error})") from error
    return [each.strip() for each in found if each.strip()]


def labels(typed: str) -> list[Label]:
    """Return the values of a list: integers if all of them are, else texts."""
    found = texts(typed)
    if found and all(each.removeprefix("-").isdecimal() and each.isascii() for each in found):
        return [integer(each) for each in found]
    return list(found)


def label_of(values: Sequence[Label], typed: str) -> Label:
    """Return one value of such a list; of one that is none, what was typed."""
    wanted = text(typed)
    return next((value for value in values if str(value) == wanted), wanted)


def choice(options: Sequence[str], typed: str) -> str:
    """Return one of several words, given by itself or by its place, from 1."""
    if typed in options:
        return typed
    if typed.isdecimal() and len(typed) < 4 and 1 <= int(typed) <= len(options):
        return options[int(typed) - 1]
    raise ValueError(f"must be one of {', '.join(options)}, or its number, got {typed!r}")


def yes(typed: str) -> bool:
    """Return whether the answer is yes."""
    word = typed.lower()
    if word in ("yes", "y", "true"):
        return True
    if word in ("no", "n", "false"):
        return False
    raise ValueError(f"must be yes or no, got {typed!r}")


def integer(typed: str) -> int:
    """Return a whole number; commas and underscores may part its digits."""
    digits = typed.replace(",", "").replace("_", "")
    if not (digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) < 20):
        raise ValueError(f"must be a whole number, got {typed!r}")
    return int(digits)


def number(typed: str) -> Decimal:
    """Return a number as it is written."""
    try:
        found = Decimal(typed)
    except InvalidOperation:
        found = Decimal("NaN")
    # Numbers are written out digit by digit.
    if not found.is_finite() or abs(found.adjusted()) > 40:
        raise ValueError(f"must be a number like 1.5, got {typed!r}")
    return found


def percentage(typed: str) -> Decimal | None:
    """Return a part of 1 that is written in per cent; None if it is not."""
    bare = typed.removesuffix("%")
    return None if bare == typed else number(bare.strip()) / 100


def share(typed: str) -> float:
    """Return a part of 1, written so or in per cent."""
    part = percentage(typed)
    found = float(number(typed) if part is None else part)
    if not 0 < found < 1:
        raise ValueError(f"must lie between 0 and 1, or 0 % and 100 %, got {typed!r}")
    return found


def ends(typed: str) -> list[Decimal]:
    """Return lowest and highest of a range."""
    found = [number(each) for each in typed.replace(",", " ").split()]
    if len(found) != 2:
        raise ValueError(f"must be two numbers, lowest and highest, got {typed!r}")
    return found


def day(typed: str) -> date:
    """Return a date."""
    try:
        return date.fromisoformat(typed)
    except ValueError as error:
        raise ValueError(f"must be a date like 2026-12-01, got {typed!r}") from error


def absent(kind: str, values: Sequence[Label], typed: str) -> Any:
    """Return what an epoch without a record is reported as; None for silence."""
    if typed == NOTHING:
        return None
    if kind == "boolean":
        return yes(typed)
    if kind == "number":
        return number(typed)
    if kind == "multi_select":
        return [] if typed == "none" else [label_of(values, each) for each in texts(typed)]
    return label_of(values, typed)

"""Utilities: how good each response is for each value, as a table of exact numbers."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from client_sdk.errors import OptionError
from client_sdk.mechanisms.thresholds import exact

MOST_TABLE_VALUES = 64
"""Of a domain with a written utility; its channel takes a device a tenth of a second to solve."""
_SMALLEST, _LARGEST = Decimal("1e-9"), Decimal(10**9)

Utility = tuple[tuple[Fraction | int, ...], ...]
"""u(x, y), row x, square."""


def distance(domain: int) -> Utility:
    """Return u(x, y) = -|x - y|."""
    return tuple(tuple(-abs(x - y) for y in range(domain)) for x in range(domain))


def checked_utility(written: Any, domain: int) -> Utility:
    """Return the utility that a file writes as a list of rows.

    Raises:
        OptionError: It is no square table of numbers that fits the domain.
    """
    if domain > MOST_TABLE_VALUES:
        raise OptionError(
            "utility", f'must be "distance" above {MOST_TABLE_VALUES} values', f"{domain} values"
        )
    rows = written if isinstance(written, list) else []
    if len(rows) != domain or not all(isinstance(r, list) and len(r) == domain for r in rows):
        rule = f'must be "distance" or {domain} rows of {domain} numbers, one per response'
        raise OptionError("utility", rule, written)
    return tuple(tuple(_entry(number) for number in row) for row in rows)


def sensitivity(utility: Utility) -> Fraction:
    """Return Delta, the most by which one response's utility changes with the input."""
    return Fraction(max(max(column) - min(column) for column in zip(*utility, strict=True)))


def readable(utility: Utility) -> list[list[float]]:
    """Return the table for an error message."""
    return [[float(number) for number in row] for row in utility]


def _entry(number: Any) -> Fraction:
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise OptionError("utility", "must hold numbers only", number)
    size = Decimal(number).copy_abs()
    # Exact arithmetic on 1e999999 would not end.
    if not (size.is_finite() and (size == 0 or _SMALLEST <= size <= _LARGEST)):
        raise OptionError("utility", "must hold 0 or numbers of size 1e-9 to 1e9", number)
    return exact(number)

"""A table of metrics.toml from which each key is taken once, checked; what is left is unknown.

Strict on purpose: a misspelt key would otherwise silently mean a default epsilon.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from client_sdk.errors import RegistryError
from client_sdk.metric import FOREVER, Label

MOST_VALUES = 4096
MOST_INTEGER = 2**53 - 1  # what every JSON reader keeps exact
LARGEST = Decimal("1e30")
SMALLEST = Decimal("1e-30")
_REQUIRED = object()
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
"""C0, DEL, C1 and what no XML may hold: they end programs that draw a text, or show another."""


class Table:
    """A TOML table from which each key is taken once, checked; what is left is unknown."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self.path = path
        self.values = dict(values)

    def key(self, name: str) -> str:
        """Return the full name of a key of this table."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, rule: str, value: object) -> RegistryError:
        """Return the error that names key, rule and value."""
        return RegistryError(self.key(name), rule, value)

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """Remove and return a value of any type."""
        value = self.values.pop(name, default)
        if value is _REQUIRED:
            raise self.fail(name, "is required", None)
        return value

    def take_text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(name, "must be a text", value)
        self.refuse_control_characters(name, [value])
        return value

    def take_choice(self, name: str, choices: Sequence[Any], default: Any = _REQUIRED) -> Any:
        value = self.take(name, default)
        if isinstance(value, bool) or value not in choices:
            raise self.fail(name, f"must be one of {', '.join(map(str, choices))}", value)
        return value

    def take_integer(self, name: str, least: int, most: int, default: Any = _REQUIRED) -> int:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(name, f"must be an integer in {least}..{most}", value)
        return value

    def take_boolean(self, name: str, default: bool) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "must be true or false", value)
        return value

    def take_number(self, name: str, default: Any = _REQUIRED) -> Decimal | None:
        value = self.take(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.fail(name, "must be a number", value)
        small = isinstance(value, Decimal) or value.bit_length() < 128
        number = Decimal(value) if small else LARGEST + 1
        size = number.copy_abs()
        if not number.is_finite() or not (size == 0 or SMALLEST <= size <= LARGEST):
            raise self.fail(name, f"must be 0 or of size {SMALLEST} to {LARGEST}", value)
        return number

    def take_epsilon(self, name: str, most: Decimal = Decimal(40)) -> Decimal:
        value = self.take_number(name)
        assert value is not None
        if not 0 < value <= most:
            raise self.fail(name, f"must be positive and at most {most}", value)
        return value

    def take_date(self, name: str, default: Any = _REQUIRED) -> date:
        value = self.take(name, default)
        if isinstance(value, datetime) or not isinstance(value, date):
            raise self.fail(name, "must be a date like 2026-12-01", value)
        if not 1970 <= value.year <= FOREVER.year:
            raise self.fail(name, f"must lie in 1970..{FOREVER.year}", value)
        return value

    def take_texts(self, name: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        value = self.take(name, default)
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise self.fail(name, "must be a list of texts", value)
        self.refuse_control_characters(name, value)
        if len(set(value)) != len(value):
            raise self.fail(name, "must not repeat a value", value)
        return tuple(value)

    def take_values(self, name: str) -> tuple[Label, ...]:
        """Remove and return the list of a closed domain's values."""
        values = self.take(name)
        if not isinstance(values, list) or not 2 <= len(values) <= MOST_VALUES:
            raise self.fail(name, f"must be a list of 2 to {MOST_VALUES} values", values)
        texts = all(type(v) is str and v for v in values)
        if not (texts or all(type(v) is int and abs(v) <= MOST_INTEGER for v in values)):
            raise self.fail(name, "must be all texts or all integers below 2**53", values)
        self.refuse_control_characters(name, values)
        if len(set(values)) != len(values):
            raise self.fail(name, "must not repeat a value", values)
        return tuple(values)

    def take_table(self, name: str, default: Any = _REQUIRED) -> "Table":
        value = self.take(name, default)
        if not isinstance(value, dict):
            raise self.fail(name, "must be a table", value)
        return Table(self.key(name), value)

    def refuse_control_characters(self, name: str, values: Iterable[object]) -> None:
        """Raise for the first text that holds what nobody can see."""
        for value in values:
            if isinstance(value, str) and _UNPRINTABLE.search(value):
                rule = "must hold no control characters (U+0000-1F, U+007F-9F, U+FFFE, U+FFFF)"
                raise self.fail(name, rule, value)

    def refuse_for_now(self, name: str, what: str) -> None:
        """Refuse a key of the design that this version does not carry out."""
        if name in self.values:
            raise self.fail(
                name, f"{what} are not supported by this version; remove it", self.take(name)
            )

    def finish(self) -> None:
        """Raise for the first key that nobody took."""
        for name, value in self.values.items():
            raise self.fail(name, "is not a known key", value)

"""From answers to a [metrics.NAME] entry as TOML, and to the metric that it declares."""

import json
import re
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from client_sdk import Registry, loads
from client_sdk.errors import RegistryError
from client_sdk.metric import FOREVER, Metric

Answers = Mapping[str, Any]
"""By keys of metrics.toml, and a few that only planning needs."""

LARGEST_LIFETIME = Decimal(1000)
"""The most that a file may grant: entries without a file are checked against it."""

KEYS = (
    "question",
    "type",
    "values",
    "catch_all",
    "range",
    "buckets",
    "most",
    "missing",
    "candidates",
    "sensitivity",
    "epsilon",
    "memoize",
    "mechanism",
    "epoch",
    "every",
    "sample",
    "when_absent",
    "min_reports",
    "owners",
    "starts",
    "expires",
)
"""In the order in which they are written."""

_NOT_WRITTEN = {"every": 1, "sample": Decimal(1)}
_CHANGES = (
    "# That a value changed is sensitive here, so nothing is remembered: leave memoize out.\n"
)


def table_of(answers: Answers) -> dict[str, Any]:
    """Return the keys and values of the entry, as far as they have been answered."""
    table = {key: answers[key] for key in KEYS if answers.get(key) is not None}
    if answers.get("remember") and "distinct_values" in answers:
        table["memoize"] = {
            "epsilon_permanent": answers["epsilon_permanent"],
            "distinct_values": answers["distinct_values"],
            "change_is_sensitive": False,
        }
    usual = [key for key, value in _NOT_WRITTEN.items() if table.get(key) == value]
    return {key: table[key] for key in KEYS if key in table and key not in usual}


def entry_of(answers: Answers) -> str:
    """Return the whole entry as text."""
    return _entry(answers["name"], table_of(answers), bool(answers.get("change_is_sensitive")))


def file_of(answers: Answers) -> str:
    """Return a new file that holds the entry alone."""
    return project_of(answers) + "\n" + entry_of(answers)


def project_of(answers: Answers) -> str:
    """Return the head of a new file."""
    project = {
        "name": answers["project"],
        "lifetime_epsilon": answers["lifetime_epsilon"],
        "contact": answers["contact"],
    }
    return f"schema = 1\n\n[project]\n{_lines(project)}"


def alone(answers: Answers, today: date) -> Registry:
    """Return the entry as the only one of a file; what is not answered yet is made up.

    Raises:
        RegistryError: An answer breaks a rule.
    """
    head = {"project": "entry", "contact": "entry@example.org"} | {
        key: answers[key] for key in ("project", "contact", "lifetime_epsilon") if key in answers
    }
    made_up = _made_up(answers, today)
    table = table_of(answers)
    table = {key: {**made_up, **table}[key] for key in KEYS if key in made_up or key in table}
    text = project_of({"lifetime_epsilon": LARGEST_LIFETIME, **head})
    return loads(text + _entry(answers.get("name", "entry"), table))


def metric_of(answers: Answers, today: date) -> Metric:
    """Return the metric that the answers declare so far; see `alone`."""
    (metric,) = alone(answers, today).metrics.values()
    return metric


def _made_up(answers: Answers, today: date) -> dict[str, Any]:
    table: dict[str, Any] = {
        "question": "What will be asked here?",
        "type": "boolean",
        "sensitivity": "product",
        "epoch": "week",
        "epsilon": min(Decimal(1), answers.get("epsilon_permanent", Decimal(2)) / 2),
        "starts": today,
    }
    # One report fits into any budget; whether all do is known when their number is.
    table["expires"] = min(answers.get("starts", today), FOREVER) + timedelta(days=1)
    kind = answers.get("type")
    if kind in ("category", "ordinal", "multi_select"):
        table["values"] = ["one", "another"]
        first = answers.get("values", table["values"])
        if kind == "category":
            table["catch_all"] = first[-1]
        if kind == "ordinal":
            table["missing"] = first[0]
    if kind == "number":
        table["range"] = [Decimal(0), Decimal(1)]
        table["missing"] = answers.get("range", table["range"])[0]
        if not answers.get("buckets"):
            table["mechanism"] = "one_bit_mean"
    if kind == "string" and "memoize" not in table_of(answers):
        table["mechanism"] = "count_mean_sketch"
    return table


def _entry(name: str, table: Mapping[str, Any], changes: bool = False) -> str:
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
    return f"[metrics.{key}]\n{_CHANGES if changes else ''}{_lines(table)}"


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in table.items())


def toml(value: Any) -> str:
    """Return a value as TOML: texts, numbers, dates, lists, and tables of them in one line.

    Raises:
        RegistryError: A text that no file can hold (half of a surrogate pair).
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Decimal):
        plain = f"{value:f}"
        return plain if "." in plain else f"{plain}.0"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(int(value))


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RegistryError("metrics.toml", "must be UTF-8", ascii(text)) from error
    # Both JSON and TOML escape so, but TOML forbids a bare U+007F.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

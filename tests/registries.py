"""Texts of metrics.toml for tests that do not care what is asked: a head, and common tables."""

from typing import Any


def registry(*tables: str, name: str = "shop-app", lifetime: object = 1000, head: str = "") -> str:
    """A whole file.

    Args:
        tables: Of metrics.
        name: Of the project.
        lifetime: Its lifetime epsilon.
        head: Further lines of the project's table.
    """
    project = (
        f'schema = 1\n[project]\n{head}\nname = "{name}"\nlifetime_epsilon = {lifetime}\n'
        'contact = "telemetry@example.org"\n'
    )
    return "\n".join((project, *tables, ""))


def theme(*values: str, **keys: Any) -> str:
    """A question with some answers, light, dark and other unless told otherwise."""
    listed = values or ("light", "dark", "other")
    own = {"values": list(listed), "catch_all": "other"}
    return _table("theme", "Which theme is active?", "category", own | keys)


def crashed(**keys: Any) -> str:
    """A yes/no question."""
    return _table("crashed", "Did the app crash?", "boolean", keys)


def load_seconds(name: str = "load_seconds", kind: str = "number", **keys: Any) -> str:
    """A number, or an ordinal, of which a test says how it is measured."""
    own = {"missing": 0} | keys
    return _table(name, "How many seconds did the app take to start?", kind, own)


def home_page(**keys: Any) -> str:
    """A string that is remembered."""
    memory = {"epsilon_permanent": 4.0, "distinct_values": 2}
    own = {"sensitivity": "location", "memoize": memory} | keys
    return _table("home_page", "Which site is the start page?", "string", own)


def _table(name: str, question: str, kind: str, keys: dict[str, Any]) -> str:
    usual: dict[str, Any] = {
        "sensitivity": "product",
        "epsilon": 1.0,
        "epoch": "week",
        "owners": ["ui-team@example.org"],
        "starts": Date("2026-11-02"),
        "expires": Date("2027-12-31"),
    }
    lines = [f"[metrics.{name}]", f'question = "{question}"', f'type = "{kind}"']
    return "\n".join([*lines, *(f"{key} = {_toml(text)}" for key, text in (usual | keys).items())])


class Date(str):
    """A date, which TOML writes without quotes."""


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str) and not isinstance(value, Date):
        return f'"{value}"'
    return str(value)

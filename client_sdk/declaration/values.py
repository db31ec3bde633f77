"""What a metric's values are: the keys of its type that shape the domain."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from client_sdk.declaration.table import MOST_VALUES, Table
from client_sdk.mechanisms import CATALOGUE, Encoding
from client_sdk.metric import Label, Metric, MetricType, normalized, position

MOST_OPTIONS = 256
ORDERED: tuple[MetricType, ...] = ("ordinal", "number")
"""Types whose values have an order."""


def _boolean(table: Table) -> dict[str, Any]:
    missing = table.take("missing", False)
    if not isinstance(missing, bool):
        raise table.fail("missing", "must be true or false", missing)
    return {"labels": (False, True), "missing": int(missing)}


def _category(table: Table) -> dict[str, Any]:
    labels = table.take_values("values")
    catch_all = _index(table, "catch_all", labels, table.take("catch_all"))
    missing = _index(table, "missing", labels, table.take("missing", labels[catch_all]))
    return {"labels": labels, "catch_all": catch_all, "missing": missing}


def _ordinal(table: Table) -> dict[str, Any]:
    labels = table.take_values("values")
    return {"labels": labels, "missing": _index(table, "missing", labels, table.take("missing"))}


def _index(table: Table, key: str, labels: tuple[Label, ...], label: object) -> int:
    for index, candidate in enumerate(labels):
        if type(candidate) is type(label) and candidate == label:
            return index
    raise table.fail(key, "must be one of values", label)


def _number(table: Table) -> dict[str, Any]:
    bounds = table.take("range")
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise table.fail("range", "must be [lowest, highest]", bounds)
    edges = Table(table.key("range"), {"lowest": bounds[0], "highest": bounds[1]})
    low, high = edges.take_number("lowest"), edges.take_number("highest")
    assert low is not None and high is not None
    if low >= high:
        raise table.fail("range", "must ascend", bounds)
    missing = table.take_number("missing")
    assert missing is not None
    if not low <= missing <= high:
        raise table.fail("missing", "must lie in range", missing)
    if encoding_of(table, "number") == "number":
        return {"edges": (low, high), "missing": position(missing, low, high)}
    if "buckets" not in table.values:
        means = sorted(name for name, kind in CATALOGUE.items() if kind.encodes == "number")
        rule = f"is required, but for the mechanisms that measure a mean ({', '.join(means)})"
        raise table.fail("buckets", rule, None)
    buckets = table.take_integer("buckets", 2, MOST_VALUES)
    cuts = (*(low + (high - low) * step / buckets for step in range(buckets)), high)
    spans = list(pairwise(cuts))
    labels = tuple(f"[{a.normalize():f}, {b.normalize():f})" for a, b in spans[:-1])
    labels += (f"[{spans[-1][0].normalize():f}, {high.normalize():f}]",)
    bucket = sum(1 for cut in cuts[1:-1] if missing >= cut)
    return {"labels": labels, "edges": cuts, "missing": bucket}


def encoding_of(table: Table, kind: MetricType) -> Encoding:
    """Return what a value of a metric's type is; of a number that depends on its mechanism."""
    if kind == "number":
        chosen = table.values.get("mechanism")
        name = chosen.get("name") if isinstance(chosen, dict) else chosen
        mechanism = CATALOGUE.get(name) if isinstance(name, str) else None
        return "one" if mechanism is None or mechanism.encodes != "number" else "number"
    if kind == "string":
        return "string"
    return "several" if kind == "multi_select" else "one"


def _multi_select(table: Table) -> dict[str, Any]:
    labels = table.take_values("values")
    if len(labels) > MOST_OPTIONS:
        raise table.fail("values", f"must be a list of 2 to {MOST_OPTIONS} values", list(labels))
    most = table.take_integer("most", 1, len(labels), len(labels))
    return {"labels": labels, "most": most, "missing": 0}


def _string(table: Table) -> dict[str, Any]:
    missing = table.take("missing", "")
    if not isinstance(missing, str):
        raise table.fail("missing", "must be a text", missing)
    table.refuse_control_characters("missing", [missing])
    candidates = tuple(normalized(text) for text in table.take_texts("candidates", []))
    if len(set(candidates)) != len(candidates):
        raise table.fail("candidates", "must stay distinct in Unicode NFC", list(candidates))
    return {"missing": normalized(missing), "candidates": candidates}


DOMAINS: dict[MetricType, Callable[[Table], dict[str, Any]]] = {
    "boolean": _boolean,
    "category": _category,
    "ordinal": _ordinal,
    "number": _number,
    "string": _string,
    "multi_select": _multi_select,
}

_TYPES_OF: dict[str, tuple[MetricType, ...]] = {
    "values": ("category", "ordinal", "multi_select"),
    "catch_all": ("category",),
    "range": ("number",),
    "buckets": ("number",),
    "most": ("multi_select",),
    "candidates": ("string",),
    "rappor": ("string",),
}


def refuse_keys_of_others(table: Table, metric: Metric) -> None:
    """Raise for the first key left that only metrics of another kind have."""
    for name in table.values.keys() & _TYPES_OF.keys():
        types = _TYPES_OF[name]
        of = " and ".join(types)
        rule = f"is not a known key of type {metric.type}, only of {of}: remove it"
        if metric.type in types:
            rule = f"is not a known key with {metric.mechanism.name}, which does without: remove it"
        raise table.fail(name, rule, table.take(name))

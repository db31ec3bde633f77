"""Tally documents: a metric's definition and its counts in one JSON file, for offline estimates.

Strict: a misspelt field would silently mean a default, and a count that cannot be would become
an estimate that looks like one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from aggregator.tally import Tally
from client_sdk.declaration.values import ORDERED
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import CATALOGUE, Declared, Encoding, Mechanism, build
from client_sdk.metric import Label, normalized
from estimator.errors import DocumentError

_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "boolean": ((), ("values",)),
    "category": (("values",), ()),
    "ordinal": (("values",), ()),
    "number": ((), ("values", "range", "edges")),
    "string": (("candidates",), ()),
    "multi_select": (("values",), ("most",)),
}
"""What a metric of each type must have, and may have."""
MOST_COUNT = 2**53 - 1
"""Above this JSON numbers are no longer exact everywhere."""
MOST_DIGITS = 100


@dataclass(frozen=True)
class TallyDocument:
    """A metric without a registry, and what was counted for it.

    Attributes:
        type: As in a registry.
        labels: The closed domain in order, empty for strings.
        candidates: For strings, what to look for.
        edges: For numbers, all bucket edges where known; without buckets the ends of the range.
        mechanism: The channel.
        tally: The counts, in the mechanism's shape.
    """

    type: str
    labels: tuple[Label, ...]
    candidates: tuple[str, ...]
    edges: tuple[Decimal, ...]
    mechanism: Mechanism
    tally: Tally


class _Metric(NamedTuple):
    kind: str
    labels: tuple[Label, ...]
    candidates: tuple[str, ...]
    edges: tuple[Decimal, ...]
    mechanism: Mechanism


def parse(text: str) -> TallyDocument:
    """Read the text of a tally document.

    Raises:
        DocumentError: The text is no JSON object or breaks a rule.
    """
    try:
        document = json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_no_repeats,
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise DocumentError("document", f"must be JSON ({error})", text[:40]) from error
    except ValueError as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError("document", "must not hold a number this long", text[:40]) from error
    fields = _fields("document", document, required=("metric", "reports", "counts"))
    metric = _metric(fields["metric"])
    tally = _tally(metric.mechanism, fields["reports"], fields["counts"])
    return TallyDocument(*metric, tally)


def _no_constant(name: str) -> Any:
    raise DocumentError("document", "must hold finite numbers only", name)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DocumentError(repeated, "must not be written twice", repeated)
    return fields


def _fields(
    where: str, value: Any, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    prefix = "" if where == "document" else where + "."
    if not isinstance(value, dict):
        raise DocumentError(where, "must be an object", value)
    for name in value:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise DocumentError(prefix + name, f"is not one of {known}", value[name])
    for name in required:
        if name not in value:
            raise DocumentError(prefix + name, "is required", None)
    return value


def _metric(value: Any) -> _Metric:
    given = value.get("type") if isinstance(value, dict) else None
    kind = next((known for known in _KEYS if known == given), "")
    if isinstance(value, dict) and not kind:
        raise DocumentError("metric.type", f"must be one of {', '.join(_KEYS)}", given)
    needed, optional = _KEYS.get(kind, ((), ()))
    fields = _fields("metric", value, ("type", "mechanism", *needed), ("name", *optional))
    if not isinstance(fields.get("name", ""), str):
        raise DocumentError("metric.name", "must be a text", fields["name"])
    labels: tuple[Label, ...] = ()
    if kind == "boolean":
        labels = (False, True)
        if "values" in fields and not _same(fields["values"], [False, True]):
            raise DocumentError(
                "metric.values", "of a boolean must be [false, true]", fields["values"]
            )
    elif "values" in fields:
        labels = _labels(fields["values"])
    edges = _range(fields["range"]) if "range" in fields else ()
    if kind == "number" and bool(labels) == bool(edges):
        raise DocumentError("metric.values", "must be given, or range, for a number", None)
    if "edges" in fields:
        edges = _edges(fields["edges"], labels)
    candidates = _candidates(fields["candidates"]) if kind == "string" else ()
    options = {"most": fields.get("most", len(labels))} if kind == "multi_select" else {}
    mechanism = _mechanism(fields["mechanism"], _encoding(kind, labels), labels, options)
    if mechanism.ordered and kind not in ORDERED:
        rule = f"must be {' or '.join(ORDERED)} for {mechanism.name}"
        raise DocumentError("metric.type", rule, kind)
    return _Metric(kind, labels, candidates, edges, mechanism)


def _same(value: Any, wanted: list[bool]) -> bool:
    return isinstance(value, list) and [v is True for v in value] == wanted == value


def _labels(values: Any) -> tuple[Label, ...]:
    field = "metric.values"
    if not isinstance(values, list) or len(values) < 2:
        raise DocumentError(field, "must be a list of at least 2 values", values)
    if not (all(type(v) is str and v for v in values) or all(type(v) is int for v in values)):
        raise DocumentError(field, "must be all texts or all integers", values)
    if len(set(values)) != len(values):
        raise DocumentError(field, "must not repeat a value", values)
    return tuple(values)


def _candidates(values: Any) -> tuple[str, ...]:
    field = "metric.candidates"
    if not isinstance(values, list) or not values or not all(type(v) is str for v in values):
        raise DocumentError(field, "must be a list of texts, at least one", values)
    candidates = tuple(normalized(value) for value in values)
    if len(set(candidates)) != len(candidates):
        raise DocumentError(field, "must stay distinct in Unicode NFC", values)
    return candidates


def _encoding(kind: str, labels: tuple[Label, ...]) -> Encoding:
    if kind == "string":
        return "string"
    if kind == "multi_select":
        return "several"
    return "one" if labels else "number"


def _range(value: Any) -> tuple[Decimal, ...]:
    field = "metric.range"
    if not isinstance(value, list) or len(value) != 2:
        raise DocumentError(field, "must be [lowest, highest]", value)
    low, high = (Decimal(_number(f"{field}[{i}]", end)) for i, end in enumerate(value))
    if low >= high:
        raise DocumentError(field, "must ascend", value)
    return low, high


def _edges(value: Any, labels: tuple[Label, ...]) -> tuple[Decimal, ...]:
    field, buckets = "metric.edges", len(labels)
    if not labels or not isinstance(value, list) or len(value) != buckets + 1:
        raise DocumentError(field, f"must be {buckets + 1} edges of the {buckets} values", value)
    edges = tuple(Decimal(_number(f"{field}[{i}]", edge)) for i, edge in enumerate(value))
    if any(low >= high for low, high in pairwise(edges)):
        raise DocumentError(field, "must ascend", value)
    return edges


def _mechanism(
    value: Any, encodes: Encoding, labels: tuple[Label, ...], options: dict[str, Any]
) -> Mechanism:
    where = "metric.mechanism"
    if not isinstance(value, dict):
        raise DocumentError(where, "must be an object", value)
    if "name" not in value:
        raise DocumentError(f"{where}.name", "is required", None)
    name = value["name"]
    if not isinstance(name, str):
        raise DocumentError(f"{where}.name", "must be a text", name)
    known = sorted(each.name for each in CATALOGUE.values() if each.encodes == encodes)
    if name not in known:
        raise DocumentError(f"{where}.name", f"must be one of {', '.join(known)}", name)
    written = {
        key: each if isinstance(each, list | str | bool) else _number(f"{where}.{key}", each)
        for key, each in value.items()
        if key != "name"
    }
    losses = {
        key: _number(f"{where}.{key}", value[key])
        for key in ("epsilon", "epsilon_permanent")
        if written.pop(key, None) is not None
    }
    declared = Declared(len(labels) or None, **losses, options={**written, **options})
    try:
        mechanism = build(name, declared)
    except OptionError as error:
        raise DocumentError(f"{where}.{error.option}", error.rule, error.value) from error
    except ParameterError as error:
        raise DocumentError(where, str(error), value) from error
    if not mechanism.epsilon.is_finite():
        raise DocumentError(where, "must have a finite epsilon", value)
    return mechanism


def _tally(mechanism: Mechanism, reports: Any, counts: Any) -> Tally:
    cohorts, cells = mechanism.cohorts, mechanism.cells
    _list("reports", reports, cohorts, "one entry per cohort")
    _list("counts", counts, cohorts, "one row per cohort")
    for cohort, row in enumerate(counts):
        n = _integer(f"reports[{cohort}]", reports[cohort], 0, MOST_COUNT // cohorts)
        _list(f"counts[{cohort}]", row, cells, "one count per cell")
        for cell, count in enumerate(row):
            field = f"counts[{cohort}][{cell}]"
            _integer(field, count, 0, MOST_COUNT)
            if count > n:
                raise DocumentError(field, f"must not exceed reports[{cohort}] = {n}", count)
        if mechanism.kind == "cell" and sum(row) != n:
            rule = f"must add up to reports[{cohort}] = {n}: each report counts in one cell"
            raise DocumentError(f"counts[{cohort}]", rule, sum(row))
    return Tally(np.array(reports, np.int64), np.array(counts, np.int64))


def _list(field: str, value: Any, length: int, meaning: str) -> None:
    if not isinstance(value, list) or len(value) != length:
        size = len(value) if isinstance(value, list) else value
        raise DocumentError(field, f"must be a list of {length}, {meaning}", size)


def _integer(field: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DocumentError(field, f"must be an integer in {least}..{most}", value)
    return value


def _number(field: str, value: Any) -> Decimal | int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise DocumentError(field, "must be a number", value)
    # Exact arithmetic on 1e999999999 would not end.
    if isinstance(value, Decimal) and not -MOST_DIGITS < int(value.as_tuple().exponent) < 3:
        raise DocumentError(field, f"must be written with at most {MOST_DIGITS} decimals", value)
    return value

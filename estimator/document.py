"""Tally documents: a metric's definition and its counts in one JSON file, for offline estimates.

Strict: a misspelt field would silently mean a default, and a count that cannot be would become
an estimate that looks like one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from aggregator.tally import Tally
from client_sdk.errors import ParameterError
from client_sdk.mechanisms import Mechanism, Rappor, build
from client_sdk.metric import Label, normalized
from estimator.errors import DocumentError

TYPES = ("boolean", "category", "ordinal", "number", "string")
MOST_COUNT = 2**53 - 1
"""Above this JSON numbers are no longer exact everywhere."""
MOST_COHORTS = 65536
MOST_DIGITS = 100


@dataclass(frozen=True)
class TallyDocument:
    """A metric without a registry, and what was counted for it.

    Attributes:
        type: As in a registry.
        labels: The closed domain in order, empty for strings.
        candidates: For strings, what to look for.
        mechanism: The channel.
        tally: The counts, in the mechanism's shape.
    """

    type: str
    labels: tuple[Label, ...]
    candidates: tuple[str, ...]
    mechanism: Mechanism
    tally: Tally


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
    kind, labels, candidates, mechanism = _metric(fields["metric"])
    return TallyDocument(
        kind, labels, candidates, mechanism, _tally(mechanism, fields["reports"], fields["counts"])
    )


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


def _metric(value: Any) -> tuple[str, tuple[Label, ...], tuple[str, ...], Mechanism]:
    kind = value.get("type") if isinstance(value, dict) else None
    closed = kind not in ("string", "boolean")
    required = ["type", "mechanism"]
    required += ["values"] if closed else ["candidates"] if kind == "string" else []
    optional = ["name", "values"] if kind == "boolean" else ["name"]
    fields = _fields("metric", value, required, optional)
    if kind not in TYPES:
        raise DocumentError("metric.type", f"must be one of {', '.join(TYPES)}", kind)
    if not isinstance(fields.get("name", ""), str):
        raise DocumentError("metric.name", "must be a text", fields["name"])
    if kind == "string":
        candidates = _candidates(fields["candidates"])
        return kind, (), candidates, _rappor(fields["mechanism"])
    labels: tuple[Label, ...] = (False, True)
    if closed:
        labels = _labels(fields["values"])
    elif "values" in fields and not _same(fields["values"], [False, True]):
        raise DocumentError("metric.values", "of a boolean must be [false, true]", fields["values"])
    return kind, labels, (), _closed_mechanism(fields["mechanism"], len(labels))


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


def _closed_mechanism(value: Any, domain: int) -> Mechanism:
    where = "metric.mechanism"
    fields = _fields(where, value, ("name",), ("epsilon", "p_true", "p_false"))
    numbers = {name: _number(f"{where}.{name}", fields[name]) for name in fields if name != "name"}
    if not isinstance(fields["name"], str):
        raise DocumentError(f"{where}.name", "must be a text", fields["name"])
    try:
        mechanism = build(fields["name"], domain=domain, **numbers)
    except ParameterError as error:
        raise DocumentError(where, str(error), value) from error
    return mechanism


def _rappor(value: Any) -> Rappor:
    where = "metric.mechanism"
    losses, probabilities = ("epsilon", "epsilon_permanent"), ("f", "p", "q")
    shape = ("bits", "hashes", "cohorts")
    fields = _fields(where, value, ("name", *shape), (*losses, *probabilities))
    if fields["name"] != Rappor.name:
        raise DocumentError(f"{where}.name", f"must be {Rappor.name} for strings", fields["name"])
    sizes = [_integer(f"{where}.{name}", fields[name], 1, MOST_COHORTS) for name in shape]
    numbers = {
        name: _number(f"{where}.{name}", fields[name])
        for name in (*losses, *probabilities)
        if name in fields
    }
    try:
        mechanism = _rappor_from(sizes, numbers)
    except ParameterError as error:
        raise DocumentError(where, str(error), value) from error
    if mechanism is None:
        raise DocumentError(where, "must have f, p and q, or epsilon and epsilon_permanent", value)
    if not mechanism.epsilon.is_finite():
        raise DocumentError(where, "must have a finite epsilon", value)
    return mechanism


def _rappor_from(sizes: Sequence[int], numbers: dict[str, Decimal | int]) -> Rappor | None:
    bits, hashes, cohorts = sizes
    if set(numbers) == {"f", "p", "q"}:
        f, p, q = (numbers[name] for name in ("f", "p", "q"))
        return Rappor(bits, hashes, cohorts, f=f, p=p, q=q)
    if not {"epsilon", "epsilon_permanent"} <= set(numbers):
        return None
    return Rappor.from_epsilons(
        bits,
        hashes,
        cohorts,
        epsilon=numbers["epsilon"],
        epsilon_permanent=numbers["epsilon_permanent"],
        f=numbers.get("f"),
        p=numbers.get("p"),
        q=numbers.get("q"),
    )


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

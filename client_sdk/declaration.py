"""From one [metrics.NAME] table to a `Metric`: every key, its rule and its default.

Strict on purpose: a misspelt key would otherwise silently mean a default epsilon.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from client_sdk.epochs import LENGTHS
from client_sdk.errors import ParameterError, RegistryError, WrongType
from client_sdk.mechanisms import Mechanism, Rappor, Value, build, choose
from client_sdk.mechanisms.thresholds import written_up
from client_sdk.metric import FOREVER, Label, Memoize, Metric, normalized

TYPES = ("boolean", "category", "ordinal", "number", "string")
SENSITIVITIES = ("census", "health", "location", "product", "experiment", "public report")
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


def metric_from(name: str, table: Table, contact: str) -> Metric:
    """Build a metric from its table.

    Args:
        name: The metric's name.
        table: Its keys; all are taken.
        contact: Who owns the result unless the table says otherwise.

    Raises:
        RegistryError: A key is missing, unknown or breaks its rule.
    """
    question = table.take_text("question")
    kind = table.take("type")
    if kind == "discovery":
        raise table.fail("type", f"{kind} is not supported by this version; remove it", kind)
    if kind not in TYPES:
        raise table.fail("type", f"must be one of {', '.join(TYPES)}", kind)
    epsilon = table.take_epsilon("epsilon")
    domain = _DOMAINS[kind](table)
    memoize = _memoize(table, kind)
    if kind == "string":
        mechanism = _rappor(table, epsilon, memoize)
    else:
        mechanism = _closed_mechanism(table, max(2, len(domain["labels"])), epsilon)
    # Only a memoized share is the same however long the metric lives.
    endless = () if memoize is None else (date(1970, 1, 1), FOREVER)
    starts = table.take_date("starts", *endless[:1])
    expires = table.take_date("expires", *endless[1:])
    if expires <= starts:
        raise table.fail("expires", f"must lie after starts = {starts}", expires)
    owners = table.take_texts("owners", [contact])
    if not owners:
        raise table.fail("owners", "must name somebody who looks at the result", owners)
    length = table.take_choice("epoch", LENGTHS)
    metric = Metric(
        name=name,
        question=question,
        type=kind,
        mechanism=mechanism,
        epsilon=epsilon,
        epoch=length,
        starts=starts,
        expires=expires,
        sensitivity=table.take_choice("sensitivity", SENSITIVITIES),
        owners=owners,
        memoize=memoize,
        min_reports=table.take_integer("min_reports", 1, 10**9, 100),
        grace_days=table.take_integer("grace", 0, 31, 3),
        every=_every(table, length),
        sample=_sample(table),
        **domain,
    )
    metric = metric._replace(when_absent=_when_absent(table, metric))
    table.refuse_for_now("joint", "joint metrics")
    table.finish()
    return metric


def _every(table: Table, length: str) -> int:
    every = table.take_integer("every", 1, 1000, 1)
    if every > 1 and length == "once":
        raise table.fail("every", "must be 1 where epoch is once", every)
    return every


def _sample(table: Table) -> Decimal:
    sample = table.take_number("sample", Decimal(1))
    assert sample is not None
    if not Decimal("0.000001") <= sample <= 1:
        raise table.fail("sample", "must lie in 0.000001..1", sample)
    return sample


def _when_absent(table: Table, metric: Metric) -> Value | None:
    value = table.take("when_absent", None)
    if value is None:
        return None
    table.refuse_control_characters("when_absent", [value])
    if metric.epoch == "once" or metric.grace_days == 0:
        raise table.fail(
            "when_absent",
            "needs an epoch that repeats and a grace of at least a day: its reports leave after "
            "the epoch has ended",
            value,
        )
    try:
        encoded, clamped = metric.encode(value)
    except WrongType as error:
        raise table.fail(
            "when_absent", f"must be a value of the metric ({error})", value
        ) from error
    if clamped:
        raise table.fail("when_absent", "must be a value of the metric", value)
    return encoded


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
    buckets = table.take_integer("buckets", 2, MOST_VALUES)
    cuts = (*(low + (high - low) * step / buckets for step in range(buckets)), high)
    spans = list(pairwise(cuts))
    labels = tuple(f"[{a.normalize():f}, {b.normalize():f})" for a, b in spans[:-1])
    labels += (f"[{spans[-1][0].normalize():f}, {high.normalize():f}]",)
    missing = table.take_number("missing")
    assert missing is not None
    if not low <= missing <= high:
        raise table.fail("missing", "must lie in range", missing)
    bucket = sum(1 for cut in cuts[1:-1] if missing >= cut)
    return {"labels": labels, "edges": cuts, "missing": bucket}


def _string(table: Table) -> dict[str, Any]:
    missing = table.take("missing", "")
    if not isinstance(missing, str):
        raise table.fail("missing", "must be a text", missing)
    table.refuse_control_characters("missing", [missing])
    candidates = tuple(normalized(text) for text in table.take_texts("candidates", []))
    if len(set(candidates)) != len(candidates):
        raise table.fail("candidates", "must stay distinct in Unicode NFC", list(candidates))
    return {"missing": normalized(missing), "candidates": candidates}


_DOMAINS: dict[str, Callable[[Table], dict[str, Any]]] = {
    "boolean": _boolean,
    "category": _category,
    "ordinal": _ordinal,
    "number": _number,
    "string": _string,
}


def _memoize(table: Table, kind: str) -> Memoize | None:
    if "memoize" not in table.values:
        if kind == "string":
            raise table.fail("memoize", "is required: RAPPOR remembers its noise", None)
        return None
    if kind != "string":
        raise table.fail("memoize", "works with type string in this version", kind)
    inner = table.take_table("memoize")
    if inner.take_boolean("change_is_sensitive", False):
        raise inner.fail(
            "change_is_sensitive",
            "a metric whose changes are sensitive may not be memoized: a change shows over time",
            True,
        )
    memoize = Memoize(
        epsilon_permanent=inner.take_epsilon("epsilon_permanent"),
        distinct_values=inner.take_integer("distinct_values", 1, 1000),
    )
    inner.finish()
    return memoize


def _rappor(table: Table, epsilon: Decimal, memoize: Memoize | None) -> Mechanism:
    assert memoize is not None
    inner = table.take_table("rappor", {})
    shape = (
        inner.take_integer("bits", 1, 4096, 128),
        inner.take_integer("hashes", 1, 16, 2),
        inner.take_integer("cohorts", 1, 65536, 64),
    )
    f, p, q = (inner.take_number(key, None) for key in ("f", "p", "q"))
    inner.finish()
    try:
        mechanism = Rappor.from_epsilons(
            *shape,
            epsilon=epsilon,
            epsilon_permanent=memoize.epsilon_permanent,
            f=f,
            p=p,
            q=q,
        )
    except ParameterError as error:
        raise inner.fail("f, p, q", str(error), {"f": f, "p": p, "q": q}) from error
    assert mechanism.epsilon_permanent is not None
    if mechanism.epsilon_permanent > memoize.epsilon_permanent:
        raise table.fail(
            "memoize.epsilon_permanent",
            f"must be at least what f realises, {written_up(mechanism.epsilon_permanent)}",
            memoize.epsilon_permanent,
        )
    return _within(table, mechanism, epsilon)


def _closed_mechanism(table: Table, domain: int, epsilon: Decimal) -> Mechanism:
    chosen = table.take("mechanism", choose(domain, epsilon))
    inner = Table(table.key("mechanism"), chosen if isinstance(chosen, dict) else {"name": chosen})
    name = inner.take_text("name")
    p_true, p_false = inner.take_number("p_true", None), inner.take_number("p_false", None)
    inner.finish()
    written = p_true is not None or p_false is not None
    try:
        mechanism = build(
            name,
            domain=domain,
            epsilon=None if written else epsilon,
            p_true=p_true,
            p_false=p_false,
        )
    except ParameterError as error:
        raise table.fail("mechanism", str(error), chosen) from error
    return _within(table, mechanism, epsilon)


def _within(table: Table, mechanism: Mechanism, epsilon: Decimal) -> Mechanism:
    if mechanism.epsilon > epsilon:
        raise table.fail(
            "epsilon",
            f"must be at least what its channel loses, {written_up(mechanism.epsilon)}",
            epsilon,
        )
    return mechanism

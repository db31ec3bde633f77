"""How a metric is randomized: the keys that choose its mechanism and what it may remember."""

from decimal import Decimal
from typing import Any

from client_sdk.declaration.table import Table
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import (
    CATALOGUE,
    MEMOIZED,
    Declared,
    Mechanism,
    build,
    choose,
    choose_several,
)
from client_sdk.mechanisms.thresholds import written_up
from client_sdk.metric import Memoize


def channel_from(
    table: Table, encodes: str, domain: dict[str, Any], epsilon: Decimal, *, ordered: bool
) -> tuple[Mechanism, Memoize | None]:
    """Take `mechanism`, `memoize` and `rappor` of a metric's table.

    Args:
        table: The metric's.
        encodes: What a value of the metric is, see `Mechanism.encodes`.
        ordered: Whether its values have an order.
        domain: What the keys of its type have shaped: fields of `Metric`.
        epsilon: Allowed loss of one report.

    Raises:
        RegistryError: A key is missing, unknown or breaks its rule.
    """
    memoize = _memoize(table)
    key, chosen, asked, options = _chosen(table, encodes, domain, epsilon)
    name = asked if memoize is None else MEMOIZED.get(asked, asked)
    if name not in CATALOGUE or CATALOGUE[name].encodes != encodes:
        able = _able(encodes, domain, ordered=ordered)
        raise table.fail(key, f"must be one of {', '.join(able)} for this type", chosen)
    by_probability = {"p_true", "p_false"} & options.keys()
    for lacking in {"p_true", "p_false"} - options.keys() if by_probability else ():
        raise table.fail(f"{key}.{lacking}", f"is required beside {by_probability.pop()}", None)
    declared = Declared(
        domain=len(domain["labels"]) if domain.get("labels") else None,
        epsilon=None if by_probability else epsilon,
        epsilon_permanent=None if memoize is None else memoize.epsilon_permanent,
        options=options,
    )
    if memoize is None and CATALOGUE[name].memoizes:
        raise table.fail("memoize", f"is required: {name} remembers its noise", None)
    if memoize is not None and not CATALOGUE[name].memoizes:
        able = _able(encodes, domain, ordered=ordered)
        with_memory = [each for each in able if each in MEMOIZED or CATALOGUE[each].memoizes]
        rule = f"must be left out: {name} remembers nothing, nor does another mechanism here"
        if with_memory:
            rule = f"works with {', '.join(with_memory)} here; {name} remembers nothing"
        raise table.fail("memoize", rule, name)
    try:
        if asked != name:  # what is to be remembered must be able to take the values, too
            build(asked, declared._replace(epsilon=epsilon, options={}))
        mechanism = build(name, declared)
    except OptionError as error:
        of = "memoize" if error.option == "epsilon_permanent" else key
        raise table.fail(f"{of}.{error.option}", error.rule, error.value) from error
    except ParameterError as error:
        raise table.fail(key, str(error), chosen) from error
    return _within(table, mechanism, epsilon, memoize), memoize


def _chosen(
    table: Table, encodes: str, domain: dict[str, Any], epsilon: Decimal
) -> tuple[str, Any, str, dict[str, Any]]:
    """Return the key that says which mechanism it is, what it says, the name and the options."""
    if encodes == "string" and table.values.get("mechanism", "rappor") == "rappor":
        table.take("mechanism", None)
        inner = table.take_table("rappor", {})
        return "rappor", dict(inner.values), "rappor", _options(inner)
    chosen = table.take("mechanism", None)
    if chosen is None:
        chosen = _default(encodes, domain, epsilon)
    inner = Table(table.key("mechanism"), chosen if isinstance(chosen, dict) else {"name": chosen})
    name = inner.take_text("name")
    if encodes == "string" and "rappor" in table.values:
        rule = 'goes with mechanism = "rappor" alone: remove it'
        raise table.fail("rappor", rule, table.take("rappor"))
    options = _options(inner)
    if "most" in domain:
        if "most" in options:
            rule = "is a key of the metric, beside its values: move it there"
            raise inner.fail("most", rule, options["most"])
        options["most"] = domain["most"]
    return "mechanism", chosen, name, options


def _able(encodes: str, domain: dict[str, Any], *, ordered: bool) -> list[str]:
    """Return the names that a file may write for values like these, in order; loads them all."""
    two = len(domain.get("labels", ())) == 2
    return sorted(
        name
        for name, kind in CATALOGUE.items()
        if kind.encodes == encodes
        and name not in MEMOIZED.values()  # `memoize` makes these of others
        and (ordered or not kind.ordered)
        and (two or name != "randomized_response")
    )


def _default(encodes: str, domain: dict[str, Any], epsilon: Decimal) -> str:
    values = len(domain["labels"])
    if encodes == "several":
        return choose_several(values, domain["most"], epsilon)
    return choose(values, epsilon)


def _options(inner: Table) -> dict[str, Any]:
    """Take every key of a mechanism's table; numbers are checked for size."""
    options: dict[str, Any] = {}
    for key, value in list(inner.values.items()):
        number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        taken = inner.take_number(key) if number else inner.take(key)
        options[key] = value if isinstance(value, int) else taken
    return options


def _memoize(table: Table) -> Memoize | None:
    if "memoize" not in table.values:
        return None
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


def _within(
    table: Table, mechanism: Mechanism, epsilon: Decimal, memoize: Memoize | None
) -> Mechanism:
    permanent = mechanism.epsilon_permanent
    if memoize is not None and permanent is not None and permanent > memoize.epsilon_permanent:
        raise table.fail(
            "memoize.epsilon_permanent",
            f"must be at least what the remembered noise realises, {written_up(permanent)}",
            memoize.epsilon_permanent,
        )
    memories = mechanism.most_memories
    if memoize is not None and memories is not None and memoize.distinct_values > memories:
        raise table.fail(
            "memoize.distinct_values",
            f"must be at most {memories}: a device never needs more memories of {mechanism.name}",
            memoize.distinct_values,
        )
    if mechanism.epsilon > epsilon:
        raise table.fail(
            "epsilon",
            f"must be at least what its channel loses, {written_up(mechanism.epsilon)}",
            epsilon,
        )
    return mechanism

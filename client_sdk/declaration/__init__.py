"""From one [metrics.NAME] table to a `Metric`: every key, its rule and its default."""

from datetime import date
from decimal import Decimal

from client_sdk.declaration.channel import channel_from
from client_sdk.declaration.table import Table
from client_sdk.declaration.values import (
    DOMAINS,
    ORDERED,
    encoding_of,
    refuse_keys_of_others,
)
from client_sdk.epochs import LENGTHS
from client_sdk.errors import WrongType
from client_sdk.mechanisms import Value
from client_sdk.metric import FOREVER, Metric, MetricType

SENSITIVITIES = ("census", "health", "location", "product", "experiment", "public report")

__all__ = ["SENSITIVITIES", "Table", "metric_from"]


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
    kind = _type(table)
    epsilon = table.take_epsilon("epsilon")
    encodes = encoding_of(table, kind)
    domain = DOMAINS[kind](table)
    mechanism, memoize = channel_from(table, encodes, domain, epsilon, ordered=kind in ORDERED)
    if mechanism.ordered and kind not in ORDERED:
        rule = f"must be {' or '.join(ORDERED)}: {mechanism.name} takes neighbours for alike"
        raise table.fail("type", rule, kind)
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
    refuse_keys_of_others(table, metric)
    table.finish()
    return metric


def _type(table: Table) -> MetricType:
    given = table.take("type")
    for known in DOMAINS:
        if given == known:
            return known
    if given == "discovery":
        raise table.fail("type", f"{given} is not supported by this version; remove it", given)
    raise table.fail("type", f"must be one of {', '.join(DOMAINS)}", given)


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

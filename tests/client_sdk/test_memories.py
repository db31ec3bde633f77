"""What a device remembers of closed domains, and what it pays for: values that share a memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Registry
from client_sdk.changes import changes
from client_sdk.mechanisms import build
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin, PrfStream
from client_sdk.recorder import Recorder, device_cohort
from client_sdk.state import State

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01
VALUES = ["light", "dark", "system", "solar", "sepia", "other"]
TABLE = """
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "solar", "sepia", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1
memoize = {{ epsilon_permanent = {permanent}, distinct_values = {memories} }}
mechanism = {mechanism}
when_absent = "other"
epoch = "day"
"""
MECHANISMS = [
    '"generalized_randomized_response"',
    '"symmetric_unary"',
    '"optimized_unary"',
    '{ name = "loloha", cells = 3 }',
    '{ name = "d_bit_flip", bits = 2 }',
]


def table(mechanism: str, memories: int = 2) -> str:
    permanent = 1 if "d_bit_flip" in mechanism else 4
    return TABLE.format(mechanism=mechanism, memories=memories, permanent=permanent)


def record(state: State, registry: Registry, value: object, day: int) -> dict[str, Any]:
    """Record a value and return the report that leaves for it."""
    metric = registry.metrics["theme"]
    now = START + day * DAY
    encoded, _ = metric.encode(value)
    recorder = Recorder(state, registry, now, Coin())
    assert recorder.store([Pending(metric, current_epoch(metric, now), encoded)]) == []
    return taken(state)[0]


def taken(state: State) -> list[dict[str, Any]]:
    with state.transaction() as connection:
        rows = connection.execute("DELETE FROM spool RETURNING report").fetchall()
    return [json.loads(text) for (text,) in rows]


def memory(state: State) -> list[int]:
    with state.transaction() as connection:
        rows = connection.execute("SELECT permanent FROM memory ORDER BY id").fetchall()
    return [int.from_bytes(packed, "little") for (packed,) in rows]


def spent(state: State) -> int:
    with state.transaction() as connection:
        (found,) = connection.execute("SELECT sum(spent) FROM shares").fetchone()
    return int(found)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_used_up_memories_go_on_reporting_a_paid_answer_for_free(
    mechanism: str, tmp_path: Path, registry_of: Callable[..., Registry]
) -> None:
    registry = registry_of(table(mechanism))
    metric = registry.metrics["theme"]
    state = State(tmp_path)
    paid = []
    for day, value in enumerate([*VALUES, *VALUES, None]):
        report = record(state, registry, value, day)
        assert report["cohort"] == (
            device_cohort(state.secret, metric) if metric.mechanism.cohorts > 1 else 0
        )
        paid.append((len(memory(state)), spent(state)))
    # One reservation, at the first report, and no memory beyond those paid for.
    assert {charged for _, charged in paid} == {metric.charge}
    assert (paid[0][0], paid[-1][0]) == (1, 2)
    if metric.mechanism.name == "d_bit_flip":
        assert int(report["response"], 16) in memory(state)
    state.close()


@pytest.mark.parametrize("mechanism", MECHANISMS[3:])
def test_values_that_share_a_memory_pay_for_it_once(
    mechanism: str, tmp_path: Path, registry_of: Callable[..., Registry]
) -> None:
    registry = registry_of(table(mechanism, 3))
    metric = registry.metrics["theme"]
    state = State(tmp_path)
    cohort = device_cohort(state.secret, metric)
    alike: dict[str, list[str]] = {}
    for value in VALUES:
        name = metric.mechanism.remembered_as(metric.encode(value)[0], cohort)
        alike.setdefault(name, []).append(value)
    shared = max(alike.values(), key=len)
    assert len(shared) > 1
    for day, value in enumerate(shared):
        record(state, registry, value, day)
    assert len(memory(state)) == 1
    for day, value in enumerate(VALUES, 10):
        record(state, registry, value, day)
    assert len(memory(state)) == len(alike) <= 3
    state.close()


def test_what_d_bit_flip_remembers_is_what_leaves(
    tmp_path: Path, registry_of: Callable[..., Registry]
) -> None:
    registry = registry_of(table('{ name = "d_bit_flip", bits = 6 }', 1))
    state = State(tmp_path)
    sent = {record(state, registry, value, day)["response"] for day, value in enumerate(VALUES)}
    assert [int(each, 16) for each in sent] == memory(state)
    state.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_day_without_a_record_reports_the_value_for_it_from_memory(
    mechanism: str, tmp_path: Path, registry_of: Callable[..., Registry]
) -> None:
    registry = registry_of(table(mechanism))
    metric = registry.metrics["theme"]
    state = State(tmp_path)
    record(state, registry, "other", 0)
    Recorder(state, registry, START + DAY, Coin()).report_absence(START + 4.5 * DAY)
    first = current_epoch(metric, START)
    found = taken(state)
    assert sorted(report["epoch"] - first for report in found) == [1, 2, 3]
    assert len(memory(state)) == 1  # "other" was paid for
    assert spent(state) == metric.charge
    state.close()


def test_another_first_stage_is_a_new_channel_and_a_new_reservation(
    registry_of: Callable[..., Registry],
) -> None:
    old = registry_of(table('"symmetric_unary"'))
    for text in (
        table('"symmetric_unary"').replace("permanent = 4", "permanent = 3"),
        table('"optimized_unary"'),
        table('{ name = "loloha", cells = 3 }'),
    ):
        new = registry_of(text)
        assert new.metrics["theme"].channel_hash != old.metrics["theme"].channel_hash
        assert "new_reservation" in {found.rule for found in changes(old, new)}
    more = registry_of(table('"symmetric_unary"', 3))
    assert more.metrics["theme"].fingerprint == old.metrics["theme"].fingerprint
    assert "reservation_raised" in {found.rule for found in changes(old, more)}


@pytest.mark.parametrize(
    ("name", "options", "remembered"),
    [
        (
            "rappor",
            {"bits": 64, "hashes": 2, "cohorts": 4},
            [41379022521435635, 12704755773587535905, 7086779330433960168],
        ),
        ("memoized_generalized_randomized_response", {"domain": 200}, [28, 191, 115]),
        (
            "memoized_symmetric_unary",
            {"domain": 64},
            [41379022219379953, 22619222899374112, 4780857155039840488],
        ),
        (
            "memoized_optimized_unary",
            {"domain": 64},
            [5350225191371841, 79165273415680, 22804146037997640],
        ),
        ("loloha", {"domain": 200, "cells": 16}, [2, 7, 14]),
        ("d_bit_flip", {"domain": 64, "bits": 32}, [9634304, 5266449, 1113130048]),
    ],
)
def test_no_version_draws_other_noise_to_remember(
    name: str, options: dict[str, Any], remembered: list[int]
) -> None:
    """A device that its user restores from a backup may have lost what it remembered since, and
    draws it again: with a way of its own to use the stream, a new version would tell twice."""
    epsilon = "2" if name == "d_bit_flip" else "1"
    mechanism = build(name, epsilon=epsilon, epsilon_permanent="2", **options)
    for value, expected in enumerate(remembered):
        coin = Coin(PrfStream(bytes(32), b"permanent", str(value).encode()))
        encoded = str(value) if mechanism.domain is None else value
        assert mechanism.permanent(encoded, 1, coin) == expected

"""Charges and silence are functions of the registry, the clock and call times; never of values.

Random registries and random histories, each lived twice by one device (the same secret, copied with
its state) with different values. Everything that anybody could observe is compared, but the bits
of the responses: shares, marks, drop reasons, and of each waiting report all fields, its length,
and when it may leave.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_sdk import Registry, loads
from client_sdk.ledger import Ledger
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.state import FILE_NAME, State

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01T00:00:00Z
HEAD = 'schema = 1\n[project]\nname = "a"\nlifetime_epsilon = {cap}\ncontact = "c"\n'
KINDS = {
    "boolean": "missing = false",
    "category": 'values = ["a", "b", "c"]\ncatch_all = "c"',
    "ordinal": "values = [1, 2, 3]\nmissing = 2",
    "number": "range = [0, 10]\nbuckets = 4\nmissing = 0",
    "string": "memoize = { epsilon_permanent = 4, distinct_values = 2 }",
}
ABSENT = {"boolean": "false", "category": '"c"', "ordinal": "2", "number": "0", "string": '""'}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans() | st.none(),
    "category": st.sampled_from(["a", "b", "c", "elsewhere", ""]) | st.none(),
    "ordinal": st.integers(-5, 5) | st.none(),
    "number": st.floats() | st.integers() | st.none(),
    "string": st.text(max_size=5) | st.none(),
}


@st.composite
def metrics(draw: st.DrawFn, name: str) -> tuple[str, str]:
    """A metric's table and its type."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    epoch = draw(st.sampled_from(["day", "week", "month", "once"]))
    lines = [
        f"[metrics.{name}]",
        'question = "Q?"',
        f'type = "{kind}"',
        'sensitivity = "product"',
        "epsilon = 1",
        f'epoch = "{epoch}"',
        "starts = 2026-12-02",
        "expires = 2026-12-20",
        KINDS[kind],
    ]
    if epoch != "once":
        lines.append(f"every = {draw(st.sampled_from([1, 1, 2, 5]))}")
        if draw(st.booleans()):
            lines.append(f"when_absent = {ABSENT[kind]}")
    lines.append(f"sample = {draw(st.sampled_from(['1', '0.5']))}")
    return "\n".join(lines), kind


@st.composite
def lives(draw: st.DrawFn) -> tuple[Registry, list[tuple[int, str, object, object]]]:
    """A registry and its history: day, metric, and a value for each of two lives."""
    names = ["m", "n"][: draw(st.integers(1, 2))]
    tables = {name: draw(metrics(name)) for name in names}
    text = HEAD.format(cap=draw(st.sampled_from([40, 60])))
    registry = loads(text + "\n".join(table for table, _ in tables.values()))
    history = []
    for day in sorted(draw(st.lists(st.integers(0, 24), max_size=12))):
        name = draw(st.sampled_from(names))
        values = VALUES[tables[name][1]]
        history.append((day, name, draw(values), draw(values)))
    return registry, history


def observable(directory: Path, registry: Registry, history: list[tuple[int, str, object]]) -> Any:
    """Live a history and return all that shows of it."""
    state = State(directory)
    reasons = []
    for day, name, value in history:
        now = START + day * DAY + 3600
        recorder = Recorder(state, registry, now, Coin())
        recorder.report_absence(now)
        metric = registry.metrics[name]
        encoded, _ = metric.encode(value)
        reasons.append(recorder.store([Pending(metric, current_epoch(metric, now), encoded)], now))
    with state.transaction() as connection:
        shares = list(Ledger(connection, registry.lifetime_micro).shares())
        marks = connection.execute("SELECT * FROM marks ORDER BY 1, 2, 3").fetchall()
        spool = connection.execute("SELECT not_before, keep_until, report FROM spool").fetchall()
    state.close()
    reports = []
    for not_before, keep_until, text in spool:
        report = json.loads(text)
        response = report.pop("response")
        length = len(response) if isinstance(response, str) else "cell"
        reports.append((not_before, keep_until, length, *report.items()))
    return reasons, shares, marks, reports


@given(life=lives())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_that_shows_depends_on_a_value(
    life: tuple[Registry, list[tuple[int, str, object, object]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    registry, history = life
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    State(one).close()
    shutil.copy(one / FILE_NAME, other / FILE_NAME)
    first = observable(one, registry, [(day, name, value) for day, name, value, _ in history])
    second = observable(other, registry, [(day, name, value) for day, name, _, value in history])
    assert first == second

"""Charge, randomize, spool, in one transaction; nothing about a value shows in what is left."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_sdk import Registry, StateError
from client_sdk.mechanisms import Value
from client_sdk.metric import Metric
from client_sdk.pending import Pending, current_epoch, keep_until
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder, device_cohort, memory_tag, permanent_response
from client_sdk.state import State

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01


def record(
    state: State, registry: Registry, name: str, value: object, day: int, coin: Coin | None = None
) -> list[str]:
    metric = registry.metrics[name]
    now = START + day * DAY
    encoded, _ = metric.encode(value)
    recorder = Recorder(state, registry, now, coin or Coin())
    return recorder.store([Pending(metric, current_epoch(metric, now), encoded)])


def memory(state: State) -> list[tuple[bytes, bytes]]:
    with state.transaction() as connection:
        return connection.execute("SELECT tag, permanent FROM memory ORDER BY id").fetchall()


def test_a_permanent_response_survives_restarts_and_the_instantaneous_is_fresh(
    tmp_path: Path, registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    registry = registry_of(tables["home_page"])
    remembered, responses = set(), set()
    for day in range(10):
        state = State(tmp_path)
        assert record(state, registry, "home_page", "example.org", day) == []
        remembered.add(tuple(memory(state)))
        with state.transaction() as connection:
            (report,) = connection.execute("DELETE FROM spool RETURNING report").fetchone()
        responses.add(report.partition('"response":')[2])
        state.close()
    assert len(remembered) == 1
    assert len(responses) == 10  # of 128 bits: two equal ones by chance are out of the question


def test_a_permanent_response_is_a_function_of_secret_metric_channel_and_value(
    registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    def drawn(secret: bytes, metric: Metric, value: Value) -> tuple[int, bytes]:
        return permanent_response(secret, metric, value, 3), memory_tag(secret, metric, value, 3)

    metric = registry_of(tables["home_page"]).metrics["home_page"]
    renamed = registry_of(tables["home_page"].replace("home_page", "start_page"))
    wider = registry_of(tables["home_page"].replace("cohorts = 64", "cohorts = 65"))
    same = drawn(b"s" * 32, metric, "example.org")
    assert drawn(b"s" * 32, metric, "example.org") == same
    others = [
        drawn(b"t" * 32, metric, "example.org"),
        drawn(b"s" * 32, metric, "example.com"),
        drawn(b"s" * 32, renamed.metrics["start_page"], "example.org"),
        drawn(b"s" * 32, wider.metrics["home_page"], "example.org"),
    ]
    assert len({response for response, _ in [same, *others]}) == 5
    assert len({tag for _, tag in [same, *others]}) == 5


def test_used_up_distinct_values_go_on_reporting_a_paid_one_for_free(
    tmp_path: Path, registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    registry = registry_of(tables["home_page"])  # two distinct values
    state = State(tmp_path)
    for day, page in enumerate(["a.org", "b.org", "c.org", "d.org", "a.org", "c.org"]):
        assert record(state, registry, "home_page", page, day) == []
    assert state.queued() == 6
    paid = [
        memory_tag(state.secret, registry.metrics["home_page"], p, 0) for p in ("a.org", "b.org")
    ]
    assert [tag for tag, _ in memory(state)] == paid
    with state.transaction() as connection:
        assert connection.execute("SELECT spent FROM shares").fetchall() == [(8_000_000,)]
    state.close()


def test_a_failing_source_of_chance_charges_and_stores_nothing(
    tmp_path: Path, registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    def broken(count: int) -> bytes:
        raise OSError("no entropy")

    registry = registry_of(*tables.values())
    state = State(tmp_path)
    for name, value in (("theme", "dark"), ("home_page", "a.org")):
        with pytest.raises(OSError, match="no entropy"):
            record(state, registry, name, value, 0, Coin(broken))
    assert state.queued() == 0
    with state.transaction() as connection:
        for table in ("marks", "memory", "paid"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        assert connection.execute("SELECT sum(spent) FROM shares").fetchone() == (0,)
    assert record(state, registry, "theme", "dark", 0) == []
    state.close()


def test_a_full_disk_charges_and_stores_nothing(
    tmp_path: Path, registry_of: Callable[..., Registry]
) -> None:
    registry = registry_of(expires="2026-12-31")
    state = State(tmp_path)
    with state.transaction() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    state._connection.execute(f"PRAGMA max_page_count = {pages}")
    metric = registry.metrics["theme"]
    recorder = Recorder(state, registry, START, Coin())
    epochs = range(20_788, 20_788 + 3000)
    with pytest.raises(StateError, match="full"):
        recorder.store([Pending(metric, epoch, 1) for epoch in epochs[:30]] * 200)
        for epoch in epochs:
            with state.transaction() as connection:
                connection.execute("INSERT INTO marks VALUES ('x', 'day', ?)", (epoch,))
    with state.transaction() as connection:
        spent = connection.execute("SELECT sum(spent) FROM shares").fetchone()[0]
        reports = connection.execute("SELECT count(*) FROM spool").fetchone()[0]
    assert spent == 1_000_000 * reports
    state.close()


values = st.one_of(
    st.none(), st.text(max_size=20), st.sampled_from(["light", "dark", "other"]), st.just("\ud800")
)


def ledger_after(directory: Path, registry: Registry, history: list[tuple[int, object]]) -> Any:
    """Everything on the device that is not noise: ledger, marks, queue length, drops."""
    state = State(directory)
    drops: Counter[str] = Counter()
    for day, value in history:
        for name in registry.metrics:
            drops.update(record(state, registry, name, value, day))
    with state.transaction() as connection:
        left = [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
            for table in ("shares", "marks", "paid")
        ]
        left.append(connection.execute("SELECT keep_until FROM spool ORDER BY id").fetchall())
        sent = connection.execute(
            "SELECT json_extract(report, '$.metric'), json_extract(report, '$.epoch')"
            " FROM spool ORDER BY id"
        ).fetchall()
    state.close()
    return left, sent, drops


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.tuples(st.integers(0, 8), values, values), max_size=8))
def test_charges_marks_queue_and_drops_do_not_depend_on_values(
    steps: list[tuple[int, object, object]],
    tmp_path_factory: pytest.TempPathFactory,
    registry_of: Callable[..., Registry],
    tables: dict[str, str],
) -> None:
    registry = registry_of(*tables.values())
    one = ledger_after(
        tmp_path_factory.mktemp("one"), registry, [(day, value) for day, value, _ in steps]
    )
    other = ledger_after(
        tmp_path_factory.mktemp("other"), registry, [(day, value) for day, _, value in steps]
    )
    assert one == other


def test_cohorts_are_drawn_by_the_secret_and_cover_all(
    registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    metric = registry_of(tables["home_page"]).metrics["home_page"]
    secrets = [number.to_bytes(32, "big") for number in range(6400)]
    cohorts = Counter(device_cohort(secret, metric) for secret in secrets)
    assert device_cohort(secrets[0], metric) == device_cohort(secrets[0], metric)
    # 64 cohorts of 100 each: chi-square of 63 degrees exceeds 134 with probability 5e-7. Secrets
    # are fixed, so this does not flicker.
    assert sum((cohorts[c] - 100) ** 2 / 100 for c in range(64)) < 134


def test_the_repr_of_a_value_on_its_way_does_not_show_it(
    registry_of: Callable[..., Registry],
) -> None:
    pending = Pending(registry_of().metrics["theme"], 1, "canary-7f3a")
    assert "canary" not in repr(pending)
    assert "canary" not in f"{pending} {[pending]}"


def test_reports_are_kept_until_the_grace_is_over(registry_of: Callable[..., Registry]) -> None:
    daily = registry_of().metrics["theme"]
    assert keep_until(daily, 20_788) == START + (1 + 3) * DAY
    once = registry_of(epoch='"once"').metrics["theme"]
    assert keep_until(once, 0) == START + (7 + 3) * DAY  # "once" closes when the metric expires

"""Spreading, sampling and absence: who reports when is a matter of secret and clock alone."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import Client, Registry, loads
from client_sdk.ledger import Ledger
from client_sdk.metric import Metric
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.spreading import is_turn, takes_part
from client_sdk.state import State

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01T00:00:00Z

TEXT = """
schema = 1
[project]
name = "a"
lifetime_epsilon = {lifetime}
contact = "c"
[metrics.m]
question = "Q?"
type = "category"
values = ["a", "b", "none"]
catch_all = "none"
sensitivity = "product"
epsilon = 1
epoch = "{epoch}"
starts = 2026-12-01
expires = {expires}
{more}
"""


def registry(
    more: str = "", epoch: str = "day", expires: str = "2027-01-01", lifetime: int = 100
) -> Registry:
    return loads(TEXT.format(more=more, epoch=epoch, expires=expires, lifetime=lifetime))


@given(st.binary(min_size=32, max_size=32), st.integers(2, 9))
def test_a_device_has_one_turn_in_each_block(secret: bytes, every: int) -> None:
    metric = registry(f"every = {every}").metrics["m"]
    for block in range(2300, 2310):
        epochs = range(block * every, (block + 1) * every)
        assert sum(is_turn(secret, metric, epoch) for epoch in epochs) == 1


def test_each_epoch_is_an_unbiased_sample_of_devices() -> None:
    metric = registry("every = 5").metrics["m"]
    turns = Counter(_turn(os.urandom(32), metric) for _ in range(5000))
    # Binomial(5000, 1/5): mean 1000, sd 28.3; 6 sd happen by chance once in 5e8 per count.
    assert set(turns) == set(range(5))
    assert all(abs(count - 1000) < 170 for count in turns.values())


def _turn(secret: bytes, metric: Metric) -> int:
    return next(shift for shift in range(5) if is_turn(secret, metric, 20_000 + shift))


def test_a_higher_rate_keeps_every_device_of_a_lower_one() -> None:
    low, high = (registry(f"sample = {rate}").metrics["m"] for rate in (0.2, 0.6))
    secrets = [os.urandom(32) for _ in range(3000)]
    within = [takes_part(secret, low) for secret in secrets]
    assert all(
        takes_part(secret, high) for secret, inside in zip(secrets, within, strict=True) if inside
    )
    # Binomial(3000, 0.2): mean 600, sd 21.9; beyond 6 sd once in 5e8.
    assert abs(sum(within) - 600) < 132


def test_a_sampled_device_keeps_its_draw_when_the_metric_is_edited() -> None:
    secret = os.urandom(32)
    first = registry("sample = 0.5").metrics["m"]
    edited = registry("sample = 0.5\nmin_reports = 7\nevery = 3").metrics["m"]
    assert takes_part(secret, first) == takes_part(secret, edited)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state")


def spent(state: State) -> int:
    with state.transaction() as connection:
        return Ledger(connection, 0).spent()


def reserved(state: State) -> dict[str, int]:
    with state.transaction() as connection:
        return {share.metric: share.reserved for share in Ledger(connection, 0).shares()}


def record_days(
    state: State, versions: Callable[[int], Registry], days: int, value: int = 0
) -> list[int]:
    """Start and record once a day, each day with that day's registry; return days reported."""
    reported = []
    for day in range(days):
        now = START + day * DAY + 3600
        recorder = Recorder(state, versions(day), now, Coin())
        metric = versions(day).metrics["m"]
        if not recorder.store([Pending(metric, current_epoch(metric, now), value)]):
            reported.append(day)
    return reported


def test_a_device_outside_the_sample_reserves_and_spends_nothing(tmp_path: Path) -> None:
    sampled = registry("sample = 0.5")
    found = set()
    for device in range(24):  # all alike: once in 8 million
        own = State(tmp_path / str(device))
        inside = takes_part(own.secret, sampled.metrics["m"])
        reported = record_days(own, lambda day: sampled, 3)
        assert len(reported) == (3 if inside else 0)
        assert spent(own) == (3_000_000 if inside else 0)
        assert reserved(own)["m"] == (31_000_000 if inside else 0)
        found.add(inside)
        own.close()
    assert found == {True, False}


def test_a_spread_metric_spends_one_charge_a_block(state: State) -> None:
    spread = registry("every = 5")
    reported = record_days(state, lambda day: spread, 31)
    first_block = current_epoch(spread.metrics["m"], START) // 5
    blocks = [
        (current_epoch(spread.metrics["m"], START) + day) // 5 - first_block for day in reported
    ]
    assert len(set(blocks)) == len(blocks)
    assert spent(state) == len(blocks) * 1_000_000 <= reserved(state)["m"] == 7_000_000


@given(st.lists(st.sampled_from([1, 2, 3, 5, 7]), min_size=1, max_size=5), st.randoms())
@settings(max_examples=25, deadline=None)
def test_editing_every_never_buys_a_second_report_in_a_block(
    tmp_path_factory: pytest.TempPathFactory, rates: list[int], chance: object
) -> None:
    own = State(tmp_path_factory.mktemp("device") / "state")
    versions = [registry(f"every = {every}") for every in rates]
    history = [versions[day * len(versions) // 28] for day in range(28)]
    reported = record_days(own, lambda day: history[day], 28)
    start = current_epoch(history[0].metrics["m"], START)
    for day in reported:
        every = history[day].metrics["m"].every
        block = (start + day) // every
        earlier = [other for other in reported if other < day]
        assert not [other for other in earlier if (start + other) // every == block]
    assert spent(own) == len(reported) * 1_000_000
    assert spent(own) <= reserved(own)["m"] <= 100_000_000
    own.close()


def test_a_metric_that_is_taken_out_gives_back_what_it_did_not_spend(state: State) -> None:
    first = registry(lifetime=40)
    record_days(state, lambda day: first, 2)
    assert reserved(state) == {"m": 31_000_000}
    renamed = loads(first.text.replace("metrics.m]", "metrics.n]"))
    Recorder(state, renamed, START + 2 * DAY, Coin())
    assert reserved(state) == {"m": 2_000_000, "n": 29_000_000}
    assert spent(state) == 2_000_000
    # And back: what was spent is still spent, and the newcomer gives its share back.
    Recorder(state, first, START + 2 * DAY, Coin())
    assert reserved(state) == {"m": 31_000_000, "n": 0}


def test_a_longer_life_that_does_not_fit_is_off_at_once_not_half_way(state: State) -> None:
    short, long = registry(lifetime=40), registry(expires="2027-02-01", lifetime=62)
    record_days(state, lambda day: short, 5)
    tight = loads(long.text.replace("lifetime_epsilon = 62", "lifetime_epsilon = 62"))
    Recorder(state, tight, START + 5 * DAY, Coin())
    assert reserved(state)["m"] == 62_000_000
    recorder = Recorder(state, short, START + 6 * DAY, Coin())
    assert recorder.store([Pending(short.metrics["m"], 20_794, 0)]) == []


WATCHED = 'when_absent = "none"\ngrace = 3'


class TestAbsence:
    def test_a_day_without_a_record_is_reported_as_absent_after_it_ended(
        self, client_of, clock, server
    ) -> None:
        clock.now = START + 3600
        client = client_of(registry(WATCHED))
        assert client.flush(5)
        assert server.reports == []
        clock.now = START + DAY + 60
        assert client.flush(5)
        assert [report["epoch"] for report in server.reports] == [
            current_epoch(registry().metrics["m"], START)
        ]
        assert client.status().spent_epsilon == 1

    def test_a_recorded_day_leaves_no_earlier_than_an_absent_one(
        self, client_of, clock, server
    ) -> None:
        clock.now = START + 3600
        client = client_of(registry(WATCHED))
        client.record("m", "a")
        assert not client.flush(5)
        assert server.reports == []
        clock.now = START + DAY + 60
        client.flush(5)
        assert len(server.reports) == 1
        clock.now = START + 2 * DAY + 60
        assert client.flush(5)
        assert len(server.reports) == 2

    def test_what_leaves_when_does_not_depend_on_what_was_recorded(
        self, tmp_path, clock, server
    ) -> None:
        """Recorded every day, on some days, never: the server sees the same reports."""
        seen = []
        for number, recorded in enumerate([range(6), (1, 4), ()]):
            server.bodies.clear()
            days = []
            for day in range(6):
                clock.now = START + day * DAY + 3600
                client = Client(
                    registry(WATCHED),
                    enabled=True,
                    respect_environment=False,
                    state_dir=tmp_path / str(number),
                    transport=server,
                    clock=clock,
                    upload_within_seconds=1e9,
                )
                if day in recorded:
                    client.record("m", "a")
                client.flush(5)
                client.close(5)
                days.append([report["epoch"] for report in server.reports])
            seen.append(days)
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0][-1]) == 5

    def test_absence_is_reported_only_as_far_back_as_the_server_accepts(
        self, client_of, clock, server
    ) -> None:
        clock.now = START + 3600
        client = client_of(registry(WATCHED))
        client.flush(5)
        client.close(5)
        clock.now = START + 10 * DAY + 3600
        assert client_of(registry(WATCHED)).flush(5)
        first = current_epoch(registry().metrics["m"], START)
        # Day 10: days 7, 8 and 9 are within three days of grace.
        assert [report["epoch"] - first for report in server.reports] == [7, 8, 9]

    def test_a_spread_metric_reports_absence_only_when_it_is_its_turn(
        self, client_of, clock, server
    ) -> None:
        spread = registry(WATCHED + "\nevery = 4")
        for day in range(12):
            clock.now = START + day * DAY + 3600
            client = client_of(spread)
            client.flush(5)
            client.close(5)
        epochs = [report["epoch"] for report in server.reports]
        assert len({epoch // 4 for epoch in epochs}) == len(epochs) >= 2

    def test_nothing_is_watched_after_opting_out(self, client_of, clock, server) -> None:
        clock.now = START + 3600
        client = client_of(registry(WATCHED))
        client.flush(5)
        client.opt_out()
        client.close(5)
        clock.now = START + 2 * DAY + 3600
        client_of(registry(WATCHED), enabled=False).flush(5)
        assert client_of(registry(WATCHED)).flush(5)
        assert server.reports == []

    def test_a_consenting_client_watches_without_a_record(self, client_of, clock, server) -> None:
        clock.now = START + 3600
        client_of(registry(WATCHED)).close(5)
        clock.now = START + DAY + 60
        assert client_of(registry(WATCHED)).flush(5)
        assert len(server.reports) == 1


def test_a_clock_that_jumped_ahead_and_returned_costs_no_epoch_twice(
    client_of, clock, server
) -> None:
    endless = loads(
        TEXT.format(more="every = 1", epoch="day", expires="2100-01-01", lifetime=1000).replace(
            "epsilon = 1\n", "epsilon = 0.01\n"
        )
    )
    clock.now = START + 3600
    client = client_of(endless)
    client.record("m", "a")
    assert client.flush(5)
    clock.now = 4_070_908_800.0  # 2099-01-01
    client.record("m", "a")
    client.flush(5)
    clock.now = START + 7200
    client.record("m", "b")
    client.flush(5)
    assert client.status().spent_epsilon == pytest.approx(0.02)
    assert len(server.reports) == 2
    clock.now = START + DAY + 3600
    client.record("m", "b")
    assert client.flush(5)
    assert len(server.reports) == 3


def test_an_upload_planned_by_a_wrong_clock_is_not_waited_for(tmp_path, clock, server) -> None:
    clock.now = 4_070_908_800.0  # 2099-01-01
    far = registry(expires="2100-01-01", epoch="month", lifetime=1000)
    client = Client(
        far,
        enabled=True,
        respect_environment=False,
        state_dir=tmp_path,
        transport=server,
        clock=clock,
        upload_within_seconds=10_000,
    )
    client.record("m", "a")
    assert len(client.preview(5).waiting) == 1  # it is stored, and an upload is planned
    clock.now = START + 3600
    client.record("m", "a")
    for _ in range(500):
        if server.reports:
            break
        time.sleep(0.01)
    assert server.reports
    client.close(5)

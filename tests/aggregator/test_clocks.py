"""Clocks: the server's decides what is too early and what is closed; a device's decides nothing."""

from datetime import date
from typing import Any

import pytest

from aggregator.closing import close_epoch
from client_sdk.epochs import day_of, end_of, epoch_of

# One day-long, one week-long and one endless month-long metric, NOW in the middle of their epochs.
REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
""" + "".join(
    f"""
[metrics.by_{length}]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 1.0
epoch = "{length}"
owners = ["ui@example.org"]
starts = 2026-06-01
expires = 2027-02-01
"""
    for length in ("day", "week", "month")
)
TABLE = [
    pytest.param(-2, "accepted", "epoch_closed", id="-2"),
    pytest.param(-1, "accepted", "epoch_closed", id="-1"),
    pytest.param(0, "accepted", "accepted", id="0"),
    pytest.param(1, "too_early", "too_early", id="+1"),
    pytest.param(2, "too_early", "too_early", id="+2"),
]


@pytest.fixture
def clocked(redis_url: str, new_world: Any) -> Any:
    world = new_world(redis_url, registry=REGISTRY)
    yield world
    world.store.close()


@pytest.mark.parametrize("length", ["day", "week", "month"])
@pytest.mark.parametrize(("away", "while_open", "when_closed"), TABLE)
def test_epochs_around_now(
    clocked: Any, length: str, away: int, while_open: str, when_closed: str
) -> None:
    name = f"by_{length}"
    epoch = clocked.epoch(name)
    sent = clocked.report(name, epoch=epoch + away)
    assert clocked.charged(clocked.device(), sent) == [while_open]
    close_epoch(clocked.store, clocked.metric(name), epoch - 1)
    device = clocked.device()
    assert clocked.charged(device, sent) == [when_closed]
    assert clocked.store.accounts.spent(device.id) == 1_000_000 * (when_closed == "accepted")


@pytest.mark.parametrize("length", ["day", "week", "month"])
def test_the_servers_clock_moves_the_table(clocked: Any, length: str) -> None:
    name = f"by_{length}"
    epoch = clocked.epoch(name)
    device = clocked.device()
    assert clocked.charged(device, clocked.report(name, epoch=epoch + 1)) == ["too_early"]
    clocked.now = end_of(clocked.metric(name).epoch, epoch)
    assert clocked.charged(device, clocked.report(name, epoch=epoch + 1)) == ["accepted"]
    assert clocked.store.accounts.spent(device.id) == 1_000_000


@pytest.mark.parametrize("length", ["day", "week", "month"])
def test_a_clock_that_jumped_to_2099_costs_nothing(clocked: Any, length: str) -> None:
    name = f"by_{length}"
    device, jumped = clocked.device(), epoch_of(clocked.metric(name).epoch, date(2099, 6, 1))
    assert clocked.charged(device, clocked.report(name, epoch=jumped)) == ["too_early"]
    assert clocked.store.accounts.spent(device.id) == 0
    # Its clock has come back: it goes on, and pays for this epoch once.
    assert clocked.charged(device, clocked.report(name)) == ["accepted"]
    assert clocked.charged(device, clocked.report(name)) == ["already_reported"]
    assert clocked.store.accounts.spent(device.id) == 1_000_000
    assert clocked.store.figures.lag() == 1


def test_a_clock_that_fell_behind_reports_no_closed_epoch(clocked: Any) -> None:
    metric = clocked.metric("by_day")
    close_epoch(clocked.store, metric, clocked.epoch("by_day") - 1)
    device = clocked.device()
    stale = epoch_of("day", date(2026, 7, 1))
    for epoch in (stale, epoch_of("day", date(1970, 1, 1)), clocked.epoch("by_day") - 1):
        answer = clocked.charged(device, clocked.report("by_day", epoch=epoch))
        assert answer == ["epoch_closed"]
    assert clocked.store.accounts.spent(device.id) == 0
    assert day_of(clocked.now) == date(2026, 11, 30)

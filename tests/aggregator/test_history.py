"""The last day of the store's counters, and the rates that follow from it."""

import json
from typing import Any

import pytest
import redis

from aggregator.store.history import MINUTES, Note, steps
from aggregator.store.layout import HISTORY
from tests.aggregator.conftest import NOW, World


def test_a_minute_is_noted_once_whoever_notes_it_and_how_often(world: World) -> None:
    world.charged(world.device(), world.report("theme"))
    for second in (0, 1, 30):
        world.store.history.note(NOW + second)
    world.store.history.note(NOW + 60)
    notes = world.store.history.since(0)
    assert [note.at - NOW for note in notes] == [30, 60]
    assert notes[0].counters == world.store.figures.counters()
    assert notes[0].lag_seconds > 0 and notes[0].stream_bytes > 0 and notes[0].used_bytes > 0
    assert world.store.history.since(NOW + 31) == notes[1:]


def test_a_day_and_an_hour_are_kept_and_no_more(world: World) -> None:
    for minute in (0, 1, MINUTES, MINUTES + 5):
        world.store.history.note(NOW + 60 * minute)
    kept = [round((note.at - NOW) / 60) for note in world.store.history.since(0)]
    assert kept == [1, MINUTES, MINUTES + 5]


def test_what_another_version_has_noted_is_unknown(world: World) -> None:
    for minute in (0, 1, 2):
        world.store.history.note(NOW + 60 * minute)
    with redis.Redis.from_url(world.redis_url) as client:
        place = int(NOW // 60) % MINUTES
        kept = json.loads(client.hget(HISTORY, place))
        client.hset(HISTORY, place, json.dumps(kept | {"more": 1}))
        del kept["enrolled"]
        client.hset(HISTORY, place + 1, json.dumps(kept))
    assert [note.at for note in world.store.history.since(0)] == [NOW + 120]


def test_rates_are_what_was_added_between_two_notes(world: World) -> None:
    world.store.history.note(NOW)
    device = world.device()
    world.charged(device, world.report("theme"), world.report("crashed"))
    assert world.charged(device, world.report("theme")) == ["already_reported"]
    world.store.history.note(NOW + 60)
    (step,) = steps(world.store.history.since(0))
    assert (step.begin, step.end) == (NOW, NOW + 60)
    assert step.accepted == pytest.approx(2 / 60) and step.batches == pytest.approx(2 / 60)
    assert {name: rate for name, rate in step.refused.items() if rate} == {
        "already_reported": pytest.approx(1 / 60)
    }


def note(at: float, **counters: int) -> Note:
    return Note(at, counters, 0.0, 0, 0, 0)


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ([note(0, accepted=5), note(181, accepted=9)], "nobody noted for three minutes"),
        ([note(0, accepted=5), note(60, accepted=4)], "the store was restored"),
        ([note(0, accepted=5, clones=1), note(60, accepted=6)], "another counter went down"),
        ([note(0), note(0)], "no time has passed"),
    ],
)
def test_what_is_unknown_is_no_rate_and_not_zero(notes: list[Note], why: str) -> None:
    (step,) = steps(notes)
    assert (step.accepted, step.batches, step.refused) == (None, None, {}), why


def test_counters_of_later_versions_do_not_matter() -> None:
    (step,) = steps([note(0), note(60, accepted=60, batches=6, something_new=1)])
    assert (step.accepted, step.batches) == (1.0, 0.1)
    assert list(steps([])) == list(steps([note(0)])) == []


def test_a_note_holds_no_device(world: World) -> None:
    devices = [world.device() for _ in range(3)]
    for device in devices:
        world.charged(device, world.report("theme"))
    world.store.history.note(NOW)
    kept: dict[str, Any] = {k: v for k, v in vars(world.store.history.since(0)[0]).items()}
    text = json.dumps(kept | {"counters": dict(kept["counters"])})
    assert not any(device.id in text for device in devices)

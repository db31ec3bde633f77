"""A power cut, played: of the append-only file stays what was synced, and not a byte more.

`appendfsync always` loses nothing that was acknowledged. `everysec` may lose what was acknowledged
since the last write that a completed sync covers; whoever sends that again is counted once.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.census import MOST, Census, Senders, resend
from tests.faults.folding import folding
from tests.faults.syncs import NotedProgram

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_a_power_cut_takes_nothing_acknowledged_when_every_write_is_synced(
    start_store: Callable[..., Any],
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    tmp_path: Path,
    seed: int,
) -> None:
    noted = NotedProgram.build(tmp_path)
    store = start_store(appendfsync="always", program=noted.program)
    world = new_world(store.url)
    census, chance = Census(world), random.Random(seed)
    senders = Senders(census, serve(world), MOST)
    cut = []
    with folding(world):
        for _ in range(5):
            senders.wait_for(senders.sent + 50)
            time.sleep(chance.uniform(0, 0.5))
            cut.append(noted.cut_power(store.server))
            store.start()
        senders.wait_for(senders.sent + 50)
        senders.finish()
    world.folder.fold_once()
    print(f"always: 5 cuts took {cut} bytes, {senders.sent} acknowledged, none lost")
    census.check()
    world.store.close()


@pytest.mark.parametrize(
    ("event", "sync_ms"),
    [
        pytest.param("power cut", 0, id="power-cut"),
        # The store answers while a sync runs and writes later: then kill -9 is a power cut, too.
        pytest.param("kill -9", 900, id="kill-9-on-a-slow-disk"),
    ],
)
def test_everysec_loses_at_most_what_came_since_the_last_sync_and_takes_it_again(
    start_store: Callable[..., Any],
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    tmp_path: Path,
    seed: int,
    event: str,
    sync_ms: int,
) -> None:
    noted = NotedProgram.build(tmp_path, sync_ms)
    store = start_store(appendfsync="everysec", program=noted.program)
    world = new_world(store.url)
    server, chance = serve(world), random.Random(seed)
    census = Census(world)
    for _ in range(2):
        senders = Senders(census, server, MOST // 2)
        with folding(world):
            senders.wait_for(senders.sent + 100)
            time.sleep(chance.uniform(1.5, 2.5))
            if event == "power cut":
                noted.cut_power(store.server)
            else:
                store.kill()
            cut_at = time.monotonic()
            events = noted.events()
            store.start()
            senders.finish()
        world.folder.fold_once()
        counted = census.counted()
        lost = {number: at for number, at in census.acknowledged.items() if number not in counted}
        assert counted <= set(census.acknowledged)
        covered = _last_covered(events)
        assert all(at > covered for at in lost.values()), (cut_at, covered, sorted(lost.values()))
        longest = max((cut_at - at for at in lost.values()), default=0.0)
        # The project's bar is 1.5 s; a slow disk adds its own time.
        assert longest < 1.5 + 2 * _longest_sync(events)
        told = resend(census, server, list(census.acknowledged))
        print(
            f"everysec, {event}, syncs of {sync_ms} ms: {len(lost)} of {len(counted) + len(lost)} "
            f"lost, acknowledged in the last {longest:.2f} s; sent again: {dict(told)}"
        )
        assert told["accepted"] == len(lost)
        world.folder.fold_once()
        census.check()
    world.store.close()


def _last_covered(events: list[tuple[str, float, int, str]]) -> float:
    """Return when the last write began that a completed sync covers."""
    covered = under_way = float("-inf")
    for what, at, _, _ in events:
        if what == "covers":
            under_way = at
        elif what == "synced":
            covered = under_way
    return covered


def _longest_sync(events: list[tuple[str, float, int, str]]) -> float:
    longest, began = 0.0, 0.0
    for what, at, _, _ in events:
        if what == "begun":
            began = at
        elif what == "synced":
            longest = max(longest, at - began)
    return longest


def test_without_any_sync_the_cut_takes_everything(
    start_store: Callable[..., Any], new_world: Callable[..., Any], tmp_path: Path
) -> None:
    """The instrument itself: it does take what was not synced."""
    noted = NotedProgram.build(tmp_path)
    store = start_store(appendfsync="no", program=noted.program)
    world = new_world(store.url)
    for _ in range(20):
        _, device, body = Census(world).upload()
        assert world.send(device, body).status_code == 200
    assert noted.cut_power(store.server) > 0
    store.start()
    assert list(world.store.accounts.every_spent()) == [] and world.store.figures.lag() == 0
    world.store.close()

"""Closing and publishing under load: what was accepted is in the release, and no later one is.

A release is made once: publishing again, after a restart or after dying half-way, changes nothing.
"""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from aggregator.closing import close_epoch
from aggregator.connection import StoreUnavailable
from aggregator.fold import Folder
from aggregator.store import Store
from client_sdk.epochs import DAY_SECONDS, label
from client_sdk.metric import Metric
from estimator.due import close_due
from estimator.errors import NotPublishable
from estimator.publish import publish_due, publish_epoch
from estimator.source import StoreSource
from tests.faults.census import CELLS, MOST
from tests.faults.folding import folding
from tests.faults.proxy import FaultProxy, to_unix
from tests.registries import registry, theme


class Rounds:
    """Uploads of one report each, until they are told that the epoch is closed."""

    def __init__(self, world: Any, server: Any, epoch: int) -> None:
        self._world, self._server, self._epoch = world, server, epoch
        self._numbers = itertools.count()
        self.told: defaultdict[str, list[int]] = defaultdict(list)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(8)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._stop.is_set() and (number := next(self._numbers)) < MOST:
                device = self._world.device()
                cell = 1 << number % CELLS
                report = self._world.report("wide", cell, number // CELLS, epoch=self._epoch)
                body = device.batch(report)
                answer = self._server.post(device, body, session)
                while answer.status_code == 503:
                    answer = self._server.post(device, body, session)
                (verdict,) = answer.json()["reports"]
                with self._lock:
                    self.told[verdict].append(number)

    def wait_for(self, verdict: str, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.told[verdict]) < count:
            assert time.monotonic() < deadline, {key: len(at) for key, at in self.told.items()}
            time.sleep(0.005)

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def close_until_done(store: Store, metric: Metric, epoch: int) -> None:
    """Close an epoch as the schedule does: what fails is tried again."""
    while True:
        with suppress(StoreUnavailable):
            return close_epoch(store, metric, epoch)


@pytest.mark.slow
@pytest.mark.parametrize("spoilt", [0.0, 0.01])
def test_epochs_closed_under_load_hold_exactly_what_was_accepted(
    redis_url: str,
    valkey: Any,
    new_world: Callable[..., Any],
    serve: Callable[[Any], Any],
    proxy_to: Callable[..., FaultProxy],
    seed: int,
    spoilt: float,
) -> None:
    """Four epochs after one another, each by two closers at once, beside a fold worker.

    All of them, and the server, meet faults in a share of their exchanges with the store.
    """
    proxy = proxy_to(to_unix(str(valkey.socket)))
    world = new_world(f"redis://127.0.0.1:{proxy.port}/0")
    server, metric = serve(world), world.metric("wide")
    this_week = world.epoch("wide")
    for epoch in range(this_week - 3, this_week + 1):
        with folding(world, entries_per_commit=7):
            proxy.chaos(seed + epoch, spoilt)
            rounds = Rounds(world, server, epoch)
            rounds.wait_for("accepted", 150)
            closers = [
                threading.Thread(target=close_until_done, args=(world.store, metric, epoch))
                for _ in range(2)
            ]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join(60)
            rounds.wait_for("epoch_closed", 60)
            proxy.calm()
            closed = world.store.tallies.of(metric, epoch)
            rounds.finish()
        world.folder.fold_once()
        final = world.store.tallies.of(metric, epoch)
        counted = sorted(int(number) for number in final.counts.ravel().nonzero()[0])
        assert final.counts.max() == 1 and counted == sorted(rounds.told["accepted"])
        assert closed.counts.tolist() == final.counts.tolist()
        assert set(rounds.told) == {"accepted", "epoch_closed"}
    assert world.store.figures.lag() == world.store.figures.counters()["late"] == 0
    print(f"faults met: {sum(proxy.met.values())}")
    world.store.close()


PUBLISHABLE = registry(theme("light", "dark", "system", "other", epoch="day", min_reports=5))


def accept(world: Any, count: int, epoch: int) -> None:
    for number in range(count):
        device = world.device()
        answer = world.send(device, device.batch(world.report("theme", number % 4, epoch=epoch)))
        assert answer.json["reports"] == ["accepted"]


def refused_late(world: Any, epoch: int) -> None:
    device = world.device()
    answer = world.send(device, device.batch(world.report("theme", 1, epoch=epoch)))
    assert answer.json["reports"] == ["epoch_closed"]


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*.json")}


def test_publishing_again_and_across_a_restart_changes_nothing(
    start_store: Callable[..., Any], new_world: Callable[..., Any], tmp_path: Path
) -> None:
    store = start_store()
    world = new_world(store.url, registry=PUBLISHABLE)
    source, releases = StoreSource(world.store, world.catalogue), tmp_path / "releases"
    day = world.epoch("theme")
    name = label("day", day)
    accept(world, 40, day)
    (first,) = publish_epoch(source, releases, world.now, "theme", name, early=True)
    assert first.status == "OK"
    published = files(releases)
    assert len(published) == 1 and b'"n": 40' in next(iter(published.values()))
    refused_late(world, day)
    (again,) = publish_epoch(source, releases, world.now, "theme", name, early=True)
    assert again == first and files(releases) == published
    store.kill()
    with pytest.raises(StoreUnavailable):
        close_epoch(world.store, world.metric("theme"), day)
    store.start()
    refused_late(world, day)
    assert publish_due(source, releases, world.now + 30 * DAY_SECONDS) == []
    (last,) = publish_epoch(source, releases, world.now, "theme", name, early=True)
    assert last == first and files(releases) == published
    world.store.close()


def test_an_empty_epoch_is_closed_and_never_published_however_often(
    redis_url: str, new_world: Callable[..., Any], tmp_path: Path
) -> None:
    world = new_world(redis_url, registry=PUBLISHABLE)
    source, releases = StoreSource(world.store, world.catalogue), tmp_path / "releases"
    day = world.epoch("theme")
    accept(world, 10, day)
    for _ in range(2):
        with pytest.raises(NotPublishable, match="holds no reports"):
            publish_epoch(source, releases, world.now, "theme", label("day", day - 1), early=True)
        refused_late(world, day - 1)
    later = world.now + 30 * DAY_SECONDS
    for expected in (1, 0):
        close_due(source, later)
        assert len(publish_due(source, releases, later)) == expected
    assert len(files(releases)) == 1
    world.store.close()


@pytest.mark.parametrize("dies_at", ["close_intake", "commit", "freeze", "of"])
def test_a_publisher_that_dies_leaves_the_release_to_the_next(
    redis_url: str, new_world: Callable[..., Any], tmp_path: Path, dies_at: str
) -> None:
    world = new_world(redis_url, registry=PUBLISHABLE)
    releases, day = tmp_path / "releases", world.epoch("theme")
    accept(world, 20, day)
    world.folder.fold_once()
    accept(world, 20, day)
    dying = Store.connect(world.settings, world.keys.pseudonym_key)

    def dies(*arguments: Any) -> Any:
        raise StoreUnavailable("the publisher is gone")

    setattr(dying.tallies, dies_at, dies)
    later = world.now + 30 * DAY_SECONDS
    (failed,) = publish_due(StoreSource(dying, world.catalogue), releases, later)
    assert failed.status == "FAILED" and set(files(releases)) <= {"failures.json"}
    dying.close()
    (done,) = publish_due(StoreSource(world.store, world.catalogue), releases, later)
    assert done.status == "OK"
    assert any(b'"n": 40' in content for content in files(releases).values())
    world.store.close()


def test_closing_ends_when_the_store_has_lost_what_was_to_be_folded(
    start_store: Callable[..., Any], new_world: Callable[..., Any]
) -> None:
    """A power cut under everysec, after the fence was noted: there is nothing left to wait for."""
    world = new_world(start_store().url)
    done = threading.Event()

    def fold() -> None:
        Folder(world.store).fold_past(0, "99999999999999-0")
        done.set()

    threading.Thread(target=fold, daemon=True).start()
    assert done.wait(10)
    world.store.close()


def test_a_fold_does_not_count_what_the_store_has_lost_since(
    redis_url: str, new_world: Callable[..., Any]
) -> None:
    """A worker that slept through a power cut: its entries are gone, and come again."""
    world = new_world(redis_url, shards=1)
    device = world.device()
    body = device.batch(world.report("theme", 1))
    empty = _dump(redis_url)
    assert world.send(device, body).json["verdict"] == "accepted"
    sleeping = Store.connect(world.settings, world.keys.pseudonym_key)
    commit = sleeping.tallies.commit

    def late_commit(*arguments: Any) -> bool:
        _restore(redis_url, empty)
        assert world.send(device, body).json["verdict"] == "accepted"
        sleeping.tallies.commit = commit
        return commit(*arguments)

    sleeping.tallies.commit = late_commit
    Folder(sleeping).fold_once()
    world.folder.fold_once()
    tally = world.store.tallies.of(world.metric("theme"), world.epoch("theme"))
    assert tally.counts.tolist() == [[0, 1, 0, 0]]
    assert (
        world.store.figures.counters()["accepted"] == world.store.figures.counters()["folded"] == 1
    )
    sleeping.close()
    world.store.close()


def _dump(redis_url: str) -> dict[bytes, bytes]:
    with redis.Redis.from_url(redis_url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


def _restore(redis_url: str, contents: dict[bytes, bytes]) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        for key, value in contents.items():
            client.restore(key, 0, value)

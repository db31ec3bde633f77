"""Closing an epoch: an acknowledged report is in its release, a later one is told so."""

import threading
from collections import Counter
from typing import Any

import pytest
import redis

from aggregator.closing import close_again, close_epoch
from aggregator.connection import StoreUnavailable
from aggregator.group import series_of
from aggregator.store import Store


def send(world: Any, *reports: str) -> list[str]:
    device = world.device()
    answer = world.send(device, device.batch(*reports))
    assert answer.status_code == 200
    told: list[str] = answer.json["reports"]
    return told


def test_a_closed_epoch_never_changes_and_counts_the_late(world: Any) -> None:
    # C42: 5 reports after the closing are refused and visible, n stays.
    metric, week = world.metric("theme"), world.epoch("theme")
    for response in range(20):
        assert send(world, world.report("theme", response % 4)) == ["accepted"]
    close_epoch(world.store, metric, week)
    assert world.store.tallies.is_closed(metric, week)
    closed = world.store.tallies.of(metric, week)
    assert closed.n == 20 and closed.counts.tolist() == [[5, 5, 5, 5]]
    for _ in range(5):
        assert send(world, world.report("theme")) == ["epoch_closed"]
    world.folder.fold_once()
    close_epoch(world.store, metric, week)
    assert world.store.tallies.of(metric, week).counts.tolist() == closed.counts.tolist()
    assert world.store.figures.counters()["epoch_closed"] == 5


def test_closing_folds_what_is_still_in_the_streams(world: Any) -> None:
    for _ in range(30):
        send(world, world.report("theme"), world.report("crashed", 1))
    close_epoch(world.store, world.metric("theme"), world.epoch("theme"))
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 30


def test_closing_takes_earlier_epochs_with_it_and_no_other_metric(world: Any) -> None:
    week = world.epoch("theme")
    earlier, other = world.report("theme", epoch=week - 1), world.report("home_page")
    assert send(world, earlier, other, world.report("theme")) == ["accepted"] * 3
    close_epoch(world.store, world.metric("theme"), week)
    assert send(world, earlier, other) == ["epoch_closed", "accepted"]
    assert world.store.tallies.epochs_with_reports(world.metric("theme")) == [week - 1, week]
    assert not world.store.tallies.is_closed(world.metric("home_page"), week)


def test_a_closed_epoch_is_closed_for_every_version_of_the_metric(world: Any) -> None:
    close_epoch(world.store, world.metric("theme"), world.epoch("theme"))
    newer = world.catalogue.register(
        world.registry.text.replace('"system", "other"]', '"system", "sepia", "other"]')
    )
    report = world.report("theme", fingerprint=newer.metrics["theme"].fingerprint)
    assert send(world, report) == ["epoch_closed"]


def test_the_watermark_never_falls(world: Any) -> None:
    metric, week = world.metric("theme"), world.epoch("theme")
    close_epoch(world.store, metric, week)
    close_epoch(world.store, metric, week - 3)
    assert world.store.tallies.is_closed(metric, week)
    assert send(world, world.report("theme")) == ["epoch_closed"]


def test_marks_of_a_closed_epoch_are_dropped_and_memos_stay(world: Any) -> None:
    week = world.epoch("theme")
    for _ in range(10):
        send(world, *(world.report("theme", epoch=week - past) for past in range(3)))
        send(world, world.report("home_page"))
    close_epoch(world.store, world.metric("theme"), week - 1)
    close_epoch(world.store, world.metric("home_page"), week)
    with redis.Redis.from_url(world.redis_url) as client:
        marks = list(client.scan_iter(match="*:mark:*"))
        assert marks and all(f":week:theme:{week}:".encode() in mark for mark in marks)
        assert list(client.scan_iter(match="*:memo:*"))


def test_under_load_every_acknowledged_report_is_in_the_closed_tally(world: Any) -> None:
    metric, day = world.metric("crashed"), world.epoch("crashed")
    told: Counter[str] = Counter()
    lock, stop = threading.Lock(), threading.Event()

    def load() -> None:
        while not stop.is_set():
            verdicts = send(world, world.report("crashed", 1), world.report("theme"))
            with lock:
                told[verdicts[0]] += 1

    def fold() -> None:
        while not stop.is_set():
            world.folder.fold_once()

    threads = [threading.Thread(target=load) for _ in range(4)] + [threading.Thread(target=fold)]
    for thread in threads:
        thread.start()
    while told["accepted"] < 200:
        stop.wait(0.01)
    close_epoch(world.store, metric, day)
    at_closing = world.store.tallies.of(metric, day)
    while told["epoch_closed"] < 50:
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    world.folder.fold_once()
    final = world.store.tallies.of(metric, day)
    assert final.n == at_closing.n == told["accepted"] == final.counts.sum()
    counters = world.store.figures.counters()
    assert counters["late"] == 0 and world.store.figures.lag() == 0


@pytest.mark.parametrize("dies_at", ["close_intake", "commit", "freeze"])
def test_a_closing_that_died_is_finished_by_the_next(world: Any, dies_at: str) -> None:
    metric, week = world.metric("theme"), world.epoch("theme")
    for _ in range(40):
        send(world, world.report("theme"))
    dying = Store.connect(world.settings, world.keys.pseudonym_key)
    original, calls = getattr(dying.tallies, dies_at), []

    def dies(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            raise StoreUnavailable("a shard is down")
        return original(*arguments)

    setattr(dying.tallies, dies_at, dies)
    with pytest.raises(StoreUnavailable):
        close_epoch(dying, metric, week)
    dying.close()
    assert not world.store.tallies.is_closed(metric, week)
    close_epoch(world.store, metric, week)
    assert world.store.tallies.is_closed(metric, week)
    assert world.store.tallies.of(metric, week).n == 40


def test_racing_closers_agree(world: Any) -> None:
    metric, week = world.metric("theme"), world.epoch("theme")
    for _ in range(100):
        send(world, world.report("theme"))
    closers = [
        threading.Thread(target=close_epoch, args=(world.store, metric, week)) for _ in range(3)
    ]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert (
        world.store.tallies.is_closed(metric, week)
        and world.store.tallies.of(metric, week).n == 100
    )


def test_the_fold_leaves_a_frozen_tally_alone_and_goes_on(world: Any) -> None:
    # Only a store that lost its watermark (a failover) can have such entries: they are late.
    metric, week = world.metric("theme"), world.epoch("theme")
    send(world, world.report("theme"), world.report("crashed", 1))
    for shard in world.store.shards:
        world.store.tallies.freeze(shard, series_of(metric), week)
    assert world.folder.fold_once() == 1
    assert world.store.tallies.of(metric, week).n == 0
    assert world.store.tallies.of(world.metric("crashed"), world.epoch("crashed")).n == 1
    assert world.store.figures.counters()["late"] == 1 and world.store.figures.lag() == 0


@pytest.mark.parametrize("lost", [("watermarks",), ("frozen",), ("watermarks", "frozen")])
def test_a_closing_that_one_shard_has_lost_is_asserted_again(
    world: Any, lost: tuple[str, ...]
) -> None:
    # What a failover may do that takes back a shard's last second.
    metric, week = world.metric("theme"), world.epoch("theme")
    send(world, world.report("theme"))
    close_epoch(world.store, metric, week)
    assert close_again(world.store) == []
    device = world.device()
    shard = world.store._layout.all_shards[world.store._layout.place(device.id).shard]
    with redis.Redis.from_url(world.redis_url) as client:
        for name in lost:
            assert client.hdel(shard.key(name), "week:theme") == 1
    assert close_again(world.store) == ["week:theme"]
    assert close_again(world.store) == []
    assert world.store.tallies.is_closed(metric, week)
    body = device.batch(world.report("theme"))
    assert world.send(device, body).json["reports"] == ["epoch_closed"]
    assert world.store.tallies.of(metric, week).n == 1


def test_reports_taken_while_a_closing_was_lost_are_counted_and_not_kept_back(world: Any) -> None:
    metric, week = world.metric("theme"), world.epoch("theme")
    close_epoch(world.store, metric, week)
    device = world.device()
    shard = world.store._layout.all_shards[world.store._layout.place(device.id).shard]
    with redis.Redis.from_url(world.redis_url) as client:
        client.delete(shard.key("watermarks"), shard.key("frozen"))
    assert world.charged(device, world.report("theme")) == ["accepted"]
    close_again(world.store)
    assert world.store.tallies.of(metric, week).n == 1 and world.store.figures.lag() == 0

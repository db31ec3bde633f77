"""The fold: sums are right, each report is in them exactly once, whoever races or dies."""

import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import redis

from aggregator.columns import column_sums
from aggregator.connection import Connection, StoreUnavailable
from aggregator.fold import Folder, summed
from aggregator.group import Group, parse_group
from aggregator.recovery.witness import Witness
from aggregator.store import Store
from aggregator.tally import Tally, pack_counts
from client_sdk.mechanisms import Mechanism, Rappor, build
from tests.aggregator.conftest import REGISTRY


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(build("randomized_response", domain=2, epsilon=1), id="one-bit"),
        pytest.param(build("generalized_randomized_response", domain=300, epsilon=1), id="cells"),
        pytest.param(build("optimized_unary", domain=17, epsilon=1), id="bits"),
        pytest.param(Rappor(8, 2, 5, f="0.5", p="0.25", q="0.75"), id="cohorts"),
        pytest.param(
            build("hadamard_count_mean_sketch", epsilon=1, cells=16, hashes=2048),
            id="cohorts, some",
        ),
        pytest.param(
            build("hadamard_count_mean_sketch", epsilon=1, cells=32768, hashes=9),
            id="cells-in-cohorts",
        ),
        pytest.param(Rappor(4096, 2, 65536, f="0.5", p="0.25", q="0.75"), id="widest"),
    ],
)
def test_sums_are_the_supports_that_the_mechanism_states(mechanism: Mechanism) -> None:
    chance = random.Random(1)
    most = mechanism.cells if mechanism.kind == "cell" else 1 << mechanism.cells
    sent = [
        (chance.randrange(mechanism.cohorts), chance.randrange(most))
        for _ in range(20 if mechanism.cells > 1000 else 1400)
    ]
    group = Group("week:m", 3, "0" * 16, mechanism.kind, mechanism.cells)
    assert parse_group(group.name.encode()) == group
    rows = np.frombuffer(b"".join(group.row(*report) for report in sent), np.uint8)
    cohorts, sums = summed(group, rows.reshape(len(sent), -1))
    assert cohorts == sorted({cohort for cohort, _ in sent})
    for cohort, row in zip(cohorts, sums, strict=True):
        own = [response for at, response in sent if at == cohort]
        expected = [0] * mechanism.cells
        for response in own:
            for cell in mechanism.support(response):
                expected[cell] += 1
        assert row.tolist() == [len(own), *expected]


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 511, 512, 513, 1535, 1536, 5000])
def test_column_sums_are_those_of_the_unpacked_bits(count: int) -> None:
    rows = np.random.default_rng(count).integers(0, 256, (count, 5), np.uint8)
    rows[:, 3] = 255
    expected = np.unpackbits(rows, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    assert column_sums(rows).tolist() == expected.tolist()


def test_a_counter_that_would_overflow_is_an_error_not_a_wrong_number() -> None:
    with pytest.raises(OverflowError, match="32 bits"):
        pack_counts(np.array([2**32], np.int64))


def own_bit(world: Any, number: int) -> str:
    """A report that sets one bit nobody else sets, so a count above 1 is a double count."""
    cell, cohort = number % 2048, number // 2048
    return world.report("wide", 1 << cell, cohort)


def send_own_bits(world: Any, numbers: range) -> None:
    for number in numbers:
        device = world.device()
        body = device.batch(own_bit(world, number), world.report("theme", number % 4))
        assert world.send(device, body).status_code == 200


def wide_tally(world: Any) -> Tally:
    tally: Tally = world.store.tallies.of(world.metric("wide"), world.epoch("wide"))
    return tally


def assert_exactly_once(world: Any, count: int) -> None:
    tally = wide_tally(world)
    assert tally.counts.max() == 1 and tally.counts.sum() == tally.n == count
    theme = world.store.tallies.of(world.metric("theme"), world.epoch("theme"))
    assert theme.n == theme.counts.sum() == count
    counters = world.store.figures.counters()
    assert counters["accepted"] == counters["folded"] == 2 * count
    assert world.store.figures.lag() == 0


def test_each_report_is_counted_exactly_once(world: Any) -> None:
    send_own_bits(world, range(300))
    assert world.store.figures.lag() == 600
    assert world.folder.fold_once() == 600
    assert_exactly_once(world, 300)
    assert world.folder.fold_once() == 0
    send_own_bits(world, range(300, 400))
    world.folder.fold_once()
    assert_exactly_once(world, 400)


def test_folded_reports_are_counted_by_metric_and_version(world: Any) -> None:
    send_own_bits(world, range(30))
    world.folder.fold_once()
    before, wide = world.metric("theme"), world.metric("wide")
    text = REGISTRY.replace('"light", "dark", "system"', '"light", "dark", "night"')
    world.registry = world.catalogue.register(text)
    later = world.metric("theme")
    assert later.fingerprint != before.fingerprint
    for _ in range(7):
        assert world.charged(world.device(), world.report("theme")) == ["accepted"]
    world.folder.fold_once()
    folded = world.store.figures.folded()
    assert folded == {
        ("theme", before.fingerprint): 30,
        ("theme", later.fingerprint): 7,
        ("wide", wide.fingerprint): 30,
    }
    # They are the reports in tallies.
    for metric in (before, later, wide):
        tally = world.store.tallies.of(metric, world.epoch(metric.name))
        assert tally.n == folded[metric.name, metric.fingerprint]


def test_reports_that_were_counted_by_name_alone_still_count(world: Any) -> None:
    world.charged(world.device(), world.report("theme"))
    world.folder.fold_once()
    with redis.Redis.from_url(world.redis_url) as client:
        client.hincrby(world.store._layout.all_shards[3].key("reports"), "theme", 5)
    fingerprint = world.metric("theme").fingerprint
    assert world.store.figures.folded() == {("theme", ""): 5, ("theme", fingerprint): 1}


def test_folded_reports_are_gone_and_the_stream_stays(world: Any) -> None:
    send_own_bits(world, range(60))
    world.folder.fold_once()
    with redis.Redis.from_url(world.redis_url) as client:
        streams = list(client.scan_iter(match="*:stream"))
        assert streams and all(client.xlen(stream) == 0 for stream in streams)
        assert all(client.xinfo_stream(stream)["last-generated-id"] != b"0-0" for stream in streams)


def test_a_commit_trims_exactly_what_it_folded(
    redis_url: str, new_world: Callable[..., Any]
) -> None:
    # "~" would keep a node of the stream until all of its entries may go.
    world = new_world(redis_url, shards=1)
    send_own_bits(world, range(5))
    assert Folder(world.store, entries_per_commit=3).fold_shard(0) == (6, True)
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen("{s00}:stream") == 2
    world.folder.fold_once()
    assert_exactly_once(world, 5)
    world.store.close()


def test_uploads_of_the_same_groups_in_any_order_share_a_field(world: Any) -> None:
    reports = [world.report("theme"), world.report("crashed"), world.report("home_page")]
    for order in (reports, reports[::-1], [reports[1], reports[0], reports[2]]):
        device = world.device()
        world.send(device, device.batch(*order))
    fields = set()
    with redis.Redis.from_url(world.redis_url) as client:
        for stream in client.scan_iter(match="*:stream"):
            for _, entry in client.xrange(stream):
                fields |= set(entry)
    assert len(fields) == 1


def test_racing_folders_count_exactly_once(world: Any) -> None:
    # Small commits, so that they meet often.
    total = 1200
    stop = threading.Event()
    lost = []

    def fold() -> None:
        store = Store.connect(world.settings, world.keys.pseudonym_key)
        folder = Folder(store, entries_per_commit=2)
        commit = store.tallies.commit

        def counted(*arguments: Any) -> bool:
            done = commit(*arguments)
            if not done:
                lost.append(1)
            return done

        store.tallies.commit = counted
        while not stop.is_set() or world.store.figures.lag() > 0:
            folder.fold_once()
        store.close()

    folders = [threading.Thread(target=fold) for _ in range(3)]
    for thread in folders:
        thread.start()
    senders = [
        threading.Thread(target=send_own_bits, args=(world, range(start, total, 3)))
        for start in range(3)
    ]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join()
    stop.set()
    for thread in folders:
        thread.join()
    assert_exactly_once(world, total)
    assert lost  # they did race


def test_a_folder_that_was_overtaken_commits_nothing(world: Any) -> None:
    send_own_bits(world, range(200))
    shard = next(
        shard for shard in world.store.shards if world.store.tallies.unfolded(shard, 9).entries
    )
    group = Group.of(world.metric("wide"), world.epoch("wide"))
    read = world.store.tallies.unfolded(shard, 2000)
    world.folder.fold_once()
    change = {group: {0: pack_counts(np.full(2049, 7, np.int64))}}
    assert not world.store.tallies.commit(shard, read, change, {}, {group: 5}, 0, 0.0)
    assert_exactly_once(world, 200)


def test_popcounts_are_kept_beside_the_tally(world: Any) -> None:
    assert world.store.tallies.popcounts(world.metric("wide"), world.epoch("wide")) == (0,) * 2049
    assert world.store.tallies.popcounts(world.metric("theme"), world.epoch("theme")) == ()
    for number, bits in enumerate((0, 1, 3, 0b1011, (1 << 2048) - 1, 7)):
        device = world.device()
        body = device.batch(world.report("wide", bits), world.report("theme", number % 4))
        assert world.send(device, body).status_code == 200
        if number % 2:
            world.folder.fold_once()
    popcounts = world.store.tallies.popcounts(world.metric("wide"), world.epoch("wide"))
    assert {bits: n for bits, n in enumerate(popcounts) if n} == {0: 1, 1: 1, 2: 1, 3: 2, 2048: 1}
    assert wide_tally(world).n == sum(popcounts)


def test_a_folder_that_was_overtaken_in_part_between_any_two_steps_counts_once(
    redis_url: str, new_world: Callable[..., Any]
) -> None:
    # The last of what it read is still there: only the cursor tells, and only if it was read first.
    world = new_world(redis_url, shards=1)
    slow = Store.connect(world.settings, world.keys.pseudonym_key)
    tallies = slow.tallies
    call, commit, steps = tallies._call, tallies.commit, iter(())

    def overtaken() -> None:
        if next(steps, None) == 0:
            Folder(world.store, entries_per_commit=2).fold_shard(0)

    def slow_call(*command: Any) -> Any:
        overtaken()
        return call(*command)

    def slow_commit(*arguments: Any) -> bool:
        overtaken()
        return commit(*arguments)

    tallies._call, tallies.commit = slow_call, slow_commit
    for step in itertools.count():
        send_own_bits(world, range(5 * step, 5 * step + 5))
        steps = iter(range(step, -1, -1))
        Folder(slow).fold_shard(0)
        was_overtaken = next(steps, None) is None
        world.folder.fold_once()
        assert_exactly_once(world, 5 * step + 5)
        if not was_overtaken:
            break
    assert step >= 4  # cursor, entries, frozen epochs, counts, commit
    slow.close()
    world.store.close()


def test_a_full_store_drains(world: Any) -> None:
    send_own_bits(world, range(50))
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("maxmemory", 1)
        try:
            assert world.folder.fold_once() == 100
        finally:
            admin.config_set("maxmemory", 0)
    assert_exactly_once(world, 50)


def test_the_fold_survives_an_outage(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    send_own_bits(world, range(20))
    store = Store.connect(world.settings, world.keys.pseudonym_key)
    unfolded, failures = store.tallies.unfolded, iter([True, True])

    def failing(shard: int, most: int) -> Any:
        if next(failures, False):
            raise StoreUnavailable("the store cannot be reached")
        return unfolded(shard, most)

    store.tallies.unfolded = failing
    stop = threading.Event()
    folder = Folder(store)
    thread = threading.Thread(target=folder.run, args=(stop, 0.01))
    thread.start()
    while world.store.figures.lag() > 0:
        stop.wait(0.01)
    stop.set()
    thread.join()
    assert_exactly_once(world, 20)
    assert [record.message for record in caplog.records] == [
        "fold waits: the store cannot be reached",
        "fold goes on",
    ]
    store.close()


def away_from(world: Any) -> Store:
    witness = Witness.beside(world.settings.keys_file)
    return Store(Connection("redis://127.0.0.1:1", 0.5), world.store._layout, witness)


def test_a_store_that_is_away_ends_one_pass_cleanly(world: Any) -> None:
    away = away_from(world)
    with pytest.raises(StoreUnavailable):
        Folder(away).fold_once()

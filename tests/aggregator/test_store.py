"""The store: budgets, marks, encodings, and the stores that it refuses to work with."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator import intake
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.ledger import Record
from aggregator.store import Store
from aggregator.store.layout import Shard
from client_sdk.report import REFUSAL_REASONS

SCRIPTS = sorted(
    Path(__file__).parents[2].joinpath("aggregator", "lua").glob("*.lua"),
    key=lambda path: path.name,
)


def test_the_budget_is_spent_to_the_cap_and_no_further(world: Any) -> None:
    device = world.device()
    week = world.epoch("theme")
    body = device.batch(*(world.report("theme", epoch=week - past) for past in range(40)))
    batch = intake.judge(intake.parse(body), world.catalogue.current(), world.now)
    answer = world.store.apply(batch, 10_999_999)
    assert answer.reports == ("accepted",) * 10 + ("budget_exhausted",) * 30
    assert answer.spent == world.store.accounts.spent(device.id) == 10_000_000


def test_64_uploads_at_once_cannot_overspend(world: Any) -> None:
    # One device, 64 sequences, room for one report: whichever comes first gets it. Sequences that
    # are overtaken are then clones, the others find the budget exhausted.
    device = world.device()
    versions = world.catalogue.current()
    batches = [
        intake.judge(
            intake.parse(device.batch(world.report("theme", epoch=world.epoch("theme") - i % 40))),
            versions,
            world.now,
        )
        for i in range(64)
    ]
    gate = threading.Barrier(64)

    def send(batch: Any) -> Any:
        gate.wait()
        return world.store.apply(batch, 1_900_000)

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(send, batches))
    accepted = sum(answer.reports == ("accepted",) for answer in answers)
    assert accepted == 1 == world.store.figures.counters()["accepted"]
    assert world.store.accounts.spent(device.id) == 1_000_000
    assert all(answer.spent <= 1_900_000 for answer in answers)


def test_a_batch_that_cannot_be_appended_leaves_no_trace(world: Any) -> None:
    # Lua is not rolled back: whatever came before the failed write would stay.
    device = world.device()
    body = device.batch(world.report("theme", 1), world.report("home_page"))
    stream = Shard(world.store._layout.place(device.id).shard).key("stream")
    with redis.Redis.from_url(world.redis_url) as client:
        client.set(stream, "no stream")
        assert world.send(device, body).status_code == 500
        client.delete(stream)
    assert world.contents() == {}
    answer = world.send(device, body).json
    assert (answer["verdict"], answer["reports"]) == ("accepted", ["accepted"] * 2)


def test_a_memoized_metric_is_charged_once_in_a_life(world: Any) -> None:
    device = world.device()
    week = world.epoch("home_page")
    first = device.batch(world.report("home_page"), world.report("home_page", epoch=week - 1))
    assert world.send(device, first).json["spent"] == 8_000_000
    for past in range(2, 5):
        body = device.batch(world.report("home_page", epoch=week - past))
        answer = world.send(device, body).json
        assert (answer["reports"], answer["spent"]) == (["accepted"], 8_000_000)


def test_a_paid_memo_reports_even_when_the_budget_is_gone(world: Any) -> None:
    device = world.device()
    versions, week = world.catalogue.current(), world.epoch("home_page")

    def answer(*reports: str, cap: int) -> Any:
        upload = intake.parse(device.batch(*reports))
        return world.store.apply(intake.judge(upload, versions, world.now), cap)

    assert answer(world.report("home_page"), cap=8_000_000).reports == ("accepted",)
    later = (world.report("home_page", epoch=week - 1), world.report("crashed"))
    assert answer(*later, cap=8_000_000).reports == ("accepted", "budget_exhausted")


def test_an_unknown_device_has_no_record(world: Any) -> None:
    assert world.store.accounts.spent("0" * 32) is None
    assert list(world.store.accounts.every_spent()) == []


def test_the_ledger_lists_what_every_device_has_spent(world: Any) -> None:
    for _ in range(20):
        device = world.device()
        world.send(device, device.batch(world.report("theme")))
        world.send(device, device.batch(world.report("crashed")))
        assert world.store.accounts.spent(device.id) == 1_500_000
    assert list(world.store.accounts.every_spent()) == [1_500_000] * 20


def test_a_record_holds_48_bits_of_epsilon_and_32_of_sequence() -> None:
    packed = bytes.fromhex("fffffffffffffffffffe") + b"d" * 16
    assert Record.unpack(packed) == Record(2**48 - 1, 2**32 - 2, b"d" * 16)


def test_large_figures_pass_through_the_script_exactly(world: Any) -> None:
    # Lua numbers are doubles: 2**32 and above must survive packing.
    device = world.device()
    place = world.store._layout.place(device.id)
    ledger = Shard(place.shard).in_bucket("ledger", place.bucket)
    spent = 2**47 + 12_345
    with redis.Redis.from_url(world.redis_url) as client:
        client.hset(ledger, place.pseudonym, spent.to_bytes(6, "big") + bytes(20))
    upload = intake.parse(device.batch(world.report("theme"), sequence=2**32 - 1))
    batch = intake.judge(upload, world.catalogue.current(), world.now)
    assert world.store.apply(batch, 2**48).spent == spent + 1_000_000
    with redis.Redis.from_url(world.redis_url) as client:
        record = Record.unpack(client.hget(ledger, place.pseudonym))
    assert (record.spent, record.sequence) == (spent + 1_000_000, 2**32 - 1)
    assert record.digest == upload.digest


def test_records_and_marks_stay_in_compact_encodings(world: Any) -> None:
    # 8,192 planned devices make one bucket a shard, so three times as many fill buckets to ~384.
    versions = world.catalogue.current()
    for _ in range(1000):
        device = world.device()
        device.id = device.id[:-8] + "0" * 8
        upload = intake.parse(device.batch(world.report("theme"), world.report("home_page")))
        world.store.apply(intake.judge(upload, versions, world.now), versions.cap)
    with redis.Redis.from_url(world.redis_url) as client:
        kinds = {"ledger": "listpack", "mark": "intset", "memo": "intset"}
        for kind, wanted in kinds.items():
            keys = list(client.scan_iter(match=f"*:{kind}:*", count=1000))
            encodings = {client.object("ENCODING", key).decode() for key in keys}
            assert encodings == {wanted}, kind
        ledgers = list(client.scan_iter(match="*:ledger:*", count=1000))
        assert sum(client.hlen(key) for key in ledgers) == 1000


def test_every_key_of_a_shard_carries_its_hash_tag(world: Any) -> None:
    device = world.device()
    world.send(device, device.batch(world.report("theme"), world.report("home_page")))
    world.folder.fold_once()
    tag = Shard(world.store._layout.place(device.id).shard).tag.encode()
    with redis.Redis.from_url(world.redis_url) as client:
        keys = [key for key in client.scan_iter() if not key.startswith(b"{meta}:")]
    assert len(keys) == 12 and all(key.startswith(tag + b":") for key in keys)


def test_scripts_lost_by_the_store_are_loaded_again(world: Any) -> None:
    device = world.device()
    for sequence in (1, 2):
        with redis.Redis.from_url(world.redis_url) as client:
            client.script_flush()
        body = device.batch(world.report("theme", epoch=world.epoch("theme") - sequence))
        assert world.send(device, body).json["verdict"] == "accepted"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_only_scripts_that_drain_charge_or_erase_may_write_into_a_full_store(script: Path) -> None:
    first = script.read_text().splitlines()[0]
    flags = dict.fromkeys(("fold", "close", "generation", "surcharge", "erase"), " flags=allow-oom")
    readers = ("bucket", "figures", "pairs", "permissions")
    flags |= dict.fromkeys(readers, " flags=no-writes")
    assert first == "#!lua" + flags.get(script.stem, "")


def test_every_reason_of_refusal_has_a_counter(world: Any) -> None:
    assert set(REFUSAL_REASONS) <= set(world.store.figures.counters())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"shards": 8}, "SOTTOVOCE_SHARDS=64"),
        ({"planned_devices": 10**7}, "SOTTOVOCE_PLANNED_DEVICES"),
    ],
)
def test_a_store_begun_with_another_shape_is_refused(
    world: Any, change: dict[str, int], told: str
) -> None:
    other = Store.connect(replace(world.settings, **change), world.keys.pseudonym_key)
    with pytest.raises(StoreRefused, match=told):
        other.check()
    other.close()


def test_a_store_begun_with_another_pseudonym_key_is_refused(world: Any) -> None:
    other = Store.connect(world.settings, b"x" * 32)
    with pytest.raises(StoreRefused, match="restore the key file"):
        other.check()
    other.close()


def test_a_store_that_may_evict_is_refused_and_not_ready(world: Any) -> None:
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(StoreRefused, match="CONFIG SET maxmemory-policy noeviction"):
                world.store.check()
            answer = world.app.test_client().get("/readyz")
        finally:
            admin.config_set("maxmemory-policy", "noeviction")
    assert answer.status_code == 503 and "noeviction" in answer.json["detail"]


def test_an_upload_that_no_replica_has_is_not_acknowledged(world: Any) -> None:
    wary = Store.connect(replace(world.settings, wait_replicas=1), world.keys.pseudonym_key)
    upload = intake.parse(world.device().batch(world.report("theme")))
    batch = intake.judge(upload, world.catalogue.current(), world.now)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="0 replicas have this write, 1 must"):
            wary.apply(batch, 10_000_000)
    wary.close()
    assert world.store.apply(batch, 10_000_000).verdict == "duplicate"
    assert world.folder.fold_once() == 1


def test_a_store_without_compact_encodings_is_warned_of(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.store.warn_of_settings()
    assert not caplog.records
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("hash-max-listpack-entries", 511)
        try:
            world.store.warn_of_settings()
        finally:
            admin.config_set("hash-max-listpack-entries", 512)
        assert not list(admin.scan_iter(match="*:probe"))
    assert "CONFIG SET hash-max-listpack-entries 512" in caplog.text


def test_a_busy_store_is_unavailable_and_comes_back(world: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme"))

    def run_without_end() -> None:
        with redis.Redis.from_url(world.redis_url) as client, suppress(redis.ResponseError):
            client.eval("while true do end", 0)

    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("busy-reply-threshold", 10)
        stuck = threading.Thread(target=run_without_end)
        stuck.start()
        try:
            with pytest.raises(redis.ResponseError, match="BUSY"):
                while admin.ping():
                    pass
            assert world.send(device, body).status_code == 503
        finally:
            admin.script_kill()
            stuck.join()
            admin.config_set("busy-reply-threshold", 5000)
    assert world.send(device, body).json["verdict"] == "accepted"

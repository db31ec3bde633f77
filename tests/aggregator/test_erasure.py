"""Erasing a device: everything under its pseudonym goes, nothing comes back, tallies stay."""

import json
import logging
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.closing import close_epoch
from aggregator.fold import Folder
from aggregator.intake import judge, parse
from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.kinds import MasterKey, OpeningKey
from aggregator.keyring.rotation import retire, rotate
from aggregator.machine.embedded import EmbeddedServer
from aggregator.recovery.erasure import erase, erase_again
from aggregator.recovery.restore import recover
from aggregator.recovery.tombstones import FILE_NAME, Tombstones
from aggregator.server import prepare
from aggregator.store import Store
from aggregator.store.layout import Place, Shard
from client_sdk import Client, loads
from client_sdk.authentication import (
    MAC_HEADER,
    answer_mac,
    batch_mac,
    erase_mac,
    erased_mac,
)
from client_sdk.epochs import DAY_SECONDS
from client_sdk.report import (
    ERASE_PATH,
    REPORTS_PATH,
    SEALED_TYPE,
    Report,
    encode_erasure,
    report_to_json,
)
from client_sdk.sealed_transport import SealedTransport
from client_sdk.sealing import seal_upload
from client_sdk.state import State
from client_sdk.testing import WsgiTransport
from client_sdk.transport import Reply
from estimator.source import StoreSource
from tests.aggregator.contract import conforming

NONCE = "0123456789abcdef" * 2


def ask(world: Any, device: Any, body: bytes | None = None, mac: str | None = None) -> Any:
    """POST a request to be erased; by default a good one."""
    sent = encode_erasure(device.id, NONCE) if body is None else body
    headers = {MAC_HEADER: erase_mac(device.key, sent) if mac is None else mac}
    return world.app.test_client().post(
        ERASE_PATH, data=sent, headers=headers, content_type="application/json"
    )


def place_of(world: Any, device: Any) -> Place:
    found: Place = world.store.erasures.place(device.id)
    return found


def traces(world: Any, device: Any) -> dict[str, int]:
    """Every key of the store that knows the device, with how often; the tombstone apart."""
    place = place_of(world, device)
    found = {}
    with redis.Redis.from_url(world.redis_url) as client:
        for key in client.scan_iter():
            kind = client.type(key)
            if kind == b"hash" and client.hexists(key, place.pseudonym):
                found[key.decode()] = 1
            if kind == b"set" and client.sismember(key, place.member):
                found[key.decode()] = 1
    found.pop(Shard(place.shard).in_bucket("erased", place.bucket), None)
    return found


def tallies(world: Any) -> dict[bytes, bytes]:
    return {key: value for key, value in world.contents().items() if b":tally:" in key}


def planted(world: Any) -> Any:
    """A device with a record, answers of a mixed batch, marks and memos."""
    device = world.device()
    day = world.epoch("crashed")
    reports = [world.report(name) for name in ("theme", "plan", "crashed")]
    reports += [world.report("crashed", epoch=day - past) for past in (1, 29)]
    wide = world.report("wide", 5)
    world.charged(device, *reports, world.report("home_page"), wide)
    world.charged(device, world.report("theme"))  # already reported: answers hold that
    return device


def test_everything_under_the_pseudonym_goes_and_tallies_stay(world: Any) -> None:
    device, other = planted(world), planted(world)
    world.folder.fold_once()
    before, kept = tallies(world), traces(world, other)
    assert {key.split(":")[1] for key in traces(world, device)} == {
        "ledger",
        "answers",
        "mark",
        "memo",
    }
    answer = ask(world, device)
    assert answer.status_code == 200
    assert answer.json == {"verdict": "erased", "mac": erased_mac(device.key, NONCE)}
    assert traces(world, device) == {}
    assert world.store.accounts.spent(device.id) is None
    assert tallies(world) == before and traces(world, other) == kept
    assert world.store.figures.counters()["erasures"] == 1


def test_erasing_again_says_the_same_and_changes_nothing(world: Any) -> None:
    device = planted(world)
    first = ask(world, device)
    contents, noted = world.contents(), (world.settings.keys_file.parent / FILE_NAME).read_bytes()
    assert ask(world, device).get_data() == first.get_data()
    assert world.contents() == contents
    assert (world.settings.keys_file.parent / FILE_NAME).read_bytes() == noted


def test_what_waits_in_the_stream_is_counted_all_the_same(world: Any) -> None:
    device = world.device()
    assert world.charged(device, world.report("theme", 2)) == ["accepted"]
    ask(world, device)
    assert world.folder.fold_once() == 1
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).reports.sum() == 1


def test_a_batch_of_an_erased_device_is_gone_with_a_mac_and_leaves_nothing(world: Any) -> None:
    device = planted(world)
    ask(world, device)
    contents = world.contents()
    body = device.batch(world.report("crashed", epoch=world.epoch("crashed") - 2))
    answer = world.send(device, body)
    assert answer.status_code == 410
    told = answer.json
    assert told["type"] == "urn:sottovoce:problem:erased"
    assert (told["verdict"], told["spent"], told["reports"]) == ("erased", 0, [])
    nonce = json.loads(body)["nonce"]
    assert told["mac"] == answer_mac(device.key, nonce, device.sequence, "erased", 0, [])
    assert world.contents() == contents


def test_a_device_that_never_reported_is_erased_too(world: Any) -> None:
    device = world.device()
    assert ask(world, device).status_code == 200
    assert world.send(device, device.batch(world.report("theme"))).status_code == 410


def app_after_retiring(world: Any) -> Any:
    """The server's application once the master key of all devices so far was retired."""
    rotate(world.settings.keys_file, MasterKey, date(2026, 12, 1))
    retire(world.settings.keys_file, MasterKey, 1, date(2026, 12, 1))
    keys = KeyFile(world.settings.keys_file)
    return conforming(
        create_app(store=world.store, keys=keys, catalogue=world.catalogue, clock=lambda: world.now)
    )


def test_an_erased_device_is_told_so_also_under_a_retired_master_key(world: Any) -> None:
    device, other, stranger = planted(world), planted(world), world.device()
    assert ask(world, device).status_code == 200
    world.app = app_after_retiring(world)
    contents = world.contents()
    body = device.batch(world.report("theme"))
    answer = world.send(device, body)
    assert answer.status_code == 410
    nonce = json.loads(body)["nonce"]
    assert answer.json["mac"] == answer_mac(device.key, nonce, device.sequence, "erased", 0, [])
    revoked = world.send(other, other.batch(world.report("theme")))
    assert revoked.json["verdict"] == "identity_revoked"
    # Nobody without its key learns that it was erased.
    forged = world.app.test_client().post(REPORTS_PATH, data=body, headers=stranger.headers(body))
    assert forged.json["type"].endswith(":bad_mac")
    assert world.contents() == contents


def test_a_copy_of_an_erased_device_stays_silent_when_its_master_key_is_retired(
    world: Any, tmp_path: Path
) -> None:
    def run(app: Any, where: str) -> Client:
        client = Client(
            world.registry,
            enabled=True,
            respect_environment=False,
            state_dir=tmp_path / where,
            transport=WsgiTransport(app.test_client(), world.keys.write_key),
            clock=lambda: world.now,
        )
        client.record("crashed", True)
        client.flush()
        return client

    run(world.app, "device").close()
    shutil.copytree(tmp_path / "device", tmp_path / "copy")
    world.now += DAY_SECONDS
    client = run(world.app, "device")
    assert client.erase()
    client.close()
    app = app_after_retiring(world)
    before = world.store.figures.counters()["accepted"]
    assert before == 2
    for _ in range(3):
        run(app, "copy").close()
        world.now += DAY_SECONDS
    assert world.store.figures.counters()["accepted"] == before


def test_a_store_put_back_by_a_backup_does_not_tell_who_was_erased(world: Any) -> None:
    for _ in range(2):
        world.store.raise_generation(world.now)
    device = planted(world)
    backup = snapshot(world.redis_url)
    for _ in range(3):
        world.store.raise_generation(world.now)
    assert ask(world, device).status_code == 200
    world.app = app_after_retiring(world)
    put_back(world.redis_url, backup)
    assert world.send(device, device.batch(world.report("theme"))).status_code == 503


def test_marks_and_memos_of_a_metric_that_was_registered_elsewhere_just_now_go_too(
    world: Any,
) -> None:
    device = planted(world)
    more = (
        world.registry.text
        + """
[metrics.fresh]
question = "Which other site?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 32, hashes = 2, cohorts = 4 }
epoch = "week"
owners = ["ui@example.org"]
starts = 2026-01-01
expires = 2027-12-31
"""
    )
    there = Catalogue(world.store)
    fresh = there.register(more).metrics["fresh"]
    report = Report("fresh", fresh.fingerprint, world.epoch("theme"), 0, 0)
    body = device.batch(report_to_json(report, fresh.mechanism))
    batch = judge(parse(body), there.current(), world.now)
    assert world.store.apply(batch, there.current().cap).reports == ("accepted",)
    assert any("memo" in key for key in traces(world, device))
    assert ask(world, device).status_code == 200
    assert traces(world, device) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"device": "A" * 32},
        {"device": "a" * 31},
        {"nonce": 5},
        {"nonce": "0" * 33},
        {"more": 1},
        {"sequence": 1},
    ],
    ids=str,
)
def test_a_body_of_another_form_is_malformed(world: Any, change: dict[str, Any]) -> None:
    device = planted(world)
    contents = world.contents()
    document = {"version": 1, "device": device.id, "nonce": NONCE, **change}
    body = json.dumps({k: v for k, v in document.items() if v is not None}).encode()
    answer = ask(world, device, body)
    assert (answer.status_code, answer.json["type"][-9:]) == (400, "malformed")
    assert device.id not in answer.get_data(as_text=True)
    assert world.contents() == contents


def test_nobody_else_can_have_a_device_erased(world: Any) -> None:
    device, other = planted(world), world.device()
    contents = world.contents()
    body = encode_erasure(device.id, NONCE)
    for mac in (
        "",
        "0" * 64,
        erase_mac(other.key, body),
        # The MAC of a batch with these bytes, which a device might be made to sign.
        batch_mac(device.key, body),
        erase_mac(device.key, body + b" "),
    ):
        assert ask(world, device, body, mac).status_code == 401
    batch = device.batch(world.report("theme"))
    stray = world.app.test_client().post(ERASE_PATH, data=batch, headers=device.headers(batch))
    assert stray.status_code == 400
    assert world.contents() == contents


def test_an_erasure_may_be_sealed_and_must_be_where_plain_uploads_are_refused(world: Any) -> None:
    rotate(world.settings.keys_file, OpeningKey, date(2026, 11, 30))
    keys = KeyFile(world.settings.keys_file)
    world.app = create_app(
        store=world.store,
        keys=keys,
        catalogue=world.catalogue,
        clock=lambda: world.now,
        plain_uploads=False,
    )
    device = planted_by_store(world)
    assert ask(world, device).status_code == 415
    body = encode_erasure(device.id, NONCE)
    (key,) = keys.current().sealing_keys
    sealed = seal_upload(key.public, body, erase_mac(device.key, body))
    answer = world.app.test_client().post(ERASE_PATH, data=sealed, content_type=SEALED_TYPE)
    assert answer.json == {"verdict": "erased", "mac": erased_mac(device.key, NONCE)}
    assert traces(world, device) == {}
    # Sealed for one address it is nothing at the other.
    for path, mac in ((REPORTS_PATH, erase_mac), (ERASE_PATH, batch_mac)):
        stray = seal_upload(key.public, body, mac(device.key, body))
        answer = world.app.test_client().post(path, data=stray, content_type=SEALED_TYPE)
        assert answer.status_code in (400, 401)


def planted_by_store(world: Any) -> Any:
    """As `planted`, past the HTTP face."""
    device = world.device()
    versions = world.catalogue.load()
    batch = judge(parse(device.batch(world.report("theme"))), versions, world.now)
    assert world.store.apply(batch, versions.cap).verdict == "accepted"
    return device


def test_marks_of_frozen_epochs_are_gone_before_and_are_not_asked_for(world: Any) -> None:
    device = planted(world)
    metric, day = world.metric("crashed"), world.epoch("crashed")
    world.now += 6 * DAY_SECONDS
    close_epoch(world.store, metric, day)
    ask(world, device)
    assert traces(world, device) == {}


def test_of_parallel_uploads_and_erasures_nothing_survives(world: Any) -> None:
    device = world.device()
    days = range(20)
    bodies = [
        device.batch(world.report("crashed", epoch=world.epoch("crashed") - day)) for day in days
    ]

    def upload() -> None:
        for body in bodies:
            world.send(device, body)

    threads = [threading.Thread(target=upload) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: ask(world, device)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traces(world, device) == {}
    assert world.send(device, bodies[-1]).status_code == 410


def test_an_erasure_is_noted_where_no_backup_takes_it_before_the_store_erases(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = planted(world)
    noted = world.settings.keys_file.parent / FILE_NAME
    noted.mkdir()  # cannot be written
    answer = ask(world, device)
    assert answer.status_code == 503 and FILE_NAME in answer.json["detail"]
    assert str(noted.parent) not in answer.get_data(as_text=True)
    assert traces(world, device)
    noted.rmdir()
    assert ask(world, device).status_code == 200
    place = place_of(world, device)
    assert Tombstones(noted).places() == [place]
    assert noted.read_text() == f"{place.shard} {place.bucket} {place.pseudonym.hex()}\n"
    assert noted.stat().st_mode & 0o077 == 0


def test_a_line_that_a_power_cut_has_torn_costs_no_other(tmp_path: Path) -> None:
    file = Tombstones(tmp_path / FILE_NAME)
    first, second = Place(1, 2, b"12345678"), Place(63, 121, b"\xff" * 8)
    file.note(first)
    with (tmp_path / FILE_NAME).open("ab") as open_file:
        open_file.write(b"63 121 ffff")
    file.note(second)
    assert file.places() == [first, second]
    file.note(second)
    assert file.places() == [first, second]
    assert Tombstones(tmp_path / "none").places() == []


@pytest.mark.parametrize("space", [1, 12, 20])  # of the line's 21 bytes
def test_a_line_that_a_full_disk_has_cut_is_no_erasure_and_costs_no_other(
    tmp_path: Path, space: int
) -> None:
    """write(2) then says how much it took, and raises nothing."""
    first, second = Place(3, 7, bytes(8)), Place(1, 2, b"12345678")
    program = f"""
import resource
from pathlib import Path
from aggregator.store import StoreRefused
from aggregator.recovery.tombstones import FILE_NAME, Tombstones
from aggregator.store.layout import Place
resource.setrlimit(resource.RLIMIT_FSIZE, ({space}, {space}))
try:
    Tombstones(Path(FILE_NAME)).note(Place(3, 7, bytes(8)))
except StoreRefused as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "No space left" in told.stdout
    file = Tombstones(tmp_path / FILE_NAME)
    file.note(second)
    file.note(first)
    # Of the longest only the end of the line was missing.
    assert file.places() == ([first, second] if space == 20 else [second, first])


def snapshot(url: str) -> dict[bytes, bytes]:
    with redis.Redis.from_url(url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


def put_back(url: str, backup: dict[bytes, bytes]) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()
        for key, value in backup.items():
            client.restore(key, 0, value)


def test_an_erasure_survives_a_backup_that_is_older(world: Any) -> None:
    for _ in range(2):
        world.store.raise_generation(world.now)
    device, other = planted(world), planted(world)
    backup = snapshot(world.redis_url)
    for _ in range(3):
        world.store.raise_generation(world.now)
    assert ask(world, device).status_code == 200
    put_back(world.redis_url, backup)
    assert traces(world, device)
    newcomer = world.device()
    # Until the recovery nothing can be erased, or the store would forget it again.
    assert ask(world, newcomer).status_code == 503
    done = recover(world.store, world.catalogue.load(), date(2026, 11, 30), world.now)
    assert (done.erased, done.charged.devices) == (1, 1)
    assert traces(world, device) == {} and traces(world, other)
    prepare(world.settings)
    assert world.send(device, device.batch(world.report("theme"))).status_code == 410
    assert ask(world, newcomer).status_code == 200


def test_a_store_that_is_put_back_at_that_very_moment_does_not_erase_for_nothing(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        world.store.raise_generation(world.now)
    device = planted(world)
    backup = snapshot(world.redis_url)
    for _ in range(3):
        world.store.raise_generation(world.now)
    note = Tombstones.note

    def overtaken(tombstones: Tombstones, place: Place) -> None:
        note(tombstones, place)
        put_back(world.redis_url, backup)

    monkeypatch.setattr(Tombstones, "note", overtaken)
    assert ask(world, device).status_code == 503
    assert traces(world, device)
    assert len(world.store.erasures.forgotten()) == 1  # which the recovery does


def test_a_recovery_does_not_bring_back_who_was_erased_before_the_backup(world: Any) -> None:
    for _ in range(2):
        world.store.raise_generation(world.now)
    device, other = planted(world), planted(world)
    ask(world, device)
    backup = snapshot(world.redis_url)
    for _ in range(3):
        world.store.raise_generation(world.now)
    put_back(world.redis_url, backup)
    done = recover(world.store, world.catalogue.load(), date(2026, 11, 30), world.now)
    assert (done.erased, done.charged.devices) == (0, 1)
    assert traces(world, device) == {} and world.store.accounts.spent(other.id) is not None
    assert world.send(device, device.batch(world.report("theme"))).status_code == 410


def test_a_start_repeats_erasures_that_the_store_has_lost_unnoticed(world: Any) -> None:
    prepare(world.settings)
    device = planted(world)
    backup = snapshot(world.redis_url)
    ask(world, device)
    put_back(world.redis_url, backup)  # less than two generations old: not refused
    assert traces(world, device)
    prepare(world.settings)
    assert traces(world, device) == {}
    assert erase_again(world.store, world.catalogue.load(), world.now) == 0


def test_an_erasure_that_a_failover_took_back_is_done_again_while_servers_run(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    device, other = planted(world), planted(world)
    shard = f"{{s{place_of(world, device).shard:02d}}}:*"
    with redis.Redis.from_url(world.redis_url) as client:
        before = {key: client.dump(key) for key in client.scan_iter(match=shard)}
        assert ask(world, device).status_code == 200
        client.delete(*client.scan_iter(match=shard))
        for key, value in before.items():
            client.restore(key, 0, value)
    assert traces(world, device)
    source = StoreSource(world.store, world.catalogue)  # what each tick of the schedule asks
    source.erase_again(world.now)
    assert traces(world, device) == {} and traces(world, other)
    (told,) = caplog.messages
    assert "lost 1 erasures" in told
    source.erase_again(world.now)
    assert caplog.messages == [told]


# The append-only file


def bytes_of(directory: Path) -> bytes:
    return b"\x00".join(
        path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    )


def test_after_a_rewrite_no_file_of_the_store_knows_the_device(
    tmp_path: Path, new_world: Callable[..., Any]
) -> None:
    data = tmp_path / "store"
    with EmbeddedServer.start(data, appendfsync="no") as server:
        world = new_world(server.url, shards=4, planned_devices=2048)
        device = planted(world)
        world.folder.fold_once()
        before = tallies(world)
        place = place_of(world, device)
        ledger = Shard(place.shard).in_bucket("ledger", place.bucket)
        with redis.Redis.from_url(server.url) as client:
            record = client.hget(ledger, place.pseudonym)
        sought = {
            "pseudonym": place.pseudonym,
            "pseudonym as digits": str(place.member).encode(),
            "digest of the last batch": record[-16:],
        }
        held = bytes_of(data)
        assert {name for name, its in sought.items() if its in held} == set(sought)
        assert ask(world, device).status_code == 200

        stop = threading.Event()
        folder = Folder(world.store, aof_rewrite_interval_seconds=3600)
        thread = threading.Thread(target=folder.run, args=(stop, 0.05))
        thread.start()
        deadline = time.monotonic() + 60
        while any(its in bytes_of(data) for its in sought.values()):
            assert time.monotonic() < deadline, "the old log is still there"
            time.sleep(0.05)
        stop.set()
        thread.join()
        # What is left is the tombstone, an integer in a set.
        assert struct.pack("<q", place.member) in bytes_of(data)
        assert tallies(world) == before
        assert traces(world, device) == {}
        world.store.close()


def test_one_folder_of_all_asks_for_a_rewrite_and_once_in_an_interval(world: Any) -> None:
    def rewrites() -> int:
        with redis.Redis.from_url(world.redis_url) as client:
            stats = client.info("commandstats").get("cmdstat_bgrewriteaof", {"calls": 0})
            return int(stats["calls"])

    now, before = [world.now], rewrites()
    folders = [Folder(world.store, clock=lambda: now[0], aof_rewrite_interval_seconds=900)] * 2
    folders.append(Folder(world.store, clock=lambda: now[0]))
    for _ in range(3):
        for folder in folders:
            run_once(folder)
        now[0] += 61
    assert rewrites() == before + 1
    with redis.Redis.from_url(world.redis_url) as client:
        assert 0 < client.ttl("{meta}:rewriting") <= 900
        client.delete("{meta}:rewriting")  # the interval is over
    for folder in folders:
        run_once(folder)
    assert rewrites() == before + 2


def run_once(folder: Folder) -> None:
    class Once(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            self.set()
            return True

    folder.run(Once(), 0.01)


def test_a_store_that_refuses_to_rewrite_is_noted_once_and_folded_on(
    world: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis.from_url(world.redis_url) as client:
        client.acl_setuser(
            "folder", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-bgrewriteaof"]
        )
        url = world.redis_url.replace("unix://", "unix://folder:any@")
        settings = replace(world.settings, redis_url=url)
        store = Store.connect(settings, world.keys.pseudonym_key)
        now = [world.now]
        folder = Folder(store, clock=lambda: now[0], aof_rewrite_interval_seconds=60)
        device = world.device()
        with caplog.at_level(logging.WARNING):
            for past in range(3):
                report = world.report("crashed", epoch=world.epoch("crashed") - past)
                world.charged(device, report)
                run_once(folder)
                now[0] += 61
                client.delete("{meta}:rewriting")
        client.acl_deluser("folder")
        store.close()
    told = [r.getMessage() for r in caplog.records if "append-only" in r.getMessage()]
    assert len(told) == 1 and "permissions" in told[0]
    assert world.store.figures.lag() == 0


def test_a_full_store_still_erases(tmp_path: Path, new_world: Callable[..., Any]) -> None:
    with EmbeddedServer.start(tmp_path / "store", appendfsync="no") as server:
        world = new_world(server.url, shards=4, planned_devices=2048)
        device = planted(world)
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", 1)
        assert world.send(device, device.batch(world.report("theme"))).status_code == 503
        assert ask(world, device).status_code == 200
        assert traces(world, device) == {}
        run_once(Folder(world.store, aof_rewrite_interval_seconds=60))
        assert world.store.figures.lag() == 0
        world.store.close()


def test_an_operator_erases_by_id(world: Any) -> None:
    device = planted(world)
    versions = world.catalogue.load()
    assert erase(world.store, versions, device.id, world.now)
    assert not erase(world.store, versions, device.id, world.now)
    assert traces(world, device) == {}


# End to end: the SDK's client


def client_of(world: Any, directory: Path, **options: Any) -> Client:
    given: dict[str, Any] = {
        "enabled": True,
        "respect_environment": False,  # tests run under pytest, and in CI
        "state_dir": directory,
        "transport": WsgiTransport(world.app.test_client(), world.keys.write_key),
        "upload_within_seconds": 1e9,
        "clock": lambda: world.now,
    }
    return Client(options.pop("registry", world.registry), **{**given, **options})


def identity_in(directory: Path) -> str:
    state = State(directory)
    device = state.device
    state.close()
    assert device is not None
    return device


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"])
def test_a_user_has_the_device_erased_here_and_there(
    is_sealed: bool, world: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {}
    if is_sealed:
        world.keys = rotate(world.settings.keys_file, OpeningKey, date(2026, 11, 30)).keys
        world.app = create_app(
            store=world.store,
            keys=world.keys,
            catalogue=world.catalogue,
            clock=lambda: world.now,
            plain_uploads=False,
        )
        key = world.keys.sealing_keys[-1].public
        line = f'[project]\nseal = {{ key = {key.id}, public = "{key.public.hex()}" }}'
        registry = loads(world.registry.text.replace("[project]", line, 1))

        class Carrier(WsgiTransport):
            def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
                answer = world.app.test_client().post(path, data=sealed, content_type=SEALED_TYPE)
                return Reply(answer.status_code, answer.get_data())

        carrier = Carrier(world.app.test_client(), world.keys.write_key)
        options = {"registry": registry, "transport": SealedTransport(carrier, key)}
    client = client_of(world, tmp_path / "state", **options)
    client.record("theme", "dark")
    client.record("home_page", "example.org")
    assert client.flush()
    device = identity_in(tmp_path / "state")
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    world.folder.fold_once()
    before = tallies(world)
    assert world.store.accounts.spent(device) == 9_000_000
    assert client.erase()
    assert world.store.accounts.spent(device) is None
    assert tallies(world) == before
    # Opted in again: another id, and an account of its own; the device knows the total.
    world.now += 7 * DAY_SECONDS
    again = client_of(world, tmp_path / "state", **options)
    again.record("home_page", "example.org")
    assert again.flush()
    assert identity_in(tmp_path / "state") != device
    assert again.status().spent_epsilon == 17.0
    # A state restored from before falls silent for good with the first answer.
    copy = client_of(world, tmp_path / "backup", **options)
    copy.record("theme", "light")
    assert not copy.flush()
    assert "this device was erased" in copy.status().summary
    for each in (client, again, copy):
        each.close(5)
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 0


def test_a_device_that_the_operator_erased_falls_silent(world: Any, tmp_path: Path) -> None:
    client = client_of(world, tmp_path / "state")
    client.record("theme", "dark")
    assert client.flush()
    erase(world.store, world.catalogue.load(), identity_in(tmp_path / "state"), world.now)
    world.now += 7 * DAY_SECONDS
    client.record("theme", "dark")
    assert not client.flush()
    assert "this device was erased" in client.status().summary
    assert client.erase()  # which the server confirms all the same
    client.close(5)

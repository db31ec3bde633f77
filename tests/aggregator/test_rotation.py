"""Rotating keys: whole files, states in one direction, and nothing lost or doubled meanwhile."""

import json
import logging
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from aggregator.key_file import KeyFile, change
from aggregator.keys import Keys, KeysError
from aggregator.opening_keys import RotationError
from aggregator.rotation import activate_sealing, retire_sealing, rotate_master, rotate_sealing
from client_sdk.authentication import batch_mac, derive_device_key
from client_sdk.errors import TransportError
from client_sdk.report import encode_batch
from client_sdk.sealed_transport import SealedTransport
from client_sdk.transport import HttpTransport

DAY = date(2026, 11, 30)
VERSION_1 = {
    "version": 1,
    "master_keys": [{"id": "1", "key": "0a" * 32}],
    "pseudonym_key": "0b" * 32,
    "write_key": "w" * 32,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.json"
    Keys.load_or_create(made)
    return made


def states(keys: Keys) -> list[tuple[int, str]]:
    return [(key.id, key.state) for key in keys.opening_keys]


def test_a_file_of_version_1_is_read_and_becomes_version_2_when_it_is_changed(path: Path) -> None:
    path.write_text(json.dumps(VERSION_1))
    before = Keys.load(path)
    assert before.opening_keys == () and before.master_created == {}
    assert json.loads(path.read_text()) == VERSION_1
    rotate_sealing(path, DAY, pending=False)
    after = Keys.load(path)
    assert json.loads(path.read_text())["version"] == 2
    assert after.master_keys == before.master_keys
    assert (after.pseudonym_key, after.write_key) == (before.pseudonym_key, before.write_key)
    assert states(after) == [(1, "active")]


def test_a_new_file_notes_the_day_on_which_it_was_made(tmp_path: Path) -> None:
    assert Keys.load_or_create(tmp_path / "new.json", DAY).master_created == {"1": DAY}


def test_what_is_written_is_read_back(path: Path) -> None:
    rotate_sealing(path, DAY, pending=False)
    rotate_master(path, DAY)
    written = rotate_sealing(path, DAY, pending=True)
    assert Keys.load(path) == written and path.read_text() == written.text()


def test_a_changed_file_is_still_private_and_leaves_no_draft(path: Path) -> None:
    rotate_sealing(path, DAY, pending=False)
    rotate_master(path, DAY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    rotate_master(link, DAY)
    assert link.is_symlink() and len(Keys.load(path).master_keys) == 2


def test_a_file_open_to_others_is_not_changed(path: Path) -> None:
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(KeysError, match="0600"):
        rotate_master(path, DAY)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_a_step_that_fails_changes_nothing(path: Path) -> None:
    before = path.read_bytes()

    def failing(keys: Keys) -> Keys:
        raise RotationError("no")

    with pytest.raises(RotationError):
        change(path, failing)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_changes_at_once_all_happen_and_every_reader_sees_a_whole_file(path: Path) -> None:
    stop = threading.Event()
    seen = []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(Keys.load(path).master_keys))

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: rotate_master(path, DAY), range(16)))
    stop.set()
    reader.join()
    keys = Keys.load(path)
    assert [name for name, _ in keys.master_keys] == [str(n) for n in range(1, 18)]
    assert len({key for _, key in keys.master_keys}) == 17
    assert seen == sorted(seen)


def test_a_key_goes_from_pending_to_retired_and_never_back(path: Path) -> None:
    later = DAY + timedelta(days=30)
    assert states(rotate_sealing(path, DAY, pending=True)) == [(1, "pending")]
    assert states(activate_sealing(path, 1, later)) == [(1, "active")]
    assert states(rotate_sealing(path, later, pending=True)) == [(1, "active"), (2, "pending")]
    keys = activate_sealing(path, 2, later)
    assert states(keys) == [(1, "retiring"), (2, "active")]
    assert keys.opening_keys[0].created == DAY and keys.opening_keys[0].since == later
    assert states(retire_sealing(path, 1, later)) == [(1, "retired"), (2, "active")]
    for impossible, rule in (
        (lambda: activate_sealing(path, 1, later), "must be pending"),
        (lambda: activate_sealing(path, 2, later), "must be pending"),
        (lambda: retire_sealing(path, 1, later), "retired already"),
        (lambda: retire_sealing(path, 2, later), "make another first"),
        (lambda: retire_sealing(path, 3, later), "it has 1, 2"),
    ):
        before = path.read_bytes()
        with pytest.raises(RotationError, match=rule):
            impossible()
        assert path.read_bytes() == before


def test_a_retired_key_is_gone_and_its_number_is_not_used_again(path: Path) -> None:
    private = rotate_sealing(path, DAY, pending=True).opening_keys[0].private
    assert private is not None and private.hex() in path.read_text()
    retire_sealing(path, 1, DAY)
    assert private.hex() not in path.read_text()
    assert states(rotate_sealing(path, DAY, pending=False)) == [(1, "retired"), (2, "active")]


def test_rotation_without_pending_leaves_one_active_key(path: Path) -> None:
    for _ in range(3):
        keys = rotate_sealing(path, DAY, pending=False)
    assert states(keys) == [(1, "retiring"), (2, "retiring"), (3, "active")]
    assert len({key.public.public for key in keys.opening_keys}) == 3


def test_the_newest_master_key_signs_and_all_verify(path: Path) -> None:
    old_device, old_key = Keys.load(path).enrol()
    keys = rotate_master(path, DAY)
    new_device, new_key = keys.enrol()
    assert new_key == derive_device_key(keys.master_keys[-1][1], new_device)
    for device, key in ((old_device, old_key), (new_device, new_key)):
        assert keys.verified(device, b"body", batch_mac(key, b"body")) == key
    assert keys.master_created["2"] == DAY


@pytest.mark.parametrize(
    "entry",
    [
        {"id": 0},
        {"id": 65_536},
        {"id": True},
        {"id": "1"},
        {"state": "opening"},
        {"state": "retired"},
        {"private": None},
        {"private": "ab"},
        {"private": 7},
        {"created": "yesterday"},
        {"since": None},
        {"more": 1},
    ],
)
def test_a_sealing_key_of_another_form_is_refused_without_quoting_it(
    path: Path, entry: dict[str, Any]
) -> None:
    rotate_sealing(path, DAY, pending=False)
    document = json.loads(path.read_text())
    secret = document["sealing_keys"][0]["private"]
    document["sealing_keys"][0] |= entry
    path.write_text(json.dumps(document))
    with pytest.raises(KeysError) as caught:
        Keys.load(path)
    assert str(path) in str(caught.value) and secret not in str(caught.value)


@pytest.mark.parametrize("second", [{"id": 2}, {"state": "retiring"}])
def test_two_active_keys_or_two_of_one_number_are_refused(
    path: Path, second: dict[str, Any]
) -> None:
    rotate_sealing(path, DAY, pending=False)
    document = json.loads(path.read_text())
    document["sealing_keys"].append(document["sealing_keys"][0] | second)
    path.write_text(json.dumps(document))
    with pytest.raises(KeysError):
        Keys.load(path)


def test_keys_of_any_ring_are_not_shown(path: Path) -> None:
    keys = rotate_sealing(path, DAY, pending=False)
    private = keys.opening_keys[0].private
    assert private is not None
    for secret in (private, keys.master_keys[0][1]):
        assert secret.hex() not in repr(keys) and repr(secret) not in repr(keys)


def test_a_server_follows_its_key_file_without_a_restart(path: Path) -> None:
    file = KeyFile(path)
    assert file.current().opening_keys == ()
    made = rotate_sealing(path, DAY, pending=False)
    assert file.current() == made
    assert file.current() is file.current()


def test_a_key_file_that_cannot_be_used_changes_nothing_and_is_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = KeyFile(path)
    good = file.current()
    text = path.read_text()
    other = json.dumps(json.loads(text) | {"pseudonym_key": "0c" * 32})
    for broken in ("{", other):
        path.write_text(broken)
        with caplog.at_level(logging.INFO):
            assert all(file.current() is good for _ in range(5))
        assert len(caplog.records) == 1 and "0c" * 32 not in caplog.text
        caplog.clear()
    path.unlink()
    assert file.current() is good
    path.write_text(text)
    path.chmod(0o600)
    assert file.current() == good


def test_rotation_under_load_loses_and_doubles_nothing(world: Any, serve: Any) -> None:
    """Real gunicorn workers, the SDK's transport; each report has a tally cell of its own."""
    path = world.settings.keys_file
    first = rotate_sealing(path, DAY, pending=False).opening_keys[-1].public
    server = serve(world)
    threads, uploads = 6, 40
    newest = [first]
    metric, epoch = world.metric("wide"), world.epoch("wide")
    halfway = threading.Barrier(threads + 1, timeout=60)

    def deliver(thread: int) -> list[tuple[int, int, str]]:
        http = HttpTransport(server.url, world.keys.write_key, retries=0)
        told = []
        for step in range(uploads):
            if step in (uploads // 4, uploads // 2):
                halfway.wait()
            identity = json.loads(http.enrol().body)
            # Even threads are apps with the first file, odd ones were just updated.
            key = first if thread % 2 == 0 else newest[0]
            transport = SealedTransport(http, key)
            number = thread * uploads + step
            report = world.report("wide", 1 << number % 2048, number // 2048, epoch=epoch)
            body = one_batch(identity["device"], report)
            mac = batch_mac(bytes.fromhex(identity["key"]), body)
            for again in range(2 if step % 3 == 0 else 1):
                reply = transport.send(body, mac)
                told.append((again, reply.status, json.loads(reply.body).get("verdict", "")))
        http.close()
        return told

    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(deliver, thread) for thread in range(threads)]
        halfway.wait()
        pending = rotate_sealing(path, DAY, pending=True).opening_keys[-1]
        rotate_master(path, DAY)
        activate_sealing(path, pending.id, DAY)
        newest[0] = pending.public
        halfway.wait()
        rotate_master(path, DAY)
        newest[0] = rotate_sealing(path, DAY, pending=False).opening_keys[-1].public
        told = [answer for job in jobs for answer in job.result()]
    assert {(0, 200, "accepted"), (1, 200, "duplicate")} == set(told)
    count = threads * uploads
    assert sum(again == 0 for again, _, _ in told) == count
    world.folder.fold_once()
    tally = world.store.tally(metric, epoch)
    assert tally.counts.max() == 1 and tally.counts.sum() == tally.n == count
    # Once it is retired, what is sealed to the first key is refused at once, and counted nowhere.
    retire_sealing(path, 1, DAY)
    http = HttpTransport(server.url, world.keys.write_key)
    identity = json.loads(http.enrol().body)
    body = one_batch(identity["device"], world.report("wide", 1, epoch=epoch))
    mac = batch_mac(bytes.fromhex(identity["key"]), body)
    for _ in range(4):
        with pytest.raises(TransportError, match="does not open uploads sealed to key 1"):
            SealedTransport(http, first).send(body, mac)
    assert SealedTransport(http, newest[0]).send(body, mac).status == 200
    http.close()


def one_batch(device: str, report: str) -> bytes:
    return encode_batch(device, 1, os.urandom(16).hex(), [report])

"""Rotating keys: whole files, states in one direction, and nothing lost or doubled meanwhile."""

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from aggregator.keyring.key_file import KeyFile, change
from aggregator.keyring.keys import Keys, KeysError
from aggregator.keyring.kinds import KINDS, MasterKey, OpeningKey, ReadKey, SigningKey, WriteKey
from aggregator.keyring.ring import RotationError
from aggregator.keyring.rotation import activate, new, retire, rotate
from client_sdk import Client
from client_sdk.authentication import batch_mac, derive_device_key
from client_sdk.errors import TransportError
from client_sdk.ledger import Ledger
from client_sdk.report import encode_batch
from client_sdk.sealed_transport import SealedTransport
from client_sdk.state import State
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
    return [(key.id, key.state) for key in keys.sealing_keys]


def test_a_file_of_version_1_is_read_and_becomes_version_3_when_it_is_changed(path: Path) -> None:
    path.write_text(json.dumps(VERSION_1))
    before = Keys.load(path)
    assert before.sealing_keys == () and before.master_keys[0].created is None
    assert json.loads(path.read_text()) == VERSION_1
    rotate(path, OpeningKey, DAY)
    after = Keys.load(path)
    assert json.loads(path.read_text())["version"] == 3
    assert after.master_keys == before.master_keys
    assert (after.pseudonym_key, after.write_key) == (before.pseudonym_key, before.write_key)
    assert states(after) == [(1, "active")]


def test_a_new_file_notes_the_day_on_which_it_was_made(tmp_path: Path) -> None:
    keys = Keys.load_or_create(tmp_path / "new.json", DAY)
    assert {key.created for kind in KINDS.values() for key in keys.ring(kind)} == {DAY}


def test_what_is_written_is_read_back(path: Path) -> None:
    rotate(path, OpeningKey, DAY)
    rotate(path, MasterKey, DAY)
    written = new(path, OpeningKey, DAY).keys
    assert Keys.load(path) == written and path.read_text() == written.text()


def test_a_changed_file_is_still_private_and_leaves_no_draft(path: Path) -> None:
    rotate(path, OpeningKey, DAY)
    rotate(path, MasterKey, DAY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def killed_with_a_draft(path: Path, act: str) -> None:
    """Have a process die just before its draft would be the file, or be deleted."""
    program = f"""
import os
from datetime import date
from pathlib import Path
from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import OpeningKey
from aggregator.keyring.rotation import rotate
path = Path({str(path)!r})
Path.replace = Path.unlink = lambda *_, **__: os._exit(9)
{act}
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 9
    assert len(list(path.parent.glob(".keys.json.*"))) == 1


def test_a_retired_private_key_is_nowhere_even_if_a_rotation_was_killed(path: Path) -> None:
    rotate(path, OpeningKey, DAY)
    key = Keys.load(path).sealing_keys[0].secret
    assert key is not None
    killed_with_a_draft(path, "rotate(path, OpeningKey, date(2026, 12, 1))")
    rotate(path, OpeningKey, DAY)
    retire(path, OpeningKey, 1, DAY)
    assert [found.name for found in path.parent.iterdir() if key.hex() in found.read_text()] == []


def test_a_start_deletes_the_draft_of_one_that_was_killed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    killed_with_a_draft(path, "Keys.load_or_create(path)")
    others = [tmp_path / name for name in (".keys.json.bak", ".other.json." + "0" * 16)]
    for other in others:
        other.touch()
    Keys.load_or_create(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    rotate(link, MasterKey, DAY)
    assert link.is_symlink() and len(Keys.load(path).master_keys) == 2


def test_a_file_open_to_others_is_not_changed(path: Path) -> None:
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(KeysError, match="0600"):
        rotate(path, MasterKey, DAY)
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
        list(pool.map(lambda _: rotate(path, MasterKey, DAY).keys, range(16)))
    stop.set()
    reader.join()
    keys = Keys.load(path)
    assert [key.id for key in keys.master_keys] == list(range(1, 18))
    assert len({key.secret for key in keys.master_keys}) == 17
    assert seen == sorted(seen)


def test_a_key_goes_from_pending_to_retired_and_never_back(path: Path) -> None:
    later = DAY + timedelta(days=30)
    assert states(new(path, OpeningKey, DAY).keys) == [(1, "pending")]
    assert states(activate(path, OpeningKey, 1, later).keys) == [(1, "active")]
    assert states(new(path, OpeningKey, later).keys) == [(1, "active"), (2, "pending")]
    keys = activate(path, OpeningKey, 2, later).keys
    assert states(keys) == [(1, "retiring"), (2, "active")]
    assert keys.sealing_keys[0].created == DAY and keys.sealing_keys[0].since == later
    assert states(retire(path, OpeningKey, 1, later).keys) == [(1, "retired"), (2, "active")]
    for impossible, rule in (
        (lambda: activate(path, OpeningKey, 1, later).keys, "must be pending"),
        (lambda: activate(path, OpeningKey, 2, later).keys, "must be pending"),
        (lambda: retire(path, OpeningKey, 1, later).keys, "retired already"),
        (lambda: retire(path, OpeningKey, 2, later).keys, "make another first"),
        (lambda: retire(path, OpeningKey, 3, later).keys, "it has 1, 2"),
    ):
        before = path.read_bytes()
        with pytest.raises(RotationError, match=rule):
            impossible()
        assert path.read_bytes() == before


def test_a_retired_key_is_gone_and_its_number_is_not_used_again(path: Path) -> None:
    private = new(path, OpeningKey, DAY).keys.sealing_keys[0].secret
    assert private is not None and private.hex() in path.read_text()
    retire(path, OpeningKey, 1, DAY)
    assert private.hex() not in path.read_text()
    assert states(rotate(path, OpeningKey, DAY).keys) == [(1, "retired"), (2, "active")]


def test_rotation_without_pending_leaves_one_active_key(path: Path) -> None:
    for _ in range(3):
        keys = rotate(path, OpeningKey, DAY).keys
    assert states(keys) == [(1, "retiring"), (2, "retiring"), (3, "active")]
    assert len({key.public.public for key in keys.sealing_keys}) == 3


def test_the_newest_master_key_signs_and_all_verify(path: Path) -> None:
    old_device, old_key = Keys.load(path).enrol()
    keys = rotate(path, MasterKey, DAY).keys
    new_device, new_key = keys.enrol()
    assert new_key == derive_device_key(keys.master_keys[-1].secret or b"", new_device)
    for device, key in ((old_device, old_key), (new_device, new_key)):
        assert keys.verified(device, b"body", batch_mac(key, b"body")) == key
    assert keys.master_keys[1].created == DAY


@pytest.mark.parametrize(
    "entry",
    [
        {"id": 0},
        {"id": 65_536},
        {"id": True},
        {"id": "1"},
        {"state": "opening"},
        {"state": "retired"},
        {"secret": None},
        {"secret": "ab"},
        {"secret": 7},
        {"created": "yesterday"},
        {"since": 3},
        {"more": 1},
    ],
)
def test_a_sealing_key_of_another_form_is_refused_without_quoting_it(
    path: Path, entry: dict[str, Any]
) -> None:
    rotate(path, OpeningKey, DAY)
    document = json.loads(path.read_text())
    secret = document["sealing_keys"][0]["secret"]
    document["sealing_keys"][0] |= entry
    path.write_text(json.dumps(document))
    with pytest.raises(KeysError) as caught:
        Keys.load(path)
    assert str(path) in str(caught.value) and secret not in str(caught.value)


@pytest.mark.parametrize("second", [{"id": 2}, {"state": "retiring"}])
def test_two_active_keys_or_two_of_one_number_are_refused(
    path: Path, second: dict[str, Any]
) -> None:
    rotate(path, OpeningKey, DAY)
    document = json.loads(path.read_text())
    document["sealing_keys"].append(document["sealing_keys"][0] | second)
    path.write_text(json.dumps(document))
    with pytest.raises(KeysError):
        Keys.load(path)


def test_keys_of_any_ring_are_not_shown(path: Path) -> None:
    keys = rotate(path, OpeningKey, DAY).keys
    private = keys.sealing_keys[0].secret
    assert private is not None
    for secret in (private, keys.master_keys[0].secret or b""):
        assert secret.hex() not in repr(keys) and repr(secret) not in repr(keys)


def test_a_server_follows_its_key_file_without_a_restart(path: Path) -> None:
    file = KeyFile(path)
    assert file.current().sealing_keys == ()
    made = rotate(path, OpeningKey, DAY).keys
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
    first = rotate(path, OpeningKey, DAY).keys.sealing_keys[-1].public
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
        pending = new(path, OpeningKey, DAY).keys.sealing_keys[-1]
        rotate(path, MasterKey, DAY)
        activate(path, OpeningKey, pending.id, DAY)
        newest[0] = pending.public
        halfway.wait()
        rotate(path, MasterKey, DAY)
        newest[0] = rotate(path, OpeningKey, DAY).keys.sealing_keys[-1].public
        told = [answer for job in jobs for answer in job.result()]
    assert {(0, 200, "accepted"), (1, 200, "duplicate")} == set(told)
    count = threads * uploads
    assert sum(again == 0 for again, _, _ in told) == count
    world.folder.fold_once()
    tally = world.store.tallies.of(metric, epoch)
    assert tally.counts.max() == 1 and tally.counts.sum() == tally.n == count
    # Once it is retired, what is sealed to the first key is refused at once, and counted nowhere.
    retire(path, OpeningKey, 1, DAY)
    http = HttpTransport(server.url, world.keys.write_key)
    identity = json.loads(http.enrol().body)
    body = one_batch(identity["device"], world.report("wide", 1, epoch=epoch))
    mac = batch_mac(bytes.fromhex(identity["key"]), body)
    for _ in range(4):
        with pytest.raises(TransportError, match="does not open uploads sealed to key 1"):
            SealedTransport(http, first).send(body, mac)
    assert SealedTransport(http, newest[0]).send(body, mac).status == 200
    http.close()


def test_a_device_of_a_retired_master_key_enrols_anew_and_loses_one_batch_at_most(
    world: Any, serve: Any, tmp_path: Path
) -> None:
    """Compromise, as docs/operations.md has it: rotate, retire, and nobody does anything else."""
    path = world.settings.keys_file
    server = serve(world)

    def deliver(value: str) -> bool:
        client = Client(
            world.registry,
            enabled=True,
            respect_environment=False,
            state_dir=tmp_path / "state",
            endpoint=server.url,
            write_key=world.keys.write_key,
            clock=lambda: world.now,
        )
        client.record("theme", value)
        client.record("crashed", False)
        done = client.flush(30)
        client.close()
        return done

    def identity() -> tuple[str | None, bytes, int]:
        state = State(tmp_path / "state")
        with state.transaction() as connection:
            found = state.device, state.secret, Ledger(connection, 1000_000_000).spent()
        state.close()
        return found

    assert deliver("dark")
    stolen, secret, spent = identity()
    thief = Keys.load(path).master_keys[0].secret or b""
    rotate(path, MasterKey, DAY)
    retire(path, MasterKey, 1, DAY)
    world.now += 7 * 86_400
    deliver("dark")
    assert identity() == (None, secret, 2 * spent)
    world.now += 7 * 86_400
    assert deliver("light")
    device, same_secret, since = identity()
    assert device not in (stolen, None) and same_secret == secret
    assert since == 3 * spent  # its own ledger goes on: no second life
    # Whoever has the stolen key speaks for no device any more, old or new.
    for victim in (stolen, device):
        body = one_batch(victim or "", world.report("theme"))
        mac = batch_mac(derive_device_key(thief, victim or ""), body)
        reply = HttpTransport(server.url, "").send(body, mac)
        assert reply.status == 401
    world.now -= 14 * 86_400
    before = world.contents()
    body = one_batch(stolen or "", world.report("theme"))
    told = json.loads(HttpTransport(server.url, "").send(body, "0" * 64).body)
    assert told["type"].endswith(":bad_mac") and "mac" not in told and world.contents() == before


def one_batch(device: str, report: str) -> bytes:
    return encode_batch(device, 1, os.urandom(16).hex(), [report])


def test_a_file_of_version_2_keeps_its_keys_and_says_what_it_knows_of_their_age(path: Path) -> None:
    sealing = {"id": 1, "state": "retiring", "created": "2026-11-01", "since": "2026-11-09"}
    document = VERSION_1 | {
        "version": 2,
        "master_keys": [
            {"id": "1", "key": "0a" * 32},
            {"id": "2", "key": "0c" * 32, "created": "2026-11-08"},
        ],
        "sealing_keys": [
            sealing | {"private": "0d" * 32},
            sealing | {"id": 2, "state": "retired", "private": None},
        ],
    }
    path.write_text(json.dumps(document))
    keys = Keys.load(path)
    masters = [(key.id, key.state, key.secret, key.created, key.since) for key in keys.master_keys]
    assert masters == [
        (1, "retiring", b"\x0a" * 32, None, date(2026, 11, 8)),
        (2, "active", b"\x0c" * 32, date(2026, 11, 8), date(2026, 11, 8)),
    ]
    assert states(keys) == [(1, "retiring"), (2, "retired")]
    assert keys.sealing_keys[0].secret == b"\x0d" * 32
    assert keys.write_key == "w" * 32 and keys.may_enrol("w" * 32)
    assert keys.signing_keys == () and keys.read_keys == ()
    with pytest.raises(RotationError, match="keys rotate signing"):
        keys.signing.sign(b"release")
    rotate(path, SigningKey, DAY)
    assert Keys.load(path).master_keys == keys.master_keys


@pytest.mark.parametrize("change", [{"private": "ab"}, {"secret": "0d" * 32}, {"state": "new"}])
def test_a_file_of_version_2_of_another_form_is_refused(path: Path, change: dict[str, Any]) -> None:
    entry = {"id": 1, "state": "active", "created": "2026-11-01", "since": "2026-11-09"}
    sealing = [entry | {"private": "0d" * 32} | change]
    path.write_text(json.dumps(VERSION_1 | {"version": 2, "sealing_keys": sealing}))
    with pytest.raises(KeysError):
        Keys.load(path)


def test_a_retired_signing_key_signs_nothing_and_its_releases_verify_for_ever(path: Path) -> None:
    first = Keys.load(path).signing
    number, signature = first.sign(b"release")
    rotate(path, SigningKey, DAY)
    retiring, active = Keys.load(path).signing_keys
    assert (retiring.state, retiring.secret) == ("retiring", None)
    private = active.secret
    keys = retire(path, SigningKey, 1, DAY).keys
    assert number == 1 and keys.signing.verifies(1, b"release", signature)
    assert not keys.signing.verifies(1, b"Release", signature)
    assert not keys.signing.verifies(2, b"release", signature)
    assert not keys.signing.verifies(3, b"release", signature)
    assert not keys.signing.verifies(1, b"release", signature[:-1])
    assert keys.signing.sign(b"release")[0] == 2
    # The private key is gone with the rotation; what an attacker takes later signs nothing old.
    assert [key.secret for key in keys.signing_keys] == [None, private]
    assert set(keys.signing.public) == {1, 2}


def test_a_pending_signing_key_neither_signs_nor_verifies_yet(path: Path) -> None:
    act = new(path, SigningKey, DAY)
    assert isinstance(act.key, SigningKey)
    forged = act.key.signature(b"release")
    assert not act.keys.signing.verifies(2, b"release", forged)
    assert act.keys.signing.sign(b"release")[0] == 1
    keys = activate(path, SigningKey, 2, DAY).keys
    assert keys.signing.sign(b"release") == (2, forged)


def test_write_keys_enrol_from_active_until_retired(path: Path) -> None:
    first = Keys.load(path).write_key
    pending = new(path, WriteKey, DAY)
    second = pending.text or ""
    told = [(pending.keys.may_enrol(first), pending.keys.may_enrol(second))]
    for act in (activate(path, WriteKey, 2, DAY), retire(path, WriteKey, 1, DAY)):
        told.append((act.keys.may_enrol(first), act.keys.may_enrol(second)))
    assert told == [(True, False), (True, True), (False, True)]
    assert not Keys.load(path).may_enrol("")


def test_each_read_key_is_its_holders_and_ends_alone(path: Path) -> None:
    assert not Keys.load(path).reader("")
    texts = [new(path, ReadKey, DAY, label).text or "" for label in ("ana", "grafana")]
    assert all(Keys.load(path).reader(text) for text in texts)
    keys = retire(path, ReadKey, 1, DAY).keys
    assert [keys.reader(text) is not None for text in texts] == [False, True]
    # Neither the digest in the file nor a key of another kind opens anything.
    for other in (keys.read_keys[1].secret or b"").hex(), keys.write_key, "", "\udcff":
        assert not keys.reader(other)
    assert not keys.may_enrol(texts[1])


def test_every_key_is_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """So the time does not tell which key it was, or how many there are before it."""
    texts = [rotate(path, WriteKey, DAY).text or "" for _ in range(3)]
    compared = []

    def counting(known: bytes, shown: bytes) -> bool:
        compared.append(known)
        return known == shown

    monkeypatch.setattr("aggregator.keyring.kinds.hmac.compare_digest", counting)
    keys = Keys.load(path)
    for shown in (texts[0], texts[2], "another"):
        compared.clear()
        keys.may_enrol(shown)
        assert len(compared) == 4

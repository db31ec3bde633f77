"""Sealed uploads end to end: the SDK's client, the Flask app, a real store."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from aggregator.app import create_app
from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.keys import Keys, KeysError
from aggregator.keyring.kinds import OpeningKey
from aggregator.keyring.rotation import activate, new, retire, rotate
from aggregator.server import prepare
from aggregator.unsealing import require_uploads
from client_sdk import Client, Registry, loads
from client_sdk.authentication import batch_mac
from client_sdk.errors import TransportError
from client_sdk.report import MAX_BATCH_BYTES, REPORTS_PATH, SEALED_TYPE
from client_sdk.sealed_transport import SealedTransport
from client_sdk.sealing import (
    OVERHEAD_BYTES,
    open_upload,
    seal_upload,
)
from client_sdk.testing import WsgiTransport
from client_sdk.transport import Reply
from tests.aggregator.contract import conforming

TODAY = date(2026, 11, 30)


class SealedWire(WsgiTransport):
    """The way to a world's app; keeps what an eavesdropper would see."""

    def __init__(self, world: Any) -> None:
        super().__init__(world.app.test_client(), world.keys.write_key)
        self.world = world
        self.seen: list[bytes] = []
        self.answers: list[Any] = []
        self.lose_answers = False

    def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
        self.seen.append(sealed)
        answer = post_sealed(self.world, sealed, path)
        self.answers.append(answer.json)
        if self.lose_answers:
            raise TransportError("the answer was lost")
        return Reply(answer.status_code, answer.get_data())


def post_sealed(world: Any, sealed: bytes, path: str = REPORTS_PATH, **headers: str) -> Any:
    given = {"Content-Type": SEALED_TYPE} | headers
    return world.app.test_client().post(path, data=sealed, headers=given)


def app_of(world: Any, *, plain_uploads: bool = True) -> Any:
    app = create_app(
        store=world.store,
        keys=KeyFile(world.settings.keys_file),
        catalogue=world.catalogue,
        clock=lambda: world.now,
        plain_uploads=plain_uploads,
    )
    return conforming(app)


def registry_with(world: Any, keys: Keys) -> Registry:
    """The world's metrics.toml with the newest key in it, as an app would ship it."""
    key = keys.sealing_keys[-1].public
    line = f'[project]\nseal = {{ key = {key.id}, public = "{key.public.hex()}" }}'
    return loads(world.registry.text.replace("[project]", line, 1))


@pytest.fixture
def sealing(world: Any) -> Any:
    """A world whose key file has an active sealing key, number 1."""
    world.keys = rotate(world.settings.keys_file, OpeningKey, TODAY).keys
    world.app = app_of(world)
    return world


def sealed_batch(world: Any, device: Any, *reports: str) -> bytes:
    body = device.batch(*reports)
    key = world.keys.sealing_keys[-1].public
    return seal_upload(key, body, batch_mac(device.key, body))


def theme_reports(world: Any) -> int:
    world.folder.fold_once()
    tally = world.store.tallies.of(world.metric("theme"), world.epoch("theme"))
    return int(tally.n)


def make_client(world: Any, registry: Registry, wire: Any, directory: Path) -> Client:
    return Client(
        registry,
        enabled=True,
        respect_environment=False,  # tests run under pytest, and in CI
        state_dir=directory,
        transport=SealedTransport(wire, registry.seal),
        upload_within_seconds=1e9,
        clock=lambda: world.now,
    )


def test_a_client_with_a_sealing_key_is_counted_once(sealing: Any, tmp_path: Path) -> None:
    wire = SealedWire(sealing)
    client = make_client(sealing, registry_with(sealing, sealing.keys), wire, tmp_path / "state")
    client.record("theme", "dark")
    assert client.flush()
    client.close()
    assert client.status().refused == {}
    assert theme_reports(sealing) == 1 and len(wire.seen) == 1


def test_an_eavesdropper_sees_neither_device_nor_metric_nor_mac(
    sealing: Any, tmp_path: Path
) -> None:
    wire = SealedWire(sealing)
    client = make_client(sealing, registry_with(sealing, sealing.keys), wire, tmp_path / "state")
    client.record("theme", "dark")
    assert client.flush()
    client.close()
    (sealed,) = wire.seen
    body, mac = open_upload(sealing.keys.sealing_keys[0].recipient, sealed)
    batch = json.loads(body)
    assert batch["reports"][0]["metric"] == "theme"
    for hidden in (batch["device"], batch["nonce"], mac, batch["reports"][0]["fingerprint"]):
        assert hidden.encode() not in sealed and bytes.fromhex(hidden) not in sealed
    for hidden in ("theme", "device", "sequence", "metric"):
        assert hidden.encode() not in sealed


def test_a_batch_sealed_anew_after_a_lost_answer_is_a_duplicate(
    sealing: Any, tmp_path: Path
) -> None:
    wire = SealedWire(sealing)
    wire.lose_answers = True
    client = make_client(sealing, registry_with(sealing, sealing.keys), wire, tmp_path / "state")
    client.record("theme", "dark")
    assert not client.flush()
    wire.lose_answers = False
    assert client.flush()
    client.close()
    first, second = wire.seen
    assert first != second
    assert theme_reports(sealing) == 1
    assert [reply["verdict"] for reply in wire.answers] == ["accepted", "duplicate"]
    assert wire.answers[0]["spent"] == wire.answers[1]["spent"]


def test_a_batch_sealed_to_the_next_key_is_the_same_batch(sealing: Any) -> None:
    device = sealing.device()
    body = device.batch(sealing.report("theme"))
    mac = batch_mac(device.key, body)
    old = sealing.keys.sealing_keys[0].public
    assert post_sealed(sealing, seal_upload(old, body, mac)).json["verdict"] == "accepted"
    keys = rotate(sealing.settings.keys_file, OpeningKey, TODAY).keys
    later = keys.sealing_keys[-1].public
    assert (old.id, later.id) == (1, 2)
    for key in (later, old):
        assert post_sealed(sealing, seal_upload(key, body, mac)).json["verdict"] == "duplicate"
    # So is the plain form, and an upload sealed by somebody who only saw a plain one.
    assert sealing.send(device, body).json["verdict"] == "duplicate"
    assert theme_reports(sealing) == 1


def test_altered_cut_or_foreign_bytes_are_refused_and_change_nothing(sealing: Any) -> None:
    device = sealing.device()
    sealed = sealed_batch(sealing, device, sealing.report("theme"))
    key = sealing.keys.sealing_keys[0].public
    body = device.batch(sealing.report("theme"))
    before = sealing.contents()
    other = rotate(sealing.settings.keys_file, OpeningKey, TODAY).keys.sealing_keys[-1]
    cases = {
        "flipped": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "enc flipped": sealed[:3] + bytes([sealed[3] ^ 1]) + sealed[4:],
        "wrong aad": sealed[:1] + other.id.to_bytes(2, "big") + sealed[3:],
        "cut": sealed[:-1],
        "stump": sealed[:OVERHEAD_BYTES],
        "other format": b"\x02" + sealed[1:],
        "plain body": body,
        "longer": sealed + b"\x00",
        "other key under this number": seal_upload(
            key._replace(public=other.public.public), body, batch_mac(device.key, body)
        ),
    }
    for name, bad in cases.items():
        answer = post_sealed(sealing, bad)
        assert answer.status_code == 400, name
        assert answer.json["type"].endswith(":malformed") and answer.json["field"] == "body", name
    wrong_mac = post_sealed(sealing, seal_upload(key, body, "00" * 32))
    assert wrong_mac.status_code == 401 and wrong_mac.json["type"].endswith(":bad_mac")
    assert sealing.contents() == before
    # What was tampered with on the way is delivered by the next try.
    assert post_sealed(sealing, sealed).status_code == 200
    assert theme_reports(sealing) == 1


def test_a_mac_header_beside_a_sealed_upload_means_nothing(sealing: Any) -> None:
    device = sealing.device()
    body = device.batch(sealing.report("theme"))
    key = sealing.keys.sealing_keys[0].public
    header = {"Sottovoce-MAC": batch_mac(device.key, body)}
    answer = post_sealed(sealing, seal_upload(key, body, "11" * 32), **header)
    assert answer.status_code == 401


def test_the_largest_body_fits_sealed_and_one_byte_more_does_not(sealing: Any) -> None:
    key = sealing.keys.sealing_keys[0].public
    device = sealing.device()
    report = sealing.report("theme")
    body = device.batch(report)
    body += b" " * (MAX_BATCH_BYTES - len(body))
    sealed = seal_upload(key, body, batch_mac(device.key, body))
    assert post_sealed(sealing, sealed).status_code == 200
    too_long = seal_upload(key, body + b" ", batch_mac(device.key, body + b" "))
    answer = post_sealed(sealing, too_long)
    assert answer.status_code == 413 and answer.json["field"] == "Content-Length"
    # The allowance is for the seal: a plain body gains nothing from it.
    plain = sealing.send(device, body + b" ")
    assert plain.status_code == 413


@pytest.mark.parametrize("state", ["never made", "pending", "retired"])
def test_a_key_that_does_not_open_is_named_and_nothing_is_counted(sealing: Any, state: str) -> None:
    path = sealing.settings.keys_file
    device = sealing.device()
    body = device.batch(sealing.report("theme"))
    if state == "never made":
        key = sealing.keys.sealing_keys[0].public._replace(id=9)
    elif state == "pending":
        key = new(path, OpeningKey, TODAY).keys.sealing_keys[-1].public
    else:
        key = sealing.keys.sealing_keys[0].public
        rotate(path, OpeningKey, TODAY)
        retire(path, OpeningKey, 1, TODAY)
    before = sealing.contents()
    sealed = seal_upload(key, body, batch_mac(device.key, body))
    answer = post_sealed(sealing, sealed)
    assert answer.status_code == 400
    assert answer.json["type"].endswith(":unknown_sealing_key") and answer.json["field"] == "key"
    assert "mac" not in answer.json and sealing.contents() == before
    if state == "pending":
        activate(path, OpeningKey, key.id, TODAY)
        assert post_sealed(sealing, sealed).status_code == 200


def test_a_client_keeps_its_batch_while_its_key_is_unknown(sealing: Any, tmp_path: Path) -> None:
    path = sealing.settings.keys_file
    keys = new(path, OpeningKey, TODAY).keys
    wire = SealedWire(sealing)
    client = make_client(sealing, registry_with(sealing, keys), wire, tmp_path / "state")
    client.record("theme", "dark")
    assert not client.flush() and not client.flush()
    assert client.status().queued == 1 and theme_reports(sealing) == 0
    activate(path, OpeningKey, 2, TODAY)
    assert client.flush()
    client.close()
    assert client.status().queued == 0 and theme_reports(sealing) == 1


def test_plain_uploads_can_be_switched_off(sealing: Any) -> None:
    sealing.app = app_of(sealing, plain_uploads=False)
    device = sealing.device()
    body = device.batch(sealing.report("theme"))
    before = sealing.contents()
    answer = sealing.send(device, body)
    assert answer.status_code == 415
    assert answer.json["type"].endswith(":sealing_required")
    assert "switched off" in answer.json["detail"] and answer.json["field"] == "Content-Type"
    assert sealing.contents() == before
    # Enrolment carries no report and stays plain; the same batch is welcome under its seal.
    assert sealing.enrol(b"{}").status_code == 201
    key = sealing.keys.sealing_keys[0].public
    sealed = seal_upload(key, body, batch_mac(device.key, body))
    assert post_sealed(sealing, sealed).json["verdict"] == "accepted"


def test_sealed_uploads_are_neither_encoded_nor_of_another_type(sealing: Any) -> None:
    sealed = sealed_batch(sealing, sealing.device(), sealing.report("theme"))
    for header in ({"Content-Encoding": "gzip"}, {"Content-Type": "application/octet-stream"}):
        assert post_sealed(sealing, sealed, **header).status_code == 415
    enrolment = sealing.app.test_client().post(
        "/v1/devices", data=sealed, headers={"Content-Type": SEALED_TYPE}
    )
    assert enrolment.status_code == 415


def test_a_server_without_sealing_keys_says_so(world: Any) -> None:
    sealed = b"\x01\x00\x01" + bytes(200)
    answer = post_sealed(world, sealed)
    assert answer.status_code == 400
    assert answer.json["type"].endswith(":unknown_sealing_key")


def test_no_answer_to_a_bad_upload_quotes_it(sealing: Any) -> None:
    device = sealing.device()
    key = sealing.keys.sealing_keys[0].public
    body = json.dumps({"version": 1, "device": device.id, "secret-word": 1}).encode()
    answer = post_sealed(sealing, seal_upload(key, body, batch_mac(device.key, body)))
    assert answer.status_code == 400
    assert device.id not in answer.get_data(as_text=True)
    assert "secret-word" not in answer.get_data(as_text=True)


def test_a_metrics_toml_whose_devices_could_deliver_nothing_is_refused(sealing: Any) -> None:
    path = sealing.settings.keys_file
    plain, shipped = sealing.registry, registry_with(sealing, sealing.keys)
    without = replace(sealing.keys, sealing_keys=())
    require_uploads(sealing.keys, shipped, plain=False)
    require_uploads(without, plain, plain=True)
    with pytest.raises(KeysError, match="SOTTOVOCE_PLAIN_UPLOADS"):
        require_uploads(sealing.keys, plain, plain=False)
    rotated = rotate(path, OpeningKey, TODAY).keys
    require_uploads(rotated, shipped, plain=True)  # its key is retiring now
    renamed = replace(rotated, sealing_keys=(replace(rotated.sealing_keys[1], id=1),))
    for keys in (without, renamed, retire(path, OpeningKey, 1, TODAY).keys):
        with pytest.raises(KeysError, match="key 1 with this public key is not"):
            require_uploads(keys, shipped, plain=True)


def test_a_server_does_not_start_with_a_metrics_toml_that_it_could_not_serve(
    sealing: Any, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.toml"
    shipped = registry_with(sealing, sealing.keys)
    file.write_text(shipped.text)
    fitting = replace(sealing.settings, metrics_file=file, plain_uploads=False)
    prepare(fitting)
    known = sealing.store.registries.texts()
    assert shipped.text in known
    file.write_text(sealing.registry.text)
    with pytest.raises(KeysError, match="SOTTOVOCE_PLAIN_UPLOADS"):
        prepare(fitting)
    file.write_text(shipped.text.replace("seal = { key = 1", "seal = { key = 2"))
    with pytest.raises(KeysError, match="key 2"):
        prepare(fitting)
    assert sealing.store.registries.texts() == known


def test_an_app_with_a_key_delivers_over_http_to_a_server_that_refuses_plain_uploads(
    sealing: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_PLAIN_UPLOADS", "refuse")
    server = serve(sealing)
    device = sealing.device()
    plain = server.post(device, device.batch(sealing.report("theme")))
    assert plain.status_code == 415 and plain.json()["type"].endswith(":sealing_required")
    client = Client(
        registry_with(sealing, sealing.keys),
        endpoint=server.url,
        write_key=sealing.keys.write_key,
        enabled=True,
        respect_environment=False,  # tests run under pytest, and in CI
        state_dir=tmp_path / "state",
        upload_within_seconds=1e9,
    )
    client.record("theme", "dark")
    assert client.flush()
    client.close()
    assert theme_reports(sealing) == 1

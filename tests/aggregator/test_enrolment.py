"""POST /v1/devices: the server draws the id, and only for those with the write key."""

import io
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import MasterKey
from aggregator.keyring.ring import activated, retired
from client_sdk.authentication import batch_mac, derive_device_key
from client_sdk.report import DEVICES_PATH

DAY = date(2026, 11, 30)


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_the_server_draws_id_and_key(world: Any, body: bytes) -> None:
    answers = [world.enrol(body) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {201}
    first, second = (answer.json for answer in answers)
    assert len(first["device"]) == 32 and len(first["key"]) == 64
    assert first["device"] != second["device"] and first["key"] != second["key"]


def test_an_enrolled_device_can_report(world: Any) -> None:
    device = world.device()
    told = world.enrol().json
    device.id, device.key = told["device"], bytes.fromhex(told["key"])
    assert world.send(device, device.batch(world.report("theme"))).status_code == 200


def test_a_client_drawn_id_is_refused(world: Any) -> None:
    answer = world.enrol(b'{"device": "00000000000000000000000000000000"}')
    assert answer.status_code == 400 and answer.json["field"] == "device"


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"name": 1}', b"{", b"[" * 50_000, b"NaN"])
@pytest.mark.usefixtures("uncollected")
def test_an_enrolment_says_nothing_else(world: Any, body: bytes) -> None:
    answer = world.enrol(body)
    assert answer.status_code == 400 and answer.json["field"] == "body"


@pytest.mark.parametrize(
    "shown", [None, "", "Bearer", "Bearer wrong", "Basic {key}", "Bearer {key}x"]
)
def test_without_the_write_key_nobody_enrols(world: Any, shown: str | None) -> None:
    headers = {"Authorization": shown.format(key=world.keys.write_key)} if shown else {}
    answer = world.app.test_client().post(DEVICES_PATH, headers=headers)
    assert answer.status_code == 401 and answer.json["field"] == "Authorization"
    assert answer.json["type"].endswith(":bad_write_key")


def test_a_body_that_is_too_long_is_not_read(world: Any) -> None:
    assert world.enrol(b" " * 70_000).status_code == 413


@pytest.mark.parametrize("length", ["1_0", "-2", "+2", "two", "2.0", "\u0662", "9" * 5000])
def test_a_length_that_is_no_number_is_not_taken_for_none(world: Any, length: str) -> None:
    # Found by fuzzing: Werkzeug reads such a length as 0, and a body was ignored.
    headers = {"Authorization": f"Bearer {world.keys.write_key}"}
    environ = {"CONTENT_LENGTH": length, "wsgi.input": io.BytesIO(b'{"device": 1}')}
    answer = world.app.test_client().post(
        DEVICES_PATH, headers=headers, content_type="application/json", environ_overrides=environ
    )
    assert answer.status_code == 400 and answer.json["field"] == "Content-Length"


def test_old_master_keys_verify_and_the_newest_signs() -> None:
    first = Keys.fresh()
    device, device_key = first.enrol()
    second = MasterKey(2, "pending", None, None, b"b" * 32)
    copied = replace(first, master_keys=(*first.master_keys, second))
    rotated = replace(first, master_keys=activated(MasterKey, copied.master_keys, 2, DAY))
    mac = batch_mac(device_key, b"body")
    assert rotated.verified(device, b"body", mac) == device_key
    newcomer, newcomer_key = rotated.enrol()
    assert newcomer_key == derive_device_key(b"b" * 32, newcomer)
    # A server where it is still pending takes the uploads of those enrolled where it is active.
    newcomers = batch_mac(newcomer_key, b"body")
    assert copied.verified(newcomer, b"body", newcomers) == newcomer_key
    revoked = replace(first, master_keys=retired(MasterKey, rotated.master_keys, 1, DAY))
    assert revoked.verified(device, b"body", mac) is None
    assert revoked.revoked(device, b"body", mac) == device_key
    assert revoked.revoked(newcomer, b"body", newcomers) is None
    assert revoked.revoked(device, b"other", mac) is None

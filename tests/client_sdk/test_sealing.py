"""Sealed uploads on the device: what leaves, what it costs, and that nothing leaves plain."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from client_sdk import Client, Registry, RegistryError, loads
from client_sdk.authentication import batch_mac
from client_sdk.errors import TransportError
from client_sdk.hpke import CannotOpen, Recipient
from client_sdk.report import REPORTS_PATH, encode_batch
from client_sdk.sealed_transport import SealedTransport
from client_sdk.sealing import (
    OVERHEAD_BYTES,
    SealingKey,
    key_id_of,
    open_upload,
    seal_upload,
)
from client_sdk.transport import Reply

ROOT = Path(__file__).parents[2]
RECIPIENT = Recipient(bytes(range(32)))
KEY = SealingKey(3, RECIPIENT.public)
DEVICE = "0123456789abcdef0123456789abcdef"
BODY = encode_batch(DEVICE, 1, "f" * 32, ['{"metric":"theme"}'])
MAC = batch_mac(b"k" * 32, BODY)
P = 2**255 - 19
# https://cr.yp.to/ecdh.html#validate: all of small order, with p - 1, p, p + 1 and the like.
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
]


class SealedScript:
    """A carrier around a scripted server: opens what arrives, and keeps the sealed bytes."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.sealed: list[bytes] = []

    def enrol(self) -> Reply:
        reply: Reply = self.server.enrol()
        return reply

    def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
        self.sealed.append(sealed)
        reply: Reply = self.server.send(*open_upload(RECIPIENT, sealed))
        return reply


def with_seal(registry: Registry, seal: str) -> Registry:
    return loads(registry.text.replace("[project]", f"[project]\nseal = {seal}", 1))


def test_what_was_sealed_opens_to_the_same_bytes_and_mac() -> None:
    sealed = seal_upload(KEY, BODY, MAC)
    assert key_id_of(sealed) == 3
    assert open_upload(RECIPIENT, sealed) == (BODY, MAC)


@pytest.mark.parametrize("size", [1, 100, 65_536])
def test_sealing_adds_the_same_few_bytes_to_every_body(size: int) -> None:
    assert len(seal_upload(KEY, b"x" * size, MAC)) - size == OVERHEAD_BYTES == 83


def test_sealed_bytes_show_no_id_no_name_no_sequence_and_no_mac() -> None:
    sealed = seal_upload(KEY, BODY, MAC)
    for hidden in (DEVICE, "theme", "sequence", MAC):
        for form in (hidden.encode(), hidden.upper().encode()):
            assert form not in sealed
    assert bytes.fromhex(DEVICE) not in sealed and bytes.fromhex(MAC) not in sealed


def test_the_key_id_cannot_be_exchanged_on_the_way() -> None:
    sealed = bytearray(seal_upload(KEY, BODY, MAC))
    sealed[2] = 4
    assert key_id_of(bytes(sealed)) == 4
    with pytest.raises(CannotOpen):
        open_upload(RECIPIENT, bytes(sealed))


def test_another_format_and_a_stump_have_no_key_id() -> None:
    sealed = seal_upload(KEY, BODY, MAC)
    with pytest.raises(CannotOpen, match="format 1"):
        key_id_of(b"\x02" + sealed[1:])
    for length in (0, 2, OVERHEAD_BYTES):
        with pytest.raises(CannotOpen, match="longer"):
            key_id_of(sealed[:length])


def test_a_client_delivers_through_the_seal_and_a_retry_is_the_same_batch(
    client_of: Callable[..., Client], server: Any
) -> None:
    carrier = SealedScript(server)
    client = client_of(transport=SealedTransport(carrier, KEY))
    server.answer = lambda body: server.dead()
    client.record("theme", "dark")
    assert not client.flush()
    server.answer = server.accepted
    assert client.flush()
    first, second = carrier.sealed
    assert first != second and len(first) == len(second)
    assert server.bodies[0] == server.bodies[1] and server.macs[0] == server.macs[1]
    assert server.macs[0] == batch_mac(server.key, server.bodies[0])


def test_a_key_the_server_does_not_know_costs_no_report(
    client_of: Callable[..., Client], server: Any
) -> None:
    problem = {"type": "urn:sottovoce:problem:unknown_sealing_key", "status": 400}
    server.answer = lambda body: Reply(400, json.dumps(problem).encode())
    client = client_of(transport=SealedTransport(SealedScript(server), KEY))
    client.record("theme", "dark")
    for _ in range(3):
        assert not client.flush()
    assert client.status().queued == 1 and client.status().summary == "collecting"
    server.answer = server.accepted
    assert client.flush()
    assert client.status().queued == 0 and not client.status().refused


def test_what_cannot_be_sealed_is_not_sent_plain(
    client_of: Callable[..., Client], server: Any
) -> None:
    client = client_of(transport=SealedTransport(SealedScript(server), SealingKey(1, bytes(32))))
    client.record("theme", "dark")
    assert not client.flush()
    assert server.bodies == []


def test_a_registry_carries_a_key_that_is_part_of_no_fingerprint(
    registry_of: Callable[..., Registry],
) -> None:
    plain = registry_of()
    sealed = with_seal(plain, f'{{ key = 3, public = "{KEY.public.hex()}" }}')
    assert plain.seal is None and sealed.seal == KEY
    for name, metric in plain.metrics.items():
        assert sealed.metrics[name].fingerprint == metric.fingerprint
        assert sealed.metrics[name].channel_hash == metric.channel_hash
    assert list(sealed.metrics) == list(plain.metrics)


@pytest.mark.parametrize(
    ("seal", "key", "rule"),
    [
        ('"abc"', "project.seal", "must be a table"),
        ("{ key = 1 }", "project.seal.public", "is required"),
        ('{ public = "00" }', "project.seal.key", "is required"),
        ("{ key = 0, public = '%s' }", "project.seal.key", "1..65535"),
        ("{ key = 65536, public = '%s' }", "project.seal.key", "1..65535"),
        ("{ key = true, public = '%s' }", "project.seal.key", "1..65535"),
        ("{ key = 1, public = '%s', more = 1 }", "project.seal.more", "is not a known key"),
        ("{ key = 1, public = '%s00' }", "project.seal.public", "64 hex digits"),
        ("{ key = 1, public = 7 }", "project.seal.public", "must be a text"),
        ("{ key = 1, public = '" + "F" * 64 + "' }", "project.seal.public", "64 hex digits"),
        ("{ key = 1, public = '" + "zz" * 32 + "' }", "project.seal.public", "64 hex digits"),
    ],
)
def test_a_seal_that_breaks_a_rule_is_refused_at_load(
    registry_of: Callable[..., Registry], seal: str, key: str, rule: str
) -> None:
    with pytest.raises(RegistryError) as caught:
        with_seal(registry_of(), seal.replace("%s", KEY.public.hex()))
    assert caught.value.key == key and rule in caught.value.rule


@pytest.mark.parametrize("number", SMALL_ORDER)
def test_a_public_key_that_keeps_no_secret_is_refused_at_load(
    registry_of: Callable[..., Registry], number: int
) -> None:
    public = number.to_bytes(32, "little")
    with pytest.raises(ValueError, match="shared key"):
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    with pytest.raises(RegistryError, match="64 hex digits"):
        with_seal(registry_of(), f'{{ key = 1, public = "{public.hex()}" }}')


def test_every_key_that_can_be_made_is_accepted_at_load(
    registry_of: Callable[..., Registry],
) -> None:
    for _ in range(20):
        public = Recipient(os.urandom(32)).public.hex()
        assert with_seal(registry_of(), f'{{ key = 1, public = "{public}" }}').seal is not None


def test_cryptography_is_loaded_with_the_first_upload_and_not_before(
    registry_of: Callable[..., Registry], tmp_path: Path
) -> None:
    registry = with_seal(registry_of(), f'{{ key = 3, public = "{KEY.public.hex()}" }}')
    (tmp_path / "metrics.toml").write_text(registry.text)
    code = """
import sys
from client_sdk import Client, load
from client_sdk.errors import TransportError
from client_sdk.sealed_transport import SealedTransport
class Nowhere:
    def enrol(self): raise TransportError("away")
    def send_sealed(self, sealed, path): raise TransportError("away")
registry = load("metrics.toml")
transport = SealedTransport(Nowhere(), registry.seal)
client = Client(registry, enabled=True, respect_environment=False, state_dir="state",
                clock=lambda: 1796126400.0)
client.record("theme", "dark")
client.close()
assert client.status().queued == 1, client.status()
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"cryptography", "requests"}, loaded
try:
    transport.send(b"{}", "00" * 32)
except TransportError:
    pass
assert "cryptography" in sys.modules
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"type": "urn:sottovoce:problem:malformed"}'),
        (400, b"<html>"),
        (400, b"[]"),
        (400, b"[" * 100_000),
        (200, b'{"type": "urn:sottovoce:problem:unknown_sealing_key"}'),
        (503, b""),
    ],
)
@pytest.mark.usefixtures("uncollected")
def test_every_other_answer_goes_through_unchanged(status: int, body: bytes) -> None:
    class Answering:
        def enrol(self) -> Reply:
            return Reply(201, b"")

        def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
            return Reply(status, body, 7.0)

    assert SealedTransport(Answering(), KEY).send(BODY, MAC) == Reply(status, body, 7.0)


def test_a_dead_network_is_told_as_one() -> None:
    class Dead:
        def enrol(self) -> Reply:
            raise TransportError("no answer")

        def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
            raise TransportError("no answer")

    transport = SealedTransport(Dead(), KEY)
    for call in (transport.enrol, lambda: transport.send(BODY, MAC)):
        with pytest.raises(TransportError):
            call()

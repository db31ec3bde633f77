"""MACs both ways: every field is bound."""

from typing import Any

import pytest

from client_sdk.authentication import (
    answer_mac,
    batch_mac,
    derive_device_key,
    erase_mac,
    erased_mac,
    macs_match,
)

KEY = bytes(range(32))
DEVICE_KEY = "a66a26df2623a0968529cbdd6cabb5d865ab919d5c0b77ee33c65c00c006bbe8"
BATCH_MAC = "09b4db6ca75fa1c801028681e175da85f911e95bdef5a058f7b32187a00cec9a"
ANSWER_MAC = "eca7ece07d2404de8e1d0a8c4508e6beb8de87f12e14c26d8078207ce2204990"
ERASE_MAC = "30ca1cafc889b4e1aff18275603bb85754c06130f780d4b3175fba20d9592385"
ERASED_MAC = "702b48eb35fe3c127450a9824f96e620da0add338670a9a4d288606ffd3a64b3"
ANSWER: dict[str, Any] = {
    "nonce": "0" * 32,
    "sequence": 12,
    "verdict": "accepted",
    "spent": 3,
    "reports": ["accepted", "too_early"],
}


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "0" * 31 + "1"},
        {"sequence": 1},
        {"sequence": 123, "spent": 3},
        {"verdict": "duplicate"},
        {"verdict": "clone_suspected"},
        {"spent": 4},
        {"spent": -3},
        {"reports": ["accepted"]},
        {"reports": ["too_early", "accepted"]},
        {"reports": ["accepted", "too_early", ""]},
        {"reports": ["accepted", "already_reported"]},
        {"reports": []},
        # The same characters, cut elsewhere.
        {"sequence": 1, "verdict": "2accepted"},
        {"reports": ["acceptedtoo_early"]},
    ],
    ids=str,
)
def test_an_answer_mac_binds_each_field(change: dict[str, Any]) -> None:
    assert answer_mac(KEY, **ANSWER) != answer_mac(KEY, **{**ANSWER, **change})


def test_a_mac_belongs_to_one_key() -> None:
    other = bytes(32)
    assert answer_mac(KEY, **ANSWER) != answer_mac(other, **ANSWER)
    assert batch_mac(KEY, b"body") != batch_mac(other, b"body")


def test_a_batch_mac_covers_every_byte() -> None:
    body = b'{"version":1}'
    macs = {batch_mac(KEY, body[:i] + bytes([body[i] ^ 1]) + body[i + 1 :]) for i in range(13)}
    assert len(macs | {batch_mac(KEY, body), batch_mac(KEY, body + b" ")}) == 15


def test_purposes_do_not_share_macs() -> None:
    # One key signs both directions: neither may be replayed as the other.
    fields = ("0" * 32, "12", "accepted", "3", "accepted", "too_early")
    body = "\x00".join(fields).encode()
    assert batch_mac(KEY, body) != answer_mac(KEY, **ANSWER)
    assert derive_device_key(KEY, body.decode()).hex() != batch_mac(KEY, body)
    text = "0" * 32
    macs = {
        batch_mac(KEY, text.encode()),
        erase_mac(KEY, text.encode()),
        erased_mac(KEY, text),
        answer_mac(KEY, text, 1, "erased", 0, []),
        derive_device_key(KEY, text).hex(),
    }
    assert len(macs) == 5


def test_stored_figures_have_not_changed() -> None:
    # This implementation's own: devices in the field hold such keys.
    assert derive_device_key(KEY, "ab" * 16).hex() == DEVICE_KEY
    assert batch_mac(KEY, b"body") == BATCH_MAC
    assert answer_mac(KEY, **ANSWER) == ANSWER_MAC
    assert erase_mac(KEY, b"body") == ERASE_MAC
    assert erased_mac(KEY, "0" * 32) == ERASED_MAC


@pytest.mark.parametrize("given", ["", "0", "é", "f" * 64])
def test_macs_are_compared_whole(given: str) -> None:
    assert not macs_match("0" * 64, given)
    assert macs_match("0" * 64, "0" * 64)

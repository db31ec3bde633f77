"""Sealed uploads: what a batch becomes when metrics.toml carries the aggregator's public key.

    version (1 byte, 1) | key id (2 bytes, big-endian) | HPKE of (MAC (32 bytes) | body)

Whoever handles the bytes on the way, such as a proxy that ends TLS, sees their length and which
key they are for: id, sequence, MAC and reports are inside. MAC and digest stay those of the
plain body, so a batch that is sealed anew, or to another key, is the same batch.
"""

import struct
from typing import NamedTuple

from client_sdk import hpke
from client_sdk.hpke import CannotOpen, Recipient

MOST_KEY_ID = 2**16 - 1
_FORMAT = 1
_HEAD = struct.Struct(">BH")
_MAC_BYTES = 32
OVERHEAD_BYTES = _HEAD.size + hpke.OVERHEAD_BYTES + _MAC_BYTES
"""Length of a sealed upload less that of its body, whatever is in it."""

_INFO = b"sottovoce upload v1"
_PRIME = 2**255 - 19
_ORDER_EIGHT = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""With 0, 1 and -1 the points of small order, https://cr.yp.to/ecdh.html#validate."""


class SealingKey(NamedTuple):
    """The aggregator's public key, as an app ships it.

    Attributes:
        id: Names it in the server's key file, 1..65535.
        public: X25519 public key, 32 bytes.
    """

    id: int
    public: bytes


def is_public_key(public: bytes) -> bool:
    """Say whether bytes are an X25519 public key, in proper form and of large order."""
    number = int.from_bytes(public, "little")
    proper = len(public) == hpke.KEY_BYTES and 1 < number < _PRIME - 1
    return proper and number not in _ORDER_EIGHT


def seal_upload(key: SealingKey, body: bytes, mac: str) -> bytes:
    """Return what travels instead of a body and its hex MAC."""
    head = _HEAD.pack(_FORMAT, key.id)
    return head + hpke.seal(key.public, _INFO, head, bytes.fromhex(mac) + body)


def key_id_of(sealed: bytes) -> int:
    """Return the id of the key that an upload says it is sealed to.

    Raises:
        CannotOpen: It is too short, or of another format.
    """
    if len(sealed) <= OVERHEAD_BYTES:
        raise CannotOpen(f"must be longer than {OVERHEAD_BYTES} bytes")
    version, key_id = _HEAD.unpack_from(sealed)
    if version != _FORMAT:
        raise CannotOpen(f"must be of format {_FORMAT}, in its first byte")
    return int(key_id)


def open_upload(recipient: Recipient, sealed: bytes) -> tuple[bytes, str]:
    """Return body and hex MAC of an upload that `key_id_of` could read.

    Raises:
        CannotOpen: It was not sealed to this key as an upload, or altered since.
    """
    head = sealed[: _HEAD.size]
    plaintext = recipient.open(sealed[_HEAD.size :], _INFO, head)
    return plaintext[_MAC_BYTES:], plaintext[:_MAC_BYTES].hex()

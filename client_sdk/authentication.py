"""Who may speak for a device: keys derived at enrolment and MACs both ways.

The server draws the device id and derives the device's key from a master key and that id, so
it keeps no table of keys. A batch carries a MAC over its exact bytes; an answer carries one
over everything that the SDK acts on, so nobody on the way can burn a device's budget, mark it
as a clone, or make it throw reports away.
"""

# As hmac.compare_digest, which comes with OpenSSL.
from _operator import _compare_digest as compare_digest
from collections.abc import Sequence

from client_sdk.hashing import hmac_sha256

KEY_BYTES = 32
MAC_HEADER = "Sottovoce-MAC"


def derive_device_key(master_key: bytes, device: str) -> bytes:
    """Return the key of a device id (32 hex digits) under a master key."""
    return hmac_sha256(master_key, b"sottovoce device key v1\x00" + device.encode())


def batch_mac(device_key: bytes, body: bytes) -> str:
    """Return the hex MAC of an upload's plaintext bytes."""
    return hmac_sha256(device_key, b"sottovoce batch v1\x00" + body).hex()


def answer_mac(
    device_key: bytes, nonce: str, sequence: int, verdict: str, spent: int, reports: Sequence[str]
) -> str:
    """Return the hex MAC of an answer, bound to the batch by its nonce.

    Args:
        nonce: The batch's nonce, 32 hex digits.
        sequence: The batch's sequence number.
        verdict: "accepted", "duplicate", "clone_suspected", "identity_revoked" or "erased".
        spent: Micro-epsilon in the server's ledger for this device.
        reports: Per report "accepted" or the reason of its refusal.
    """
    fields = (nonce, str(sequence), verdict, str(spent), *reports)
    message = b"sottovoce answer v1\x00" + "\x00".join(fields).encode()
    return hmac_sha256(device_key, message).hex()


def erase_mac(device_key: bytes, body: bytes) -> str:
    """Return the hex MAC of a request to be erased, over its plaintext bytes."""
    return hmac_sha256(device_key, b"sottovoce erase v1\x00" + body).hex()


def erased_mac(device_key: bytes, nonce: str) -> str:
    """Return the hex MAC by which the server confirms an erasure.

    Args:
        nonce: The request's nonce, 32 hex digits.
    """
    return hmac_sha256(device_key, b"sottovoce erased v1\x00" + nonce.encode()).hex()


def macs_match(expected: str, given: str) -> bool:
    """Compare two hex MACs in constant time."""
    return compare_digest(expected.encode(), given.encode())

"""Encryption to a public key (HPKE, RFC 9180): the one suite and mode that uploads use.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode, one message per encapsulation.
`cryptography` has the primitives in every version that we accept; its own HPKE came later and
takes no associated data. Section numbers are the RFC's.

Who holds the private key can read what was sealed; nobody learns who sealed it.
"""

from typing import TYPE_CHECKING

from client_sdk.hashing import hmac_sha256
from client_sdk.randomness import random_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
OVERHEAD_BYTES = KEY_BYTES + 16
"""What sealing adds: the encapsulated key and the tag."""

_VERSION = b"HPKE-v1"
_MODE_BASE = b"\x00"
_KEM = b"KEM" + (0x0020).to_bytes(2)
_SUITE = b"HPKE" + b"".join(part.to_bytes(2) for part in (0x0020, 0x0001, 0x0003))
_NONCE_BYTES = 12


class CannotOpen(ValueError):
    """Not sealed to this key in this way, or altered since. Never shows what it was."""


def seal(public: bytes, info: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """Return encapsulated key and ciphertext.

    Args:
        public: The recipient's X25519 public key, 32 bytes.
        info: What this is for; opening needs the same.
        aad: Sent in the clear beside it; opening needs the same.

    Raises:
        ValueError: `public` is a point of small order.
        NoRandomness: The operating system gives none.
    """
    return _seal_with(random_bytes(KEY_BYTES), public, info, aad, plaintext)


class Recipient:
    """A private key, ready to open what was sealed to it.

    Args:
        private: X25519 private key, 32 bytes.

    Attributes:
        public: The public key that belongs to it.
    """

    def __init__(self, private: bytes) -> None:
        self._private = _private_key(private)
        self.public = self._private.public_key().public_bytes_raw()

    def open(self, sealed: bytes, info: bytes, aad: bytes) -> bytes:
        """Return the plaintext.

        Raises:
            CannotOpen: Sealed to another key, with other `info` or `aad`, cut or altered.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        enc, ciphertext = sealed[:KEY_BYTES], sealed[KEY_BYTES:]
        try:
            # 4.1, Decap
            secret = _shared_secret(self._private, enc, enc + self.public)
            key, nonce = _key_schedule(secret, info)
            return ChaCha20Poly1305(key).decrypt(nonce, ciphertext, aad)
        except (InvalidTag, ValueError):
            raise CannotOpen("cannot be opened") from None


def import_primitives() -> None:
    """Import all that sealing needs, for callers that choose the moment."""
    import cryptography.exceptions
    import cryptography.hazmat.primitives.asymmetric.x25519
    import cryptography.hazmat.primitives.ciphers.aead
    import cryptography.hazmat.primitives.kdf.hkdf  # noqa: F401


def _seal_with(ephemeral: bytes, public: bytes, info: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """Seal with a given ephemeral private key, which must never be used twice."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    private = _private_key(ephemeral)
    enc = private.public_key().public_bytes_raw()
    # 4.1, Encap
    secret = _shared_secret(private, public, enc + public)
    key, nonce = _key_schedule(secret, info)
    return enc + ChaCha20Poly1305(key).encrypt(nonce, plaintext, aad)


def _private_key(raw: bytes) -> "X25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(raw)


def _shared_secret(private: "X25519PrivateKey", public: bytes, context: bytes) -> bytes:
    """4.1: Diffie-Hellman, then ExtractAndExpand."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    # Raises ValueError if the result is all zero, as 7.1.4 demands.
    agreed = private.exchange(X25519PublicKey.from_public_bytes(public))
    extracted = _extract(_KEM, b"", b"eae_prk", agreed)
    return _expand(_KEM, extracted, b"shared_secret", context, KEY_BYTES)


def _key_schedule(secret: bytes, info: bytes) -> tuple[bytes, bytes]:
    """5.1: key and nonce of the first message; no pre-shared key."""
    context = (
        _MODE_BASE
        + _extract(_SUITE, b"", b"psk_id_hash", b"")
        + _extract(_SUITE, b"", b"info_hash", info)
    )
    extracted = _extract(_SUITE, secret, b"secret", b"")
    return (
        _expand(_SUITE, extracted, b"key", context, KEY_BYTES),
        _expand(_SUITE, extracted, b"base_nonce", context, _NONCE_BYTES),
    )


def _extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    """4, LabeledExtract; HKDF's extract is HMAC(salt, material)."""
    return hmac_sha256(salt, _VERSION + suite + label + material)


def _expand(suite: bytes, key: bytes, label: bytes, context: bytes, length: int) -> bytes:
    """4, LabeledExpand."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    info = length.to_bytes(2) + _VERSION + suite + label + context
    return HKDFExpand(SHA256(), length, info).derive(key)

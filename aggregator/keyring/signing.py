"""Signing releases with the project's Ed25519 keys, and verifying old ones for ever."""

from collections.abc import Mapping, Sequence

from aggregator.keyring.kinds import SigningKey
from aggregator.keyring.ring import RotationError


class Signing:
    """The signing keys at work.

    Args:
        ring: Oldest first.
    """

    def __init__(self, ring: Sequence[SigningKey]) -> None:
        self._ring = ring

    def sign(self, message: bytes) -> tuple[int, bytes]:
        """Return the active key's id, and its Ed25519 signature (64 bytes) of exactly these bytes.

        Raises:
            RotationError: There is no active key.
        """
        for key in self._ring:
            if key.state == "active":
                return key.id, key.signature(message)
        raise RotationError(
            "the key file must have an active signing key: sottovoce keys rotate signing"
        )

    @property
    def public(self) -> Mapping[int, bytes]:
        """Public keys (32 bytes) by id, of every key that ever signed."""
        return {key.id: key.public for key in self._ring if key.verifies}

    def verifies(self, number: int, message: bytes, signature: bytes) -> bool:
        """Say whether a signature is that of a key of this ring; see `verifies`."""
        return verifies(self.public, number, message, signature)


def verifies(public: Mapping[int, bytes], number: int, message: bytes, signature: bytes) -> bool:
    """Say whether a signature is that of the named key over exactly these bytes.

    Args:
        public: As `Signing.public`, which whoever has no key file can be given.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if number not in public:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public[number]).verify(signature, message)
    except InvalidSignature:
        return False
    return True

"""Blind RSA signatures (RFC 9474): the server signs what it does not see, and knows it again.

The variant is RSABSSA-SHA384-PSS-Deterministic: messages here are 256 random bits, so there is
nothing to gain from the 32 random bytes that the randomized one puts before them. A signature is an
ordinary one of RSASSA-PSS, which `cryptography` verifies; it also makes the keys. What it has not
is the bare RSA operation, so that is `pow`, which does not take the same time for each number: the
number is multiplied by a random one before (base blinding), so that time says nothing about the
key, and the result is checked, for a faulty one by the Chinese remainder theorem tells the factors.

Keys have 3072 bits: 128 bits of strength, and no year by which they must be gone as there is for
2048 (2030 in NIST SP 800-57). That signatures cannot be linked hangs on no size: each blinded
number fits each message equally.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_BITS = 3072
EXPONENT = 65537
SALT_BYTES = 48


@dataclass(frozen=True)
class PublicKey:
    """What respondents blind for, and what admissions are verified by."""

    modulus: int
    exponent: int = EXPONENT

    @property
    def size(self) -> int:
        """Bytes of a blinded message, and of a signature."""
        return -(-self.modulus.bit_length() // 8)

    @cached_property
    def _key(self) -> rsa.RSAPublicKey:
        return rsa.RSAPublicNumbers(self.exponent, self.modulus).public_key()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the key as SubjectPublicKeyInfo (DER), 64 hex digits: what people compare."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        der = self._key.public_bytes(serialization.Encoding.DER, form)
        return hashlib.sha256(der).hexdigest()

    def verifies(self, message: bytes, signature: bytes, salt_bytes: int = SALT_BYTES) -> bool:
        """Say whether a signature is this key's, of exactly this message."""
        scheme = padding.PSS(padding.MGF1(hashes.SHA384()), salt_bytes)
        try:
            self._key.verify(signature, message, scheme, hashes.SHA384())
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """What signs. Shows nothing of itself."""

    def __init__(self, numbers: rsa.RSAPrivateNumbers) -> None:
        self._numbers = numbers
        self.public = PublicKey(numbers.public_numbers.n, numbers.public_numbers.e)

    @classmethod
    def fresh(cls) -> Self:
        """Draw a key."""
        return cls(rsa.generate_private_key(EXPONENT, KEY_BITS).private_numbers())

    @classmethod
    def from_der(cls, der: bytes) -> Self:
        """Read what `der` gave: unchecked, so it must come from where nobody else writes."""
        key = serialization.load_der_private_key(der, None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError("a key of a survey must be one of RSA")
        return cls(key.private_numbers())

    def der(self) -> bytes:
        """Return the key as PKCS #8 (DER), not encrypted."""
        return self._numbers.private_key(unsafe_skip_rsa_key_validation=True).private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign_blinded(self, blinded: int, below: Callable[[int], int] = secrets.randbelow) -> int:
        """Return the blind signature of a number in 1..modulus-1 (BlindSign of the RFC).

        Args:
            below: Draws an integer below another, uniformly; for the base blinding.

        Raises:
            ArithmeticError: The machine has miscalculated; nothing must be told of the result.
        """
        key, modulus, exponent = self._numbers, self.public.modulus, self.public.exponent
        mask = 1 + below(modulus - 1)
        masked = blinded * pow(mask, exponent, modulus) % modulus
        by_p, by_q = pow(masked, key.dmp1, key.p), pow(masked, key.dmq1, key.q)
        raw = by_q + key.q * ((by_p - by_q) * key.iqmp % key.p)
        signature = raw * pow(mask, -1, modulus) % modulus
        if pow(signature, exponent, modulus) != blinded:
            raise ArithmeticError("a blind signature must verify before it leaves")
        return signature

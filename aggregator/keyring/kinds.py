"""The kinds of keys, and what a key of each may do in each state.

    kind     is                      pending   active            retiring  retired
    master   what device keys are    verifies  signs, verifies   verifies  tells its devices that
             derived from                                                  they must enrol anew
    write    what apps show          -         enrols            enrols    -
    sealing  X25519, opens uploads   -         opens             opens     - (deleted)
    signing  Ed25519, for releases   -         signs, verifies   verifies  verifies (its private
                                                                           key is deleted before)
    read     what analysts show      -         reads             -         -

A master key verifies before it signs: a server that activates it a moment earlier than another does
not enrol devices that the other turns away. A retired one is kept, because only with it can a
device be told, in an answer that it can believe, why it is not served.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from aggregator.keyring.ring import Key, RotationError, State
from client_sdk.hpke import Recipient
from client_sdk.sealing import SealingKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LEAST_TEXT = 16
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.@+-]{0,63}")


@dataclass(frozen=True)
class MasterKey(Key):
    """What devices' keys are derived from."""

    kind: ClassVar[str] = "master"
    secret_in: ClassVar[frozenset[State]] = frozenset({"pending", "active", "retiring", "retired"})

    @property
    def verifies(self) -> bool:
        """Whether uploads of its devices are taken."""
        return self.state != "retired"


@dataclass(frozen=True)
class WriteKey(Key):
    """A text that apps carry and show to enrol."""

    kind: ClassVar[str] = "write"

    @property
    def text(self) -> str:
        """What apps carry; empty once it is retired."""
        return (self.secret or b"").decode()

    @staticmethod
    def written(secret: bytes) -> str:
        return secret.decode()

    @staticmethod
    def parsed(text: str) -> bytes:
        if len(text) < _LEAST_TEXT:
            raise ValueError("secret")
        return text.encode()


@dataclass(frozen=True)
class OpeningKey(Key):
    """Opens uploads that were sealed to its public half.

    What was sealed to it, and recorded on the way, nobody can open once it is retired.
    """

    kind: ClassVar[str] = "sealing"

    @property
    def opens(self) -> bool:
        """Whether uploads sealed to it are taken."""
        return self.state in ("active", "retiring")

    @cached_property
    def recipient(self) -> Recipient:
        """The key, ready for use."""
        if self.secret is None:
            raise RotationError(f"key {self.id} is retired: its private key is deleted")
        return Recipient(self.secret)

    @property
    def public(self) -> SealingKey:
        """What apps ship."""
        return SealingKey(self.id, self.recipient.public)


@dataclass(frozen=True)
class SigningKey(Key):
    """Signs releases; its public half verifies them for ever.

    Attributes:
        public: Ed25519 public key, 32 bytes; never deleted.
    """

    kind: ClassVar[str] = "signing"
    secret_in: ClassVar[frozenset[State]] = frozenset({"pending", "active"})

    public: bytes = b""

    @classmethod
    def made(cls, number: int, secret: bytes, today: date | None) -> Self:
        return cls(number, "pending", today, today, secret, _public(secret))

    def document(self) -> dict[str, object]:
        return {**super().document(), "public": self.public.hex()}

    @classmethod
    def further(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        public, secret = cls.parsed(entry["public"]), entry["secret"]
        if secret is not None and _public(cls.parsed(secret)) != public:
            raise ValueError("public")
        return {"public": public}

    @property
    def verifies(self) -> bool:
        """Whether a signature of it can be genuine."""
        return self.state != "pending"

    def signature(self, message: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes) of exactly these bytes."""
        if self.secret is None:
            raise RotationError(f"signing key {self.id} is {self.state}: it signs nothing any more")
        return _ed25519(self.secret).sign(message)


@dataclass(frozen=True)
class ReadKey(Key):
    """The SHA-256 of a text that one analyst, or one program, shows to read.

    Attributes:
        label: Who holds it.
    """

    kind: ClassVar[str] = "read"
    secret_in: ClassVar[frozenset[State]] = frozenset({"pending", "active"})
    single: ClassVar[bool] = False

    label: str = ""

    @classmethod
    def held_by(cls, label: str, number: int, text: str, today: date) -> Self:
        """Return the key of a text.

        Raises:
            RotationError: The label is not one.
        """
        if not _LABEL.fullmatch(label):
            raise RotationError(f"a label must match {_LABEL.pattern}, got {label!r}")
        return replace(cls.made(number, digest_of(text), today), label=label)

    def document(self) -> dict[str, object]:
        return {**super().document(), "label": self.label}

    @classmethod
    def further(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        if not _LABEL.fullmatch(entry["label"]):
            raise ValueError("label")
        return {"label": entry["label"]}


AnyKey = MasterKey | WriteKey | OpeningKey | SigningKey | ReadKey
KINDS: Mapping[str, type[AnyKey]] = {
    kind.kind: kind for kind in (MasterKey, WriteKey, OpeningKey, SigningKey, ReadKey)
}


def fresh_text() -> str:
    """Draw a text to be carried by apps or shown by analysts: 192 bits.

    Hexadecimal, for it is also typed behind an option: base64 may begin with a hyphen, which
    command lines take for an option.
    """
    return secrets.token_hex(24)


def digest_of(text: str) -> bytes:
    """Return what is kept of a read key: it is too long to be guessed, so plain SHA-256 will do."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def any_equals(secrets: Iterable[bytes], shown: bytes) -> bool:
    """Compare with all, in constant time, whether or not one before was equal."""
    return any([hmac.compare_digest(secret, shown) for secret in secrets])


def _ed25519(secret: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


def _public(secret: bytes) -> bytes:
    return _ed25519(secret).public_key().public_bytes_raw()

"""SHA-256 and HMAC by the interpreter's own code.

The same functions of `hashlib` and `hmac` come with OpenSSL, which costs every app 4 MB of memory,
also those that never upload.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

_HOMES = ("_sha2", "_sha256")
"""Of Python 3.12 and later, and before. Some interpreters are built without either."""


class Hash(Protocol):
    """A finished hash."""

    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


def _sha256() -> Callable[[bytes], Hash]:
    for home in _HOMES:
        try:
            found: Callable[[bytes], Hash] = import_module(home).sha256
            return found
        except (ImportError, AttributeError):
            continue
    from hashlib import sha256

    return sha256


sha256 = _sha256()

_BLOCK_BYTES = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return HMAC-SHA-256 (RFC 2104), 32 bytes."""
    if len(key) > _BLOCK_BYTES:
        key = sha256(key).digest()
    block = key.ljust(_BLOCK_BYTES, b"\x00")
    inner = sha256(block.translate(_INNER) + message).digest()
    return sha256(block.translate(_OUTER) + inner).digest()

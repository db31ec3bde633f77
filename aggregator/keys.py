"""The server's secrets: one JSON file, readable by its owner only.

    {"version": 1,
     "master_keys": [{"id": "1", "key": "<64 hex digits>"}],
     "pseudonym_key": "<64 hex digits>",
     "write_key": "<text that the apps of the project carry>"}

The last master key signs new devices, all of them verify; each device's key is derived from one,
so there is no table of keys. The pseudonym key names devices in the ledger for life: with another
one every device would start with an unspent budget, so the store refuses to work with it.
"""

import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from client_sdk.authentication import KEY_BYTES, batch_mac, derive_device_key, macs_match

_VERSION = 1
_DEVICE_BYTES = 16
_LEAST_WRITE_KEY = 16


class KeysError(ValueError):
    """The key file cannot be used; names file and rule, never a key."""


@dataclass(frozen=True)
class Keys:
    """The secrets of one project's server.

    Attributes:
        master_keys: (id, key) pairs, oldest first, at least one.
        pseudonym_key: Turns device ids into the ledger's pseudonyms.
        write_key: What an app must show to enrol a device.
    """

    master_keys: tuple[tuple[str, bytes], ...] = field(repr=False)
    pseudonym_key: bytes = field(repr=False)
    write_key: str = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the key file.

        Raises:
            KeysError: It is missing, open to others, or not of the form above.
        """
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise KeysError(f"key file {path} must be readable: {error}") from error
        if mode & 0o077:
            raise KeysError(f"key file {path} must have mode 0600, it has {mode:04o}: chmod 600 it")
        try:
            return cls._parse(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise KeysError(f"key file {path} must have the form of aggregator/keys.py") from error

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Read the key file, or make one with fresh keys if there is none.

        Of several processes that do this at once, one makes the file and all read it.
        """
        if not path.exists():
            _create(path)
        return cls.load(path)

    @classmethod
    def _parse(cls, document: dict[str, Any]) -> Self:
        if document["version"] != _VERSION or len(document) != 4:
            raise ValueError("version")
        ring = tuple((str(entry["id"]), _key(entry["key"])) for entry in document["master_keys"])
        write_key = document["write_key"]
        if not ring or len({name for name, _ in ring}) != len(ring):
            raise ValueError("master_keys")
        if not isinstance(write_key, str) or len(write_key) < _LEAST_WRITE_KEY:
            raise ValueError("write_key")
        return cls(ring, _key(document["pseudonym_key"]), write_key)

    def may_enrol(self, shown: str) -> bool:
        """Say in constant time whether this is the write key."""
        return hmac.compare_digest(self.write_key.encode(), shown.encode("utf-8", "replace"))

    def enrol(self, random: Callable[[int], bytes] = os.urandom) -> tuple[str, bytes]:
        """Draw a device id and derive its key."""
        device = random(_DEVICE_BYTES).hex()
        return device, derive_device_key(self.master_keys[-1][1], device)

    def verified(self, device: str, body: bytes, mac: str) -> bytes | None:
        """Return the device's key if `mac` is the body's under any master key, else None."""
        for _, master_key in reversed(self.master_keys):
            device_key = derive_device_key(master_key, device)
            if macs_match(batch_mac(device_key, body), mac):
                return device_key
        return None


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError("key length")
    return key


def _create(path: Path) -> None:
    document = {
        "version": _VERSION,
        "master_keys": [{"id": "1", "key": secrets.token_hex(KEY_BYTES)}],
        "pseudonym_key": secrets.token_hex(KEY_BYTES),
        "write_key": secrets.token_urlsafe(24),
    }
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace a file that somebody else has just made.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

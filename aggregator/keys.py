"""The server's secrets: one JSON file, readable by its owner only.

    {"version": 2,
     "master_keys": [{"id": "1", "key": "<64 hex digits>", "created": "2026-11-29"}],
     "pseudonym_key": "<64 hex digits>",
     "write_key": "<text that the apps of the project carry>",
     "sealing_keys": [{"id": 1, "state": "active", "created": "2026-11-29",
                       "since": "2026-11-29", "private": "<64 hex digits>"}]}

The last master key signs new devices, all of them verify; each device's key is derived from one,
so there is no table of keys. The pseudonym key names devices in the ledger for life: with another
one every device would start with an unspent budget, so the store refuses to work with it.

Version 1 had neither `created` nor `sealing_keys`. It is read as a file whose master keys are of
unknown age and that has no sealing keys, and stays as it is until `sottovoce keys` changes it: that
writes version 2, which servers of before refuse, so they are updated first.
"""

import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Protocol, Self

from aggregator import private_file
from aggregator.opening_keys import Ring, ring_document, ring_from
from client_sdk.authentication import KEY_BYTES, batch_mac, derive_device_key, macs_match

_VERSION = 2
_FORMS = {
    1: {"version", "master_keys", "pseudonym_key", "write_key"},
    2: {"version", "master_keys", "pseudonym_key", "write_key", "sealing_keys"},
}
_DEVICE_BYTES = 16
_LEAST_WRITE_KEY = 16


class KeysError(ValueError):
    """The key file cannot be used; names file and rule, never a key."""


class KeySource(Protocol):
    """Where a server finds its keys at each request: they may be rotated while it runs."""

    def current(self) -> "Keys":
        """Return the keys of now."""
        ...


@dataclass(frozen=True)
class Keys:
    """The secrets of one project's server.

    Attributes:
        master_keys: (id, key) pairs, oldest first, at least one.
        pseudonym_key: Turns device ids into the ledger's pseudonyms.
        write_key: What an app must show to enrol a device.
        opening_keys: What opens sealed uploads, oldest first.
        master_created: Day (UTC) on which a master key was made, by id, where it is known.
    """

    master_keys: tuple[tuple[str, bytes], ...] = field(repr=False)
    pseudonym_key: bytes = field(repr=False)
    write_key: str = field(repr=False)
    opening_keys: Ring = ()
    master_created: Mapping[str, date] = field(default_factory=dict)

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
    def load_or_create(cls, path: Path, today: date | None = None) -> Self:
        """Read the key file, or make one with fresh keys if there is none.

        Of several processes that do this at once, one makes the file and all read it.

        Args:
            today: Day (UTC) to note as that on which the keys were made.
        """
        if not path.exists():
            private_file.create(path, cls._fresh(today).text())
        return cls.load(path)

    @classmethod
    def _fresh(cls, today: date | None) -> Self:
        return cls(
            (("1", secrets.token_bytes(KEY_BYTES)),),
            secrets.token_bytes(KEY_BYTES),
            secrets.token_urlsafe(24),
            master_created={} if today is None else {"1": today},
        )

    @classmethod
    def _parse(cls, document: dict[str, Any]) -> Self:
        if document.keys() != _FORMS[document["version"]]:
            raise ValueError("version")
        entries = document["master_keys"]
        ring = tuple((str(entry["id"]), _key(entry["key"])) for entry in entries)
        created = {
            str(entry["id"]): date.fromisoformat(entry["created"])
            for entry in entries
            if "created" in entry
        }
        write_key = document["write_key"]
        if not ring or len({name for name, _ in ring}) != len(ring):
            raise ValueError("master_keys")
        if not isinstance(write_key, str) or len(write_key) < _LEAST_WRITE_KEY:
            raise ValueError("write_key")
        opening = ring_from(document.get("sealing_keys", []))
        return cls(ring, _key(document["pseudonym_key"]), write_key, opening, created)

    def text(self) -> str:
        """Return the key file that holds these keys."""
        masters = {name: {"id": name, "key": key.hex()} for name, key in self.master_keys}
        for name, day in self.master_created.items():
            masters[name]["created"] = day.isoformat()
        document = {
            "version": _VERSION,
            "master_keys": list(masters.values()),
            "pseudonym_key": self.pseudonym_key.hex(),
            "write_key": self.write_key,
            "sealing_keys": ring_document(self.opening_keys),
        }
        return json.dumps(document, indent=1) + "\n"

    def current(self) -> Self:
        """Return these keys: they are their own source where nothing rotates them."""
        return self

    def may_enrol(self, shown: str) -> bool:
        """Say in constant time whether this is the write key."""
        return hmac.compare_digest(self.write_key.encode(), shown.encode("utf-8", "replace"))

    def enrol(self, random: Callable[[int], bytes] = os.urandom) -> tuple[str, bytes]:
        """Draw a device id and derive its key."""
        device = random(_DEVICE_BYTES).hex()
        return device, derive_device_key(self.master_keys[-1][1], device)

    def verified(
        self,
        device: str,
        body: bytes,
        mac: str,
        mac_of: Callable[[bytes, bytes], str] = batch_mac,
    ) -> bytes | None:
        """Return the device's key if `mac` is the body's under any master key, else None.

        Args:
            mac_of: Makes the MAC that such a body must have, from device key and body.
        """
        for _, master_key in reversed(self.master_keys):
            device_key = derive_device_key(master_key, device)
            if macs_match(mac_of(device_key, body), mac):
                return device_key
        return None


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError("key length")
    return key

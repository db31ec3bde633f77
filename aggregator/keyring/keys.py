"""The server's secrets: one JSON file, readable by its owner only.

    {"version": 3,
     "pseudonym_key": "<64 hex digits>",
     "master_keys":  [{"id": 1, "state": "active", "created": "2026-11-29",
                       "since": "2026-11-29", "secret": "<64 hex digits>"}],
     "write_keys":   [{..., "secret": "<text that the apps of the project carry>"}],
     "sealing_keys": [{..., "secret": "<64 hex digits>"}],
     "signing_keys": [{..., "secret": "<64 hex digits>", "public": "<64 hex digits>"}],
     "read_keys":    [{..., "secret": "<SHA-256 of a text, 64 hex digits>", "label": "who"}]}

`kinds` says what each kind is for, `ring` what the states are. Each device's key is derived from
a master key, so there is no table of keys. The pseudonym key names devices in the ledger for
life: with another one every device would start with an unspent budget, so the store refuses to
work with it, and it is the one key that does not rotate.

Versions 1 and 2 are read, and stay as they are until `sottovoce keys` changes them: that writes
version 3, which servers of before refuse, so they are updated first.
"""

import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from aggregator.keyring import private_file
from aggregator.keyring.kinds import (
    KINDS,
    AnyKey,
    MasterKey,
    OpeningKey,
    ReadKey,
    SigningKey,
    WriteKey,
    any_equals,
    digest_of,
    fresh_text,
)
from aggregator.keyring.old_key_files import as_version_3
from aggregator.keyring.ring import K, Key, ring_from
from aggregator.keyring.signing import Signing
from client_sdk.authentication import KEY_BYTES, batch_mac, derive_device_key, macs_match

_VERSION = 3
_DEVICE_BYTES = 16


class KeysError(ValueError):
    """The key file cannot be used; names file and rule, never a key."""


class KeySource(Protocol):
    """Where a server finds its keys at each request: they may be rotated while it runs."""

    def current(self) -> "Keys":
        """Return the keys of now."""
        ...


@dataclass(frozen=True)
class Keys:
    """The secrets of one project's server; each ring oldest first.

    Attributes:
        pseudonym_key: Turns device ids into the ledger's pseudonyms.
        master_keys: One is active.
        write_keys: One is active.
        sealing_keys: What opens sealed uploads.
        signing_keys: For releases; see `signing`.
        read_keys: For analysts.
    """

    pseudonym_key: bytes = field(repr=False)
    master_keys: tuple[MasterKey, ...]
    write_keys: tuple[WriteKey, ...]
    sealing_keys: tuple[OpeningKey, ...] = ()
    signing_keys: tuple[SigningKey, ...] = ()
    read_keys: tuple[ReadKey, ...] = ()

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
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KeysError(
                f"key file {path} must have the form that aggregator.keyring.keys shows"
            ) from error

    @classmethod
    def load_or_create(cls, path: Path, today: date | None = None) -> Self:
        """Read the key file, or make one with fresh keys if there is none.

        Of several processes that do this at once, one makes the file and all read it.

        Args:
            today: Day (UTC) to note as that on which the keys were made.
        """
        where = path.resolve()
        with private_file.alone(where):
            if not where.exists():
                private_file.create(where, cls.fresh(today).text())
        return cls.load(path)

    @classmethod
    def fresh(cls, today: date | None = None) -> Self:
        """Draw the keys that every project needs: master, write and signing key."""
        return cls(
            secrets.token_bytes(KEY_BYTES),
            (_first(MasterKey, secrets.token_bytes(KEY_BYTES), today),),
            (_first(WriteKey, fresh_text().encode(), today),),
            signing_keys=(_first(SigningKey, secrets.token_bytes(KEY_BYTES), today),),
        )

    @classmethod
    def _parse(cls, document: dict[str, Any]) -> Self:
        if document["version"] in (1, 2):
            document = as_version_3(document)
        rings = {ring_name(kind): kind for kind in KINDS.values()}
        if document["version"] != _VERSION or document.keys() != {
            "version",
            "pseudonym_key",
            *rings,
        }:
            raise ValueError("version")
        found: dict[str, Any] = {
            name: ring_from(kind, document[name]) for name, kind in rings.items()
        }
        for name in ("master_keys", "write_keys"):
            if not any(key.state == "active" for key in found[name]):
                raise ValueError(name)
        return cls(Key.parsed(document["pseudonym_key"]), **found)

    def text(self) -> str:
        """Return the key file that holds these keys."""
        document = {"version": _VERSION, "pseudonym_key": self.pseudonym_key.hex()} | {
            ring_name(kind): [key.document() for key in self.ring(kind)] for kind in KINDS.values()
        }
        return json.dumps(document, indent=1) + "\n"

    def current(self) -> Self:
        """Return these keys: they are their own source where nothing rotates them."""
        return self

    def ring(self, kind: type[Key]) -> tuple[AnyKey, ...]:
        """Return the keys of one kind."""
        ring: tuple[AnyKey, ...] = getattr(self, ring_name(kind))
        return ring

    @property
    def write_key(self) -> str:
        """The text that apps should carry now."""
        return _active(self.write_keys).text

    @cached_property
    def signing(self) -> Signing:
        """Signs and verifies releases."""
        return Signing(self.signing_keys)

    def may_enrol(self, shown: str) -> bool:
        """Say in constant time whether this is a write key that is in use."""
        usable = [key for key in self.write_keys if key.state in ("active", "retiring")]
        return any_equals((key.secret or b"" for key in usable), shown.encode("utf-8", "replace"))

    def reader(self, shown: str) -> ReadKey | None:
        """Return the read key in use whose text this is, in a time that does not tell which."""
        digest = digest_of(shown)
        found = None
        for key in self.read_keys:
            if key.state == "active" and hmac.compare_digest(key.secret or b"", digest):
                found = key
        return found

    def enrol(self, random: Callable[[int], bytes] = os.urandom) -> tuple[str, bytes]:
        """Draw a device id and derive its key."""
        device = random(_DEVICE_BYTES).hex()
        return device, self.key_of(device)

    def key_of(self, device: str) -> bytes:
        """Derive the key of a device that enrols now."""
        return derive_device_key(_active(self.master_keys).secret or b"", device)

    def verified(
        self,
        device: str,
        body: bytes,
        mac: str,
        mac_of: Callable[[bytes, bytes], str] = batch_mac,
    ) -> bytes | None:
        """Return the device's key if `mac` is the body's under a master key in use, else None.

        Args:
            mac_of: Makes the MAC that such a body must have, from device key and body.
        """
        return self._verified(device, body, mac, mac_of, retired=False)

    def revoked(
        self,
        device: str,
        body: bytes,
        mac: str,
        mac_of: Callable[[bytes, bytes], str] = batch_mac,
    ) -> bytes | None:
        """Return the device's key if `mac` is the body's under a retired master key, else None."""
        return self._verified(device, body, mac, mac_of, retired=True)

    def _verified(
        self,
        device: str,
        body: bytes,
        mac: str,
        mac_of: Callable[[bytes, bytes], str],
        *,
        retired: bool,
    ) -> bytes | None:
        for key in reversed(self.master_keys):
            if (key.state == "retired") == retired and key.secret is not None:
                device_key = derive_device_key(key.secret, device)
                if macs_match(mac_of(device_key, body), mac):
                    return device_key
        return None


def ring_name(kind: type[Key]) -> str:
    """Return what a ring is called here and in the key file."""
    return f"{kind.kind}_keys"


def _active(ring: tuple[K, ...]) -> K:
    return next(key for key in ring if key.state == "active")


def _first(kind: type[K], secret: bytes, today: date | None) -> K:
    return replace(kind.made(1, secret, today), state="active")

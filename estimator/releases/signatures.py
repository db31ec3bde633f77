"""Signatures of releases: METRIC/EPOCH.FINGERPRINT.sig beside each document, over its exact bytes.

    {"version": 1, "key": 1, "signature": "<128 hex digits>"}     Ed25519 (RFC 8032)

A signature is on disk before its document is, so a document without a valid one is not ours. The
directory holds the public keys too, for convenience: whoever doubts it takes them from elsewhere
(`sottovoce keys list --json`).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.keyring.signing import verifies
from estimator.errors import DocumentError
from estimator.releases.whole_files import replace

Sign = Callable[[bytes], tuple[int, bytes]]
"""Returns a key's id and its signature of a message; `aggregator.keyring.signing.Signing.sign`."""

KEYS_FILE = "signing_keys.json"
_VERSION = 1
_LABEL = b"sottovoce release v1\x00"
_SIGNATURE_BYTES, _KEY_BYTES = 64, 32


@dataclass(frozen=True)
class Finding:
    """Something wrong with a release on disk."""

    path: Path
    problem: str


def signature_of(document: Path) -> Path:
    """Return where a document's signature lies."""
    return document.with_suffix(".sig")


def sign_document(document: Path, content: bytes, sign: Sign) -> None:
    """Put a signature in place for a document that is about to be written."""
    key, signature = sign(_LABEL + content)
    text = json.dumps({"version": _VERSION, "key": key, "signature": signature.hex()})
    replace(signature_of(document), (text + "\n").encode(), durable=True)


def fault_of(document: Path, public: Mapping[int, bytes]) -> str | None:
    """Say what is wrong with a document's signature, None if nothing is.

    Args:
        document: A release file.
        public: Ed25519 public keys (32 bytes) by id.
    """
    try:
        found = json.loads(signature_of(document).read_text(encoding="utf-8"))
        key, signature = found["key"], bytes.fromhex(found["signature"])
        if found["version"] != _VERSION or len(signature) != _SIGNATURE_BYTES:
            raise ValueError("version or length")
    except FileNotFoundError:
        return "has no signature"
    except (OSError, ValueError, KeyError, TypeError):
        return "has a signature that cannot be read"
    if type(key) is not int or key not in public:
        return f"is signed by key {key!r}, which is not among the public keys"
    if not verifies(public, key, _LABEL + document.read_bytes(), signature):
        return f"is not what key {key} has signed"
    return None


def faults(directory: Path, public: Mapping[int, bytes]) -> Iterator[Finding]:
    """Yield what is wrong with the documents of a directory of releases."""
    for document in sorted(directory.glob("*/*.json")):
        problem = fault_of(document, public)
        if problem is not None:
            yield Finding(document, problem)
    for suffix, what in (("sig", "signature"), ("csv", "table"), ("html", "page")):
        for path in sorted(directory.glob(f"*/*.{suffix}")):
            if not path.with_suffix(".json").exists():
                yield Finding(path, f"is the {what} of a document that is not there")


def write_public_keys(directory: Path, public: Mapping[int, bytes]) -> None:
    """Put the public keys beside the releases."""
    keys = {str(number): key.hex() for number, key in sorted(public.items())}
    document = {"version": _VERSION, "algorithm": "Ed25519", "keys": keys}
    replace(directory / KEYS_FILE, (json.dumps(document, indent=2) + "\n").encode())


def read_public_keys(path: Path) -> dict[int, bytes]:
    """Read what `write_public_keys` wrote.

    Raises:
        DocumentError: The file is not of that form.
        OSError: It cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    try:
        return _public_keys(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DocumentError(path.name, "must hold public signing keys", str(path)) from error


def _public_keys(document: dict[str, Any]) -> dict[int, bytes]:
    keys = {int(number): bytes.fromhex(key) for number, key in document["keys"].items()}
    if document["version"] != _VERSION or any(len(key) != _KEY_BYTES for key in keys.values()):
        raise ValueError("version or length")
    return keys

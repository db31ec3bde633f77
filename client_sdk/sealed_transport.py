"""The transport of apps whose metrics.toml carries the aggregator's public key."""

import json
from typing import Protocol

from client_sdk import forks, hpke
from client_sdk.errors import TransportError
from client_sdk.report import ERASE_PATH, REPORTS_PATH, UNKNOWN_SEALING_KEY
from client_sdk.sealing import SealingKey, seal_upload
from client_sdk.transport import HttpTransport, Reply, Transport


class Carrier(Protocol):
    """What carries sealed uploads; raises TransportError when no answer arrives."""

    def enrol(self) -> Reply:
        """Ask for an identity."""
        ...

    def send_sealed(self, sealed: bytes, path: str = REPORTS_PATH) -> Reply:
        """Deliver something sealed to an address of the server."""
        ...


class SealedTransport:
    """A transport that seals each batch before anything else may see it.

    There is no way back to plain uploads: what cannot be sealed is not sent. `cryptography` is
    imported with the first batch.
    """

    def __init__(self, inner: Carrier, key: SealingKey) -> None:
        self._inner = inner
        self._key = key
        self._is_ready = False

    def enrol(self) -> Reply:
        return self._inner.enrol()

    def send(self, body: bytes, mac: str) -> Reply:
        """Seal and deliver a batch.

        Raises:
            TransportError: No answer, or that the key is not opened: that says nothing about the
                batch, which stays until it is too old.
        """
        return self._send(body, mac, REPORTS_PATH)

    def erase(self, body: bytes, mac: str) -> Reply:
        return self._send(body, mac, ERASE_PATH)

    def _send(self, body: bytes, mac: str, path: str) -> Reply:
        if not self._is_ready:
            with forks.importing():
                hpke.import_primitives()
            self._is_ready = True
        reply = self._inner.send_sealed(seal_upload(self._key, body, mac), path)
        if reply.status == 400 and _kind(reply) == UNKNOWN_SEALING_KEY:
            raise TransportError(f"the server does not open uploads sealed to key {self._key.id}")
        return reply


def transport_for(http: HttpTransport, key: SealingKey | None) -> Transport:
    """Return the transport that a registry asks for."""
    return http if key is None else SealedTransport(http, key)


def _kind(reply: Reply) -> object:
    """Return the type of a problem document, None if it is none."""
    try:
        return json.loads(reply.body)["type"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None

"""Registry versions: kept for ever, in the order they came."""

import hashlib

from aggregator.connection import Connection, StoreRefused
from aggregator.store.layout import REGISTRIES, REGISTRY_ORDER


class Registries:
    """The registry versions of a store."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call
        self._register = connection.script("register")

    def add(self, digest: str, text: str) -> bool:
        """Keep a registry version for ever; say whether it is new."""
        return bool(self._register((REGISTRIES, REGISTRY_ORDER), (digest, text)))

    def texts(self) -> list[str]:
        """Return the texts of all versions, in the order they came.

        Raises:
            StoreRefused: One is not the text that was registered.
        """
        order = self._call("LRANGE", REGISTRY_ORDER, 0, -1)
        texts = self._call("HMGET", REGISTRIES, *order) if order else []
        for digest, text in zip(order, texts, strict=True):
            if text is None or hashlib.sha256(text).hexdigest() != digest.decode():
                raise StoreRefused(
                    f"registry version {digest.decode()[:16]} was changed in the store after it "
                    "was registered: versions are only ever added; put its text back"
                )
        return [text.decode() for text in texts]

    def count(self) -> int:
        """Return the number of versions."""
        return int(self._call("LLEN", REGISTRY_ORDER))

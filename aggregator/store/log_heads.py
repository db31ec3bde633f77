"""How far administrators' logs have come, kept where whoever cuts one short does not cut."""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.connection import Connection
from aggregator.store.layout import LOG_HEADS


@dataclass(frozen=True)
class Head:
    """The last entry of a log.

    Attributes:
        log: Names the log, 16 hex digits.
        sequence: Number of the entry.
        mac: Its MAC, 64 hex digits.
        host: The machine that the log is on.
    """

    log: str
    sequence: int
    mac: str
    host: str


class LogHeads:
    """The heads that the store knows, of the logs of all servers."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    def all(self) -> Mapping[str, Head]:
        """Return the heads by log."""
        found = {}
        for log, value in self._call("HGETALL", LOG_HEADS).items():
            sequence, mac, host = value.decode().split(" ", 2)
            found[log.decode()] = Head(log.decode(), int(sequence), mac, host)
        return found

    def put(self, head: Head) -> None:
        """Keep a head; the log's own lock keeps out others who would."""
        self._call("HSET", LOG_HEADS, head.log, f"{head.sequence} {head.mac} {head.host}")

"""The server ledger's record of one device, as lua/intake.lua writes it.

26 bytes, big endian: micro-epsilon spent (48 bits), last sequence number (32 bits), the first 16
bytes of the SHA-256 of that batch.
"""

import struct
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Record:
    """What the server remembers of a device for life."""

    spent: int
    sequence: int
    digest: bytes

    @classmethod
    def unpack(cls, record: bytes) -> Self:
        """Read a record."""
        high, low, sequence, digest = struct.unpack(">HII16s", record)
        return cls(high << 32 | low, sequence, digest)

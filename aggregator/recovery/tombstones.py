"""Who was erased, in a file that no backup of the store takes back.

    <shard> <bucket> <pseudonym, 16 hex digits>

One line for each erasure, only ever appended, before the store erases. It lies beside the key file,
like the witness (aggregator.recovery.witness), and holds no id: pseudonyms are keyed.
"""

import errno
import fcntl
import os
import re
from pathlib import Path

from aggregator.connection import StoreRefused
from aggregator.store.layout import Place

FILE_NAME = "erased.txt"
_LINE = re.compile(rb"(\d{1,4}) (\d{1,10}) ([0-9a-f]{16})")


class Tombstones:
    """The file beside one key file; safe for threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, place: Place) -> None:
        """Add a device; durable on return. Twice is as good as once.

        Raises:
            StoreRefused: The file cannot be written.
        """
        line = f"{place.shard} {place.bucket} {place.pseudonym.hex()}\n".encode()
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                size = file.seek(0, os.SEEK_END)
                # After a line that a power cut or a full disk has torn.
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                whole = b"\n" * torn + line
                # A full disk takes a part, and says so only by its length.
                if file.write(whole) != len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            # Also of a file that was there: whoever made it may have died before this.
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unusable(error) from error

    def places(self) -> list[Place]:
        """Return who was erased, each once.

        Raises:
            StoreRefused: The file is there and cannot be read.
        """
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error) from error
        found = (_LINE.fullmatch(line) for line in dict.fromkeys(lines))
        return [Place(int(m[1]), int(m[2]), bytes.fromhex(m[3].decode())) for m in found if m]

    @staticmethod
    def _unusable(error: OSError) -> StoreRefused:
        # No path: the message may be shown to strangers.
        return StoreRefused(
            f"{FILE_NAME} beside the key file, which remembers who was erased when a backup of the "
            f"store does not, must be readable and writable ({error.strerror})"
        )

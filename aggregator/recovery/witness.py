"""The witness: a file that remembers how far a store had come, so that an old backup is noticed.

    {"version": 1, "generation": 7}

It lies beside the key file and must never be restored together with the store. Its number only
rises, whichever of several processes writes it.
"""

import fcntl
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aggregator.connection import StoreRefused

FILE_NAME = "generation.json"
_VERSION = 1


class Witness:
    """The file beside one key file; safe for threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._known: int | None = None
        self._seen: tuple[int, int] | None = None

    @classmethod
    def beside(cls, keys_file: Path) -> "Witness":
        """The witness that belongs to a key file."""
        return cls(keys_file.with_name(FILE_NAME))

    def generation(self) -> int | None:
        """Return what a store must have reached, None if nothing is known yet.

        Cheap enough for every request: the file is read again only when it was replaced.

        Raises:
            StoreRefused: The file is there and cannot be used.
        """
        with self._lock:
            return self._look()

    def remember(self, generation: int) -> None:
        """Raise the number to `generation`; a lower or equal one changes nothing.

        Raises:
            StoreRefused: The file cannot be used or written.
        """
        with self._lock:
            if self._known is not None and self._known >= generation:
                return
            try:
                with self._alone():
                    known = self._look()
                    if known is None or known < generation:
                        self._write(generation)
                        self._look()
            except OSError as error:
                # No path: the message may be shown to strangers.
                raise StoreRefused(
                    f"{FILE_NAME} beside the key file, which tells an old backup of the store from "
                    f"its latest state, must be writable ({error.strerror})"
                ) from error

    def _look(self) -> int | None:
        try:
            found = self.path.stat()
            seen = (found.st_mtime_ns, found.st_ino)
            if seen != self._seen:
                self._known = max(self._read(), self._known or 0)
                self._seen = seen
        except FileNotFoundError:
            pass
        return self._known

    def _read(self) -> int:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            generation = document["generation"]
            if document["version"] != _VERSION or type(generation) is not int or generation < 0:
                raise ValueError("version or generation")
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreRefused(
                f"{FILE_NAME} beside the key file must be readable and of the form of "
                "aggregator.recovery.witness; copy it from another machine of this server, or see "
                'docs/operations.md, "After restoring a backup"'
            ) from error
        return int(generation)

    def _write(self, generation: int) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, "generation": generation}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder against other writers, and sync it in the end."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
            os.fsync(folder)
        finally:
            os.close(folder)

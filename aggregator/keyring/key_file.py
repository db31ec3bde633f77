"""The key file while it is in use: read anew when it was replaced, and changed whole."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from aggregator.keyring import private_file
from aggregator.keyring.keys import Keys, KeysError

_log = logging.getLogger(__name__)


class KeyFile:
    """A server's key file; safe for threads.

    Args:
        path: The file; it must be usable now.

    Raises:
        KeysError: It is not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        # Before it is read: what is written between the two is then read again.
        self._seen = self._signature()
        self._keys = Keys.load(path)

    def current(self) -> Keys:
        """Return the keys, read again if the file was replaced since: one `stat` a request.

        A file that cannot be used, or that is of another store, changes nothing; the log says so
        once.
        """
        signature = self._signature()
        if signature != self._seen:
            with self._lock:
                if signature != self._seen:
                    self._reload()
                    self._seen = signature
        return self._keys

    def _reload(self) -> None:
        try:
            found = Keys.load(self._path)
            if found.pseudonym_key != self._keys.pseudonym_key:
                raise KeysError(f"key file {self._path} must keep its pseudonym key")
        except KeysError as error:
            _log.error("%s; the keys of before stay in use", error)
        else:
            self._keys = found
            _log.info("key file %s was read again", self._path)

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ino, found.st_size


def change(
    path: Path, step: Callable[[Keys], Keys], before: Callable[[], None] = lambda: None
) -> Keys:
    """Replace the key file by what `step` makes of its keys, and return that.

    In one step for whoever reads it; of two processes that do this at once, the second starts from
    what the first has written.

    Args:
        before: Called when it is certain what will be done; if it raises, nothing is.

    Raises:
        KeysError: The file cannot be used.
    """
    path = path.resolve()
    with private_file.alone(path):
        changed = step(Keys.load(path))
        before()
        private_file.replace(path, changed.text())
    return changed

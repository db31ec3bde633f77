"""A lock between processes that the operating system frees when its holder dies."""

import os
import sys
import weakref

_held: "weakref.WeakValueDictionary[int, ProcessLock]" = weakref.WeakValueDictionary()


class ProcessLock:
    """An exclusive lock on a file.

    Args:
        path: The lock file; created if missing, never deleted.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._holder = 0

    def acquire(self) -> bool:
        """Take the lock without waiting; False while another process holds it."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor, self._holder = descriptor, os.getpid()
        _held[id(self)] = self
        return True

    def release(self) -> None:
        """Free the lock if this object holds it."""
        if self._descriptor is not None and self._holder == os.getpid():
            # Unlocked by name: a forked child holds a copy, so closing would not free it.
            _unlock(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _drop_copy(self) -> None:
        if self._descriptor is not None and self._holder != os.getpid():
            os.close(self._descriptor)
            self._descriptor = None


def drop_copies() -> None:
    """In a forked child: let go of the parent's locks.

    A lock lives as long as any copy of its file's descriptor: without this, that of a parent
    which was killed would live on in its child.
    """
    for reference in _held.valuerefs():
        lock = reference()
        if lock is not None:
            lock._drop_copy()


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

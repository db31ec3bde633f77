"""Turns: of several processes that would do the same in one directory, one at a time does."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(directory: Path, name: str) -> Iterator[None]:
    """Keep others, in this process or another, out of what is called so; wait for them.

    Args:
        directory: Made if it is not there.
        name: Of the lock file in it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / name, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

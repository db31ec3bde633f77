"""Files that only their owner may read, written whole or not at all, and durably."""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DRAFT_BYTES = 8


def create(path: Path, text: str) -> None:
    """Write a file unless there is one; of several processes that do so at once, one succeeds."""
    with _folder_of(path), _draft(path, text) as draft:
        try:
            # A link, unlike a rename, does not replace a file that somebody else has just made.
            os.link(draft, path)
        except FileExistsError:
            pass


def replace(path: Path, text: str) -> None:
    """Put a file in the place of one that is there; its owner and group stay."""
    before = path.stat()
    with _folder_of(path), _draft(path, text) as draft:
        made = draft.stat()
        if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
            # An administrator's command must not lock the server out.
            os.chown(draft, before.st_uid, before.st_gid)
        draft.replace(path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep out others who would change the same file, and end what those left who died at it.

    All who write that file must do so in here, or their drafts are taken for what was left.
    """
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _forget_drafts(path)
        yield
    finally:
        os.close(folder)


@contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(_DRAFT_BYTES)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _forget_drafts(path: Path) -> None:
    """Delete the drafts of whoever was killed: one holds all that the file does or did."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * _DRAFT_BYTES}}}")
    for other in path.parent.iterdir():
        if left.fullmatch(other.name):
            other.unlink(missing_ok=True)


@contextmanager
def _folder_of(path: Path) -> Iterator[None]:
    """Sync the folder in the end, which is what makes a new name durable."""
    yield
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

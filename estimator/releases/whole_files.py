"""Files that appear whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_once(path: Path, content: bytes) -> bool:
    """Put a file in place, durably, or leave the one that is there; return whether it was put."""
    if path.exists():
        return False
    temporary = _draft(path, content, durable=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    _sync_folder(path.parent)
    return True


def replace(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Put a file in place of the one that may be there.

    Args:
        durable: Whether it must survive a power cut; what can be made again need not.
    """
    temporary = _draft(path, content, durable=durable)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft(path: Path, content: bytes, *, durable: bool) -> str:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary

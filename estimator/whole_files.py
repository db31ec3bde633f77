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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def replace(path: Path, content: bytes) -> None:
    """Put a file in place of the one that may be there; for what can be made again."""
    temporary = _draft(path, content, durable=False)
    try:
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


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

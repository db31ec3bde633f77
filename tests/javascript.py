"""Programs in JavaScript, run by node, and the modules of client_sdk/web that they are about."""

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from playwright._impl._driver import compute_driver_executable

ROOT = Path(__file__).parents[1]
WEB = ROOT / "client_sdk" / "web"
TSC = (
    "tsc --noEmit --allowJs --checkJs --strict --noUnusedLocals --noImplicitReturns --target es2022"
)
TSC += " --module node16 --lib es2022,dom"


def nodes() -> list[str]:
    """The machine's node if it has one, and that which playwright's wheel brings."""
    bundled = compute_driver_executable()[0]
    return [*filter(None, [shutil.which("node")]), str(bundled)]


def run(command: list[str], cwd: Path = ROOT, given: str = "") -> str:
    """Return what a program prints; that it succeeds is claimed."""
    answer = subprocess.run(
        command, cwd=cwd, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def node(*arguments: str | Path, cwd: Path = ROOT, told: object = None) -> str:
    """Return what a program prints in node; it is told a document on standard input."""
    return run([nodes()[0], *map(str, arguments)], cwd, json.dumps(told))


def code_of(path: Path) -> str:
    """Return a module's text without its comments."""
    return re.sub(r"//.*", "", re.sub(r"/\*\*.*?\*/", "", path.read_text(), flags=re.DOTALL))


def imported(path: Path) -> list[str]:
    """Return what a module names where it imports."""
    return re.findall(r"""(?:from|import)\s*\(?["']([^"']+)["']""", code_of(path))


def loaded_with(name: str) -> set[str]:
    """Return the names of the files that a browser loads for a module."""
    found: set[str] = set()
    waiting = {name}
    while waiting:
        found |= waiting
        waiting = {each.removeprefix("./") for one in waiting for each in imported(WEB / one)}
        waiting -= found
    return found


def bytes_without_comments(names: Iterable[str]) -> int:
    """Return what modules take together by gzip, without comments and indents."""
    code = "".join(code_of(WEB / name) for name in sorted(names))
    return len(gzip.compress(re.sub(r"\n\s*", "\n", code).encode(), 9))


def bytes_with_comments(names: Iterable[str]) -> int:
    """Return what modules take together by gzip, as they are."""
    return len(gzip.compress(b"".join((WEB / name).read_bytes() for name in sorted(names)), 9))


def laid_out(folder: Path) -> str:
    """Put the modules of survey pages where they find each other's; URL of the folder."""
    shutil.copytree(ROOT / "aggregator" / "survey" / "static", folder / "survey")
    shutil.copytree(WEB, folder / "sottovoce")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder.as_uri()

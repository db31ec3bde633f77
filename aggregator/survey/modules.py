"""The files that a survey's page loads, each with the hash by which browsers know them.

They are read once, when the process starts: what is hashed is what is served.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

PAGE = "survey"
CLIENT = "sottovoce"
"""The folders, as addresses name them: the page's own files, and those of client_sdk/web."""

_HOMES = {PAGE: ("aggregator.survey", "static"), CLIENT: ("client_sdk", "web")}
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_IMPORT = re.compile(r'^(?:import|export)\b[^;"]*?"(\.[^"]+)";', re.MULTILINE)


@dataclass(frozen=True)
class File:
    """One file.

    Attributes:
        folder: PAGE or CLIENT.
        name: In its folder.
        content: Its bytes.
    """

    folder: str
    name: str
    content: bytes

    @property
    def path(self) -> str:
        """What is unique of its address."""
        return f"{self.folder}/{self.name}"

    @property
    def media_type(self) -> str:
        return _TYPES[self.name.rpartition(".")[2]] + "; charset=utf-8"

    @property
    def integrity(self) -> str:
        """Its hash as HTML states it (W3C Subresource Integrity)."""
        return "sha384-" + base64.b64encode(hashlib.sha384(self.content).digest()).decode()

    def imports(self) -> Iterator[str]:
        """Yield the paths of the modules that it always loads."""
        for found in _IMPORT.finditer(self.content.decode()):
            up, _, name = found[1].rpartition("/")
            yield f"{self.folder if up == '.' else up.removeprefix('../')}/{name}"


def served_files() -> Mapping[str, File]:
    """Read all files that browsers may ask for; by path."""
    found = [
        File(folder, each.name, each.read_bytes())
        for folder, (package, inner) in _HOMES.items()
        for each in files(package).joinpath(inner).iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    ]
    return MappingProxyType({file.path: file for file in found})


def loaded_by(entries: Sequence[str], served: Mapping[str, File]) -> tuple[File, ...]:
    """Return some modules and all that they load, in that order.

    Args:
        entries: Their paths.
        served: All files.

    Raises:
        KeyError: A module is imported that there is not.
    """
    found = {path: served[path] for path in entries}
    waiting = list(found.values())
    while waiting:
        for path in waiting.pop().imports():
            if path not in found:
                found[path] = served[path]
                waiting.append(served[path])
    return tuple(found.values())

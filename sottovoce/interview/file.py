"""The metrics.toml that an entry is written to: appended whole or not at all."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from client_sdk import Registry, loads
from client_sdk.registry import load
from estimator.releases import whole_files
from sottovoce.interview.entry import Answers, entry_of, file_of


@dataclass(frozen=True)
class File:
    """Where the entry goes.

    Attributes:
        path: Of the file; it need not be there yet.
        registry: What it holds; None for a new file.
    """

    path: Path
    registry: Registry | None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Read a file that may be there.

        Raises:
            RegistryError: It is there and breaks a rule.
            ValueError: There is no such folder, or nothing can be appended to the file.
        """
        path = path.resolve()  # a link stays one
        if path.exists():
            registry = load(path)
            try:
                tomllib.loads(f"{registry.text}\n[metrics.one_more]\n")
            except tomllib.TOMLDecodeError as error:
                raise ValueError(
                    f"{path} must have its metrics as tables, [metrics.NAME]: to another form "
                    f"nothing can be appended ({error})"
                ) from error
            return cls(path, registry)
        if not path.parent.is_dir():
            raise ValueError(f"--write names a folder that is not there: {path.parent}")
        return cls(path, None)

    def with_entry(self, answers: Answers) -> Registry:
        """Return what the file will hold.

        Raises:
            RegistryError: It would break a rule.
        """
        if self.registry is None:
            return loads(file_of(answers))
        text = self.registry.text
        return loads(f"{text}{'' if text.endswith(chr(10)) else chr(10)}\n{entry_of(answers)}")

    def write(self, answers: Answers) -> Registry:
        """Put the entry into the file, in one step, and return what it holds.

        Raises:
            RegistryError: It would break a rule.
            ValueError: The file is not the one that was read.
        """
        wanted = self.with_entry(answers)
        if self.registry is None:
            if not whole_files.write_once(self.path, wanted.text.encode()):
                raise ValueError(f"{self.path} was made meanwhile; nothing is written")
            return wanted
        there = self.path.read_bytes()
        if there.decode().replace("\r\n", "\n") != self.registry.text:
            raise ValueError(f"{self.path} was changed meanwhile; nothing is written")
        added = wanted.text[len(self.registry.text) :].encode()
        whole_files.replace(self.path, there + added, durable=True)
        return wanted

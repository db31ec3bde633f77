"""Proves, in a test, that a value appears nowhere: no file, log, message, header or variable.

A canary is a value that nothing else would ever say. Record it inside the block; when the block
ends, everything that the process wrote, sent, logged, printed or raised meanwhile is searched for
it, plain and in the disguises of `forms`.

    with Canary("CANARY-7f3a") as canary:
        canary.watch(client, state_dir)
        client.record("home_page", canary.value)
        client.close()

What a test finds here would be found by an attacker. The other way round it is evidence, not
proof: a value that was encrypted or cut into pieces on its way out is not recognised.
"""

import base64
import hashlib
import json
import os
import struct
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from client_sdk.client import Client
from client_sdk.testing import ClientFactory, RecordingTransport
from client_sdk.testing.eavesdropping import Overheard, listening

LEAST_CHARACTERS = 8
"""Anything shorter is found by chance."""

Watched = Client | ClientFactory | RecordingTransport | str | Path


class CanaryFound(AssertionError):
    """The value was found; names each place and form."""


@dataclass(frozen=True)
class Find:
    """One place that gives the value away.

    Attributes:
        place: Where, in words.
        form: In which disguise.
    """

    place: str
    form: str

    def __str__(self) -> str:
        return f"in {self.place} ({self.form})"


class Canary:
    """A value, and a block in which everything is searched for it.

    Args:
        value: At least 8 characters. For a number, its digits.

    Attributes:
        value: The same.
    """

    def __init__(self, value: str) -> None:
        if len(value) < LEAST_CHARACTERS:
            raise ValueError(f"a canary needs {LEAST_CHARACTERS} characters, got {len(value)}")
        self.value = value
        self._forms = list(forms(value))
        self._watched: list[Watched] = []
        self._environment = dict(os.environ)
        self._overheard = Overheard()
        self._listening = ExitStack()

    def watch(self, *things: Watched) -> None:
        """Search these too: a directory with all its files, a client's repr, status and preview,
        what a transport was given, or all of these of a factory."""
        self._watched += things

    def __enter__(self) -> Self:
        self._environment = dict(os.environ)
        # A frame of the test itself holds the value, and may.
        self._overheard = Overheard(own=sys._getframe(1).f_code.co_filename)
        self._listening.enter_context(listening(self._overheard))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        self._overheard.hear_exception("an exception that reached the app", error)
        self.check()

    def check(self) -> None:
        """Search everything until now; standard output and warnings when the block has ended.

        Raises:
            CanaryFound: The value is somewhere.
        """
        finds = self.finds()
        if finds:
            raise CanaryFound("the value was found " + ", ".join(map(str, finds)))

    def finds(self) -> list[Find]:
        """Return every place and form in which the value is found, without repetition."""
        found = {
            Find(place, form): None
            for place, content in self._places()
            for form in self._forms_in(content)
        }
        return list(found)

    def _forms_in(self, content: bytes) -> Iterator[str]:
        for text in (content, *_unpacked(content)):
            folded = text.lower()
            for form, needle in self._forms:
                if needle in folded:
                    yield form

    def _places(self) -> Iterator[tuple[str, bytes]]:
        yield from self._overheard.places()
        for thing in self._watched:
            yield from _places_of(thing)
        for name, value in os.environ.items():
            if self._environment.get(name) != value:
                yield f"the environment variable {name}", os.fsencode(f"{name}={value}")


def forms(value: str) -> Iterator[tuple[str, bytes]]:
    """Yield the disguises in which a value is looked for: a name, and bytes in lower case.

    Lower case, because headers and hex digits come in both: content is compared in lower case.
    """
    for text in {value, *(unicodedata.normalize(form, value) for form in ("NFC", "NFD"))}:
        for name, needle in _forms(text):
            yield name, needle.lower()


def _forms(text: str) -> Iterator[tuple[str, bytes]]:
    plain = text.encode("utf-8", "surrogatepass")
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le"):
        encoded = text.encode(encoding, "surrogatepass")
        yield encoding, encoded
        yield f"hex of {encoding}", encoded.hex().encode()
        for needle in _base64(encoded):
            yield f"base64 of {encoding}", needle
    yield "repr", repr(text)[1:-1].encode("utf-8", "surrogatepass")
    yield "repr of bytes", repr(plain)[2:-1].encode()
    yield "escaped", ascii(text)[1:-1].encode()
    yield "json", json.dumps(text)[1:-1].encode()
    yield "url", quote(plain, safe="").encode()
    for algorithm in ("md5", "sha1", "sha256"):
        # Of few possible values an unkeyed hash is the value.
        digest = hashlib.new(algorithm, plain, usedforsecurity=False)
        yield algorithm, digest.digest()
        yield f"hex of {algorithm}", digest.hexdigest().encode()
        yield f"base64 of {algorithm}", base64.b64encode(digest.digest())[:-2]
    try:
        number = float(text)
    except ValueError:
        return
    yield "binary number", struct.pack("<d", number)
    yield "binary number", struct.pack(">d", number)


def _base64(encoded: bytes) -> Iterator[bytes]:
    """Yield what all base64 texts share that hold these bytes, at each of three offsets."""
    for offset in range(3):
        text = base64.b64encode(b"\x00" * offset + encoded)
        # The first and last group may mix with neighbours.
        inner = text[4 if offset else 0 : len(text) - 4 if text.endswith(b"=") else len(text)]
        yield inner
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Yield what every gzip member in some bytes holds."""
    at = content.find(b"\x1f\x8b\x08")
    while at >= 0:
        try:
            yield zlib.decompressobj(wbits=31).decompress(content[at:])
        except zlib.error:  # only looked like one
            pass
        at = content.find(b"\x1f\x8b\x08", at + 1)


def _places_of(thing: Watched) -> Iterator[tuple[str, bytes]]:
    if isinstance(thing, ClientFactory):
        parts: list[Watched] = [thing.directory, thing.transport, *thing.clients]
        for part in parts:
            yield from _places_of(part)
    elif isinstance(thing, Client):
        yield "repr of the client", repr(thing).encode("utf-8", "surrogatepass")
        yield "status of the client", repr(thing.status()).encode("utf-8", "surrogatepass")
        yield "preview of the client", repr(thing.preview()).encode("utf-8", "surrogatepass")
    elif isinstance(thing, RecordingTransport):
        for body, mac in zip(thing.batches, thing.macs, strict=True):
            yield "a batch that was sent", body
            yield "a header that was sent", mac.encode("utf-8", "surrogatepass")
    else:
        yield from _files(Path(thing))


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        yield f"the name of file {name}", os.fsencode(name)
        try:
            content = path.read_bytes() if path.is_file() else b""
        except OSError:  # gone meanwhile
            continue
        yield f"file {name}", content

"""Public hashes of strings: words of SHA-256 in counter mode, one family for each use and row."""

from collections.abc import Iterator
from typing import Final

from client_sdk.hashing import sha256

BLOOM: Final = b"sottovoce bloom\x00"
SKETCH: Final = b"sottovoce sketch\x00"
"""What a family of hashes is for. They are on the wire: none ever changes."""


def hash_words(use: bytes, row: int, text: str) -> Iterator[int]:
    """Yield 32-bit words, endlessly; the same on every machine.

    Args:
        use: BLOOM or SKETCH, so that the families share nothing.
        row: Number of the hash function, below 2**32.
        text: Any string, lone surrogates included.
    """
    prefix = use + row.to_bytes(4, "big")
    encoded = text.encode("utf-8", "surrogatepass")
    counter = 0
    while True:
        block = sha256(prefix + counter.to_bytes(4, "big") + encoded).digest()
        for start in range(0, 32, 4):
            yield int.from_bytes(block[start : start + 4], "big")
        counter += 1


def place(word: int, cells: int) -> int:
    """Return the cell in [0, cells) that a word falls into; as good as uniform below 2**16."""
    return word * cells >> 32

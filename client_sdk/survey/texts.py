"""Texts that people read on the page: not empty, not absurdly long, one in each language."""

import re
from collections.abc import Sequence

from client_sdk.declaration.table import Table

LONGEST_TITLE = 200
LONGEST_PURPOSE = 2000
LONGEST_QUESTION = 600
LONGEST_ANSWER = 200
LONGEST_INTERFACE = 1000
"""Characters."""
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Of Unicode's bidirectional algorithm: overrides, embeddings, isolates, and what ends them."""


def take_line(table: Table, key: str, most: int) -> str:
    """Remove and return a text of at most so many characters.

    Raises:
        RegistryError: It is missing, empty, too long, or holds control characters, also those that
            turn writing round: an answer, or the odds beside it, would read otherwise than sent.
    """
    text = table.take_text(key)
    if len(text) > most:
        raise table.fail(key, f"must have at most {most} characters, has {len(text)}", text)
    if _TURNING.search(text):
        raise table.fail(key, "must not turn the direction of writing: the page sets it", text)
    return text


def take_translations(
    table: Table, key: str, languages: Sequence[str], most: int
) -> dict[str, str]:
    """Remove and return a text in every language, and in no other.

    Raises:
        RegistryError: A language is missing or unknown, or a text breaks a rule.
    """
    inner = table.take_table(key)
    texts = {language: take_line(inner, language, most) for language in languages}
    inner.finish()
    return texts

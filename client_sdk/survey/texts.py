"""Texts that people read on the page: not empty, not absurdly long, one in each language."""

from collections.abc import Sequence

from client_sdk.declaration.table import Table

LONGEST_TITLE = 200
LONGEST_PURPOSE = 2000
LONGEST_QUESTION = 600
LONGEST_ANSWER = 200
LONGEST_INTERFACE = 1000
"""Characters."""


def take_line(table: Table, key: str, most: int) -> str:
    """Remove and return a text of at most so many characters.

    Raises:
        RegistryError: It is missing, empty, too long, or holds control characters.
    """
    text = table.take_text(key)
    if len(text) > most:
        raise table.fail(key, f"must have at most {most} characters, has {len(text)}", text)
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

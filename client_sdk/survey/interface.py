"""The page's own words: one file for each language, each with exactly the keys of the English one.

A survey may bring a language of its own, under the same rules.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files

from client_sdk.declaration.table import Table
from client_sdk.survey.model import Interface
from client_sdk.survey.texts import LONGEST_INTERFACE, take_line

REFERENCE = "en"
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


@cache
def built_in_languages() -> tuple[str, ...]:
    """Return the tags of all languages that surveys need not bring, in order."""
    names = [file.name for file in files(__package__).joinpath("languages").iterdir()]
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def interface_of(language: str) -> Interface:
    """Return the words of a built-in language."""
    text = files(__package__).joinpath("languages", f"{language}.toml").read_text("utf-8")
    return interface_from(language, Table(f"{language}.toml", tomllib.loads(text)))


def interface_from(language: str, table: Table) -> Interface:
    """Take a language's table; all keys.

    Raises:
        RegistryError: A key is missing or unknown, or its placeholders are not the English ones.
    """
    name = take_line(table, "name", LONGEST_INTERFACE)
    direction = table.take_choice("direction", ("ltr", "rtl"))
    given = table.take_table("texts")
    table.finish()
    keys = list(given.values) if language == REFERENCE else list(interface_of(REFERENCE).texts)
    texts = {key: _text(given, key, language) for key in keys}
    given.finish()
    return Interface(language, name, direction, texts)


def _text(table: Table, key: str, language: str) -> str:
    text = take_line(table, key, LONGEST_INTERFACE)
    found = placeholders(text)
    wanted = found if language == REFERENCE else placeholders(interface_of(REFERENCE).texts[key])
    if found != wanted or set("{}") & set(_PLACEHOLDER.sub("", text)):
        listed = ", ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
        raise table.fail(
            key, f"must have just the placeholders of the English text: {listed}", text
        )
    return text


def placeholders(text: str) -> set[str]:
    """Return the names that stand in braces."""
    return set(_PLACEHOLDER.findall(text))


def words_of(language: str, brought: Table) -> Interface | None:
    """Return the words of a language that is built in or that a survey brings; None: neither.

    Those of built-in languages stay as they are: they are what respondents are promised.
    """
    if language in built_in_languages():
        return interface_of(language)
    if language not in brought.values:
        return None
    return interface_from(language, brought.take_table(language))

"""What people read, in the browser and on paper: one way of addressing them, one kind of digits."""

import re
from collections.abc import Iterator
from pathlib import Path

from client_sdk.survey import interface_of, load_survey
from sottovoce.surveys.paper.words import words_of

EXAMPLE = Path(__file__).parents[2] / "examples/surveys/habits.toml"


def texts(language: str) -> Iterator[str]:
    """All that is shipped in a language."""
    yield from interface_of(language).texts.values()
    paper = words_of(language)
    yield paper.decimal
    yield from paper.texts.values()
    for device in paper.devices.values():
        yield from map(str, device.values())
    example = load_survey(EXAMPLE)
    yield example.purpose[language]
    yield from (question.text[language] for question in example.questions)


def test_german_says_sie_everywhere() -> None:
    familiar = re.compile(r"\b(du|dich|dir|dein(e[mnrs]?)?)\b", re.IGNORECASE)
    assert not [text for text in texts("de") if familiar.search(text)]


def test_arabic_has_the_digits_of_the_other_languages_everywhere() -> None:
    assert not [text for text in texts("ar") if re.search("[\u0660-\u066c]", text)]

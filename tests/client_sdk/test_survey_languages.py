"""The page's own words: whole in every language, and what a survey brings is held to the same."""

from typing import Any

import pytest

from client_sdk.survey import SurveyError, built_in_languages, interface_of, loads_survey
from client_sdk.survey.interface import placeholders
from tests.surveys import changed, question, survey, toml

ENGLISH = interface_of("en").texts


def test_english_german_and_arabic_are_built_in() -> None:
    assert {"ar", "de", "en"} <= set(built_in_languages())


@pytest.mark.parametrize("language", built_in_languages())
def test_a_language_has_every_text_of_english_with_its_placeholders(language: str) -> None:
    found = interface_of(language)
    assert list(found.texts) == list(ENGLISH)
    for key, text in found.texts.items():
        assert placeholders(text) == placeholders(ENGLISH[key]), key
        # Filled in as the page does it: nothing is left that a reader would stumble on.
        assert "{" not in text.format(**dict.fromkeys(placeholders(text), "7")), key
    assert found.direction == ("rtl" if language == "ar" else "ltr")


@pytest.mark.parametrize("language", sorted({*built_in_languages()} - {"en"}))
def test_a_translation_translates(language: str) -> None:
    same = [key for key, text in interface_of(language).texts.items() if text == ENGLISH[key]]
    assert not same


def test_english_sentences_are_short_enough_for_a_reader_of_twelve() -> None:
    for key, text in ENGLISH.items():
        for sentence in text.replace("?", ".").replace(":", ".").split(". "):
            assert len(sentence.split()) <= 32, f"{key}: {sentence}"


def french() -> dict[str, Any]:
    """A language that a survey brings, with words that only a test would show."""
    texts = {key: f"fr {text}" for key, text in ENGLISH.items()}
    return {"name": "Français", "direction": "ltr", "texts": texts}


def bringing(words: dict[str, Any]) -> str:
    asked = question(text={"fr": "Tard ?"})
    asked["answers"] = {"yes": {"fr": "Oui"}, "no": {"fr": "Non"}}
    head = {"languages": ["fr"], "title": {"fr": "T"}, "purpose": {"fr": "P"}}
    return toml(survey(asked, **head) | {"interface": {"fr": words}})


def test_a_survey_may_bring_a_language() -> None:
    found = loads_survey(bringing(french()))
    assert found.interface["fr"].name == "Français"
    assert found.questions[0].answers[-1].text["fr"] == "fr I prefer not to answer"


def test_a_language_that_is_neither_built_in_nor_brought_is_refused() -> None:
    text = bringing(french()).partition("\ninterface = ")[0]
    with pytest.raises(SurveyError, match=r"interface.fr: is required: fr is in languages"):
        loads_survey(text)


@pytest.mark.parametrize(
    ("key", "value", "named", "rule"),
    [
        ("texts.send", None, "interface.fr.texts.send", "is required"),
        ("texts.sent_twice", "x", "interface.fr.texts.sent_twice", "is not a known key"),
        (
            "texts.progress",
            "Question {n}",
            "interface.fr.texts.progress",
            "just the placeholders of",
        ),
        ("texts.send", "Envoyer {n}", "interface.fr.texts.send", "English text: none"),
        ("texts.send", "Envoyer {", "interface.fr.texts.send", "English text: none"),
        ("texts.send", "x" * 1001, "interface.fr.texts.send", "at most 1000"),
        ("direction", "up", "interface.fr.direction", "must be one of ltr, rtl"),
        ("name", None, "interface.fr.name", "is required"),
        ("extra", 1, "interface.fr.extra", "is not a known key"),
    ],
)
def test_a_language_that_is_not_whole_is_refused(
    key: str, value: Any, named: str, rule: str
) -> None:
    with pytest.raises(SurveyError) as caught:
        loads_survey(bringing(changed(french(), key, value)))
    assert caught.value.key == named
    assert rule in caught.value.rule

"""What a page is told of a survey, in one language: a document for JSON."""

from typing import Any

from client_sdk.survey.model import Question, Survey
from client_sdk.web_definition import definition


def page_document(survey: Survey, language: str) -> dict[str, Any]:
    """Return the document.

    Args:
        survey: The survey.
        language: One of its languages.

    Raises:
        ValueError: It has no such language.
    """
    if language not in survey.languages:
        listed = ", ".join(survey.languages)
        raise ValueError(f"language must be one of {listed}, got {language!r}")
    interface = survey.interface[language]
    return {
        "survey": survey.name,
        "language": language,
        "languages": [
            {"language": each, "name": survey.interface[each].name} for each in survey.languages
        ],
        "direction": interface.direction,
        "title": survey.title[language],
        "purpose": survey.purpose[language],
        "contact": survey.contact,
        "admission": survey.admission,
        "starts": survey.starts.isoformat(),
        "expires": survey.expires.isoformat(),
        "epsilon": survey.epsilon,
        "interface": dict(interface.texts),
        "questions": [_question(question, language) for question in survey.questions],
    }


def _question(question: Question, language: str) -> dict[str, Any]:
    odds = question.odds
    return {
        "name": question.name,
        "text": question.text[language],
        "answers": [
            {"name": answer.name, "text": answer.text[language], "value": answer.value}
            for answer in question.answers
        ],
        "odds": {"kind": odds.kind, "kept": odds.kept, "other": odds.other},
        "deniability": question.deniability,
        "definition": definition(question.metric),
    }

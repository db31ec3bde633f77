"""The [[questions]] tables of a survey's file: what is asked, and how it is randomized."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from client_sdk.declaration import SENSITIVITIES
from client_sdk.declaration.table import Table
from client_sdk.survey.compiled import (
    MANY_ANSWERS,
    MECHANISMS,
    TWO_ANSWERS,
    Asked,
    is_boolean,
)
from client_sdk.survey.model import Interface
from client_sdk.survey.names import NAME, NAME_RULE, PREFER_NOT, take_name
from client_sdk.survey.texts import (
    LONGEST_ANSWER,
    LONGEST_QUESTION,
    take_translations,
)

MOST_QUESTIONS = 50
MOST_ANSWERS = 50


class Read(NamedTuple):
    """What a [[questions]] table says."""

    asked: Asked
    text: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str]]
    deniability: bool


def questions_from(
    root: Table, languages: Sequence[str], interface: Mapping[str, Interface]
) -> list[Read]:
    """Take all of them from the file's root, whose languages and words are given."""
    tables = root.take("questions")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise root.fail("questions", "must be [[questions]] tables", tables)
    if not 1 <= len(tables) <= MOST_QUESTIONS:
        raise root.fail("questions", f"must be 1 to {MOST_QUESTIONS}", len(tables))
    read: list[Read] = []
    for place, values in enumerate(tables, 1):
        name = take_name(Table(f"questions.{place}", values))
        if any(name == each.asked.name for each in read):
            raise root.fail(f"questions.{place}.name", "must not repeat a name", name)
        read.append(_read(name, Table(f"questions.{name}", values), languages, interface))
    return read


def _read(
    name: str, table: Table, languages: Sequence[str], interface: Mapping[str, Interface]
) -> Read:
    table.take("name")
    text = take_translations(table, "text", languages, LONGEST_QUESTION)
    answers = _answers(table, languages)
    if table.take_boolean("prefer_not_to_answer", True):
        answers[PREFER_NOT] = {each: interface[each].texts[PREFER_NOT] for each in languages}
    _refuse_alike(table, answers, languages)
    names = tuple(answers)
    default = TWO_ANSWERS if is_boolean(names) else MANY_ANSWERS
    allowed = [each for each in MECHANISMS if each != TWO_ANSWERS or is_boolean(names)]
    asked = Asked(
        name=name,
        text=text[languages[0]],
        answers=names,
        mechanism=table.take_choice("mechanism", allowed, default),
        epsilon=table.take_epsilon("epsilon"),
        sensitivity=table.take_choice("sensitivity", SENSITIVITIES),
    )
    deniability = table.take_boolean("deniability", False)
    table.finish()
    return Read(asked, text, answers, deniability)


def _answers(table: Table, languages: Sequence[str]) -> dict[str, Mapping[str, str]]:
    inner = table.take_table("answers")
    names = list(inner.values)
    if not 2 <= len(names) <= MOST_ANSWERS:
        raise table.fail("answers", f"must be 2 to {MOST_ANSWERS}", names)
    for name in names:
        if name == PREFER_NOT:
            rule = "is no name for an answer: prefer_not_to_answer = true of the question adds it"
            raise inner.fail(name, rule, name)
        if not NAME.fullmatch(name):
            raise inner.fail(name, f"a name {NAME_RULE}", name)
    return {name: take_translations(inner, name, languages, LONGEST_ANSWER) for name in names}


def _refuse_alike(
    table: Table, answers: Mapping[str, Mapping[str, str]], languages: Sequence[str]
) -> None:
    """Raise for the first answer that reads like another one, PREFER_NOT included."""
    for language in languages:
        seen: set[str] = set()
        for name in reversed(list(answers)):  # so that of PREFER_NOT and another the other is named
            text = answers[name][language]
            if text in seen:
                rule = "must not be the text of another answer"
                raise table.fail(f"answers.{name}.{language}", rule, text)
            seen.add(text)

"""The file of a survey: every key, its rule and its default.

A file that breaks a rule is refused as a whole, as a metrics.toml is: what a respondent is told
about epsilon, odds and deniability follows from what stands here.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from client_sdk.declaration import SENSITIVITIES
from client_sdk.declaration.table import Table
from client_sdk.errors import RegistryError
from client_sdk.mechanisms.thresholds import added, budget_micro
from client_sdk.registry import Registry, loads
from client_sdk.survey.compiled import (
    MANY_ANSWERS,
    MECHANISMS,
    TWO_ANSWERS,
    Asked,
    is_boolean,
    registry_text,
    values_of,
)
from client_sdk.survey.error import SurveyError
from client_sdk.survey.interface import words_of
from client_sdk.survey.model import Answer, Interface, Question, Survey
from client_sdk.survey.names import NAME, PREFER_NOT, PREFIX, metric_name
from client_sdk.survey.odds import LEAST_DENIABLE, odds_of, sent_by_others
from client_sdk.survey.texts import (
    LONGEST_ANSWER,
    LONGEST_PURPOSE,
    LONGEST_QUESTION,
    LONGEST_TITLE,
    take_line,
    take_translations,
)

SCHEMA = 1
MOST_QUESTIONS = 50
MOST_ANSWERS = 50
MOST_LANGUAGES = 40
LONGEST_DAYS = 1827
"""Five years. What is asked for longer is telemetry."""
LONGEST_CONTACT = 200

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")


def load_survey(path: str | os.PathLike[str]) -> Survey:
    """Read the file of a survey.

    Raises:
        SurveyError: It cannot be read, is not TOML, or breaks a rule.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SurveyError("the survey's file", f"must be readable ({reason})", str(path)) from error
    return loads_survey(text)


def loads_survey(text: str) -> Survey:
    """Read the text of a survey's file.

    Raises:
        SurveyError: It is not TOML or breaks a rule.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise SurveyError("the survey's file", f"must be TOML ({reason})", text[:40]) from error
    try:
        return _survey(text, document)
    except SurveyError:
        raise
    except RegistryError as error:
        raise SurveyError(_as_in_the_survey(error.key), error.rule, error.value) from error


class _Head(NamedTuple):
    """What the [survey] table says."""

    name: str
    contact: str
    languages: tuple[str, ...]
    admission: Any
    starts: date
    expires: date
    most_epsilon: Decimal
    min_reports: int
    title: Mapping[str, str]
    purpose: Mapping[str, str]


class _Read(NamedTuple):
    """What a [[questions]] table says."""

    asked: Asked
    text: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str]]
    deniability: bool


def _survey(text: str, document: dict[str, Any]) -> Survey:
    root = Table("", document)
    root.take_choice("schema", (SCHEMA,))
    head = _head(root.take_table("survey"))
    interface = _interface(root, head.languages)
    read = _questions(root, head.languages, interface)
    root.finish()
    total = added(each.asked.epsilon for each in read)
    if total > head.most_epsilon:
        listed = ", ".join(f"{each.asked.name} {each.asked.epsilon}" for each in read)
        raise SurveyError(
            "survey.most_epsilon",
            f"must cover all questions, which add up to {total.normalize():f} ({listed}); "
            "raise it, lower an epsilon, or ask less",
            head.most_epsilon,
        )
    compiled = registry_text(
        head.name,
        head.contact,
        head.starts,
        head.expires,
        head.most_epsilon,
        head.min_reports,
        [each.asked for each in read],
    )
    registry = loads(compiled)
    return Survey(
        name=head.name,
        contact=head.contact,
        languages=head.languages,
        admission=head.admission,
        starts=head.starts,
        expires=head.expires,
        title=head.title,
        purpose=head.purpose,
        questions=tuple(_question(head.name, each, registry) for each in read),
        interface=interface,
        registry_text=compiled,
        registry=registry,
        epsilon=_total(registry),
        text=text,
    )


def _head(table: Table) -> _Head:
    name = _take_name(table)
    contact = take_line(table, "contact", LONGEST_CONTACT)
    languages = _languages(table)
    admission = table.take_choice("admission", ("open", "invitation"), "open")
    starts = table.take_date("starts")
    expires = table.take_date("expires")
    if expires < starts:
        raise table.fail("expires", f"must not lie before starts = {starts}", expires)
    if expires - starts > timedelta(days=LONGEST_DAYS):
        rule = f"must lie at most {LONGEST_DAYS} days after starts = {starts}"
        raise table.fail("expires", rule, expires)
    most_epsilon = table.take_epsilon("most_epsilon", most=Decimal(1000))
    min_reports = table.take_integer("min_reports", 1, 10**9, 100)
    title = take_translations(table, "title", languages, LONGEST_TITLE)
    purpose = take_translations(table, "purpose", languages, LONGEST_PURPOSE)
    table.finish()
    return _Head(
        name,
        contact,
        languages,
        admission,
        starts,
        expires,
        most_epsilon,
        min_reports,
        title,
        purpose,
    )


def _languages(table: Table) -> tuple[str, ...]:
    languages = table.take_texts("languages")
    if not 1 <= len(languages) <= MOST_LANGUAGES:
        raise table.fail("languages", f"must name 1 to {MOST_LANGUAGES}", list(languages))
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            rule = "must be language tags such as en or pt-BR"
            raise table.fail("languages", rule, language)
    return languages


def _interface(root: Table, languages: Sequence[str]) -> dict[str, Interface]:
    brought = root.take_table("interface", {})
    words = {}
    for language in languages:
        found = words_of(language, brought)
        if found is None:
            rule = f"is required: {language} is in languages, and no built-in language"
            raise root.fail(f"interface.{language}", rule, None)
        words[language] = found
    for language, value in brought.values.items():
        rule = "must be in languages, and no built-in language: those have their words"
        raise brought.fail(language, rule, value)
    return words


def _questions(
    root: Table, languages: Sequence[str], interface: Mapping[str, Interface]
) -> list[_Read]:
    tables = root.take("questions")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise root.fail("questions", "must be [[questions]] tables", tables)
    if not 1 <= len(tables) <= MOST_QUESTIONS:
        raise root.fail("questions", f"must be 1 to {MOST_QUESTIONS}", len(tables))
    read: list[_Read] = []
    for place, values in enumerate(tables, 1):
        name = _take_name(Table(f"questions.{place}", values))
        if any(name == each.asked.name for each in read):
            raise SurveyError(f"questions.{place}.name", "must not repeat a name", name)
        read.append(_read(name, Table(f"questions.{name}", values), languages, interface))
    return read


def _read(
    name: str, table: Table, languages: Sequence[str], interface: Mapping[str, Interface]
) -> _Read:
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
    return _Read(asked, text, answers, deniability)


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
            raise inner.fail(name, f"a name must match {NAME.pattern}", name)
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


def _question(survey: str, read: _Read, registry: Registry) -> Question:
    asked = read.asked
    metric = registry.metrics[metric_name(survey, asked.name)]
    least = sent_by_others(metric.mechanism)
    if read.deniability and least < LEAST_DENIABLE:
        raise SurveyError(
            f"questions.{asked.name}.deniability",
            f"must be false: of people with another true answer only {float(least):.4f} send "
            f"a given one, which takes {float(LEAST_DENIABLE)}; lower epsilon, or offer fewer",
            True,
        )
    values = values_of(asked.answers)
    return Question(
        name=asked.name,
        text=read.text,
        answers=tuple(
            Answer(name, read.answers[name], value)
            for name, value in zip(asked.answers, values, strict=True)
        ),
        metric=metric,
        odds=odds_of(metric.mechanism),
        deniability=read.deniability,
    )


def _take_name(table: Table) -> str:
    name = table.take_text("name")
    if not NAME.fullmatch(name):
        raise table.fail("name", f"must match {NAME.pattern}", name)
    return name


def _total(registry: Registry) -> str:
    charges = sum(metric.charge for metric in registry.metrics.values())
    assert charges <= budget_micro(registry.lifetime_epsilon)
    return f"{Decimal(charges).scaleb(-6).normalize():f}"


def _as_in_the_survey(key: str) -> str:
    """Return the key of the survey's file that a key of what it compiles to stands for."""
    if key == "project.lifetime_epsilon":
        return "survey.most_epsilon"
    if key.startswith(f"metrics.{PREFIX}"):
        return f"questions.{key.split('.', 3)[3]}"
    return key

"""The file of a survey, from its text to what the page and the server need.

A file that breaks a rule is refused as a whole, as a metrics.toml is: what a respondent is told
about epsilon, odds and deniability follows from what stands here.
"""

import os
import tomllib
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from typing import Any

from client_sdk.declaration.table import Table
from client_sdk.errors import RegistryError
from client_sdk.mechanisms.thresholds import added, budget_micro
from client_sdk.registry import Registry, loads
from client_sdk.survey.compiled import registry_text, values_of
from client_sdk.survey.error import SurveyError
from client_sdk.survey.head import head_from
from client_sdk.survey.interface import words_of
from client_sdk.survey.model import Answer, Interface, Question, Survey
from client_sdk.survey.names import PREFIX, metric_name
from client_sdk.survey.odds import LEAST_DENIABLE, odds_of, sent_by_others
from client_sdk.survey.questions import Read, questions_from

SCHEMA = 1


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
        with localcontext(Context(prec=28)):  # the host's precision must not round an epsilon
            return _survey(text, document)
    except SurveyError:
        raise
    except RegistryError as error:
        raise SurveyError(_as_in_the_survey(error.key), error.rule, error.value) from error


def _survey(text: str, document: dict[str, Any]) -> Survey:
    root = Table("", document)
    root.take_choice("schema", (SCHEMA,))
    head = head_from(root.take_table("survey"))
    interface = _interface(root, head.languages)
    read = questions_from(root, head.languages, interface)
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
        head.admission,
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


def _question(survey: str, read: Read, registry: Registry) -> Question:
    asked = read.asked
    metric = registry.metrics[metric_name(survey, asked.name)]
    least = sent_by_others(metric.mechanism)
    if read.deniability and least < LEAST_DENIABLE:
        raise SurveyError(
            f"questions.{asked.name}.deniability",
            f"must be false: of people with another true answer only {float(least):.4f} send "
            f"a given one, and {float(LEAST_DENIABLE)} are needed; lower epsilon, or offer "
            "fewer answers",
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

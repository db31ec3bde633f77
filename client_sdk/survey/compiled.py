"""From the questions of a survey to the metrics.toml that devices and server work by."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from client_sdk.survey.names import metric_name

TWO_ANSWERS = "randomized_response"
MANY_ANSWERS = "generalized_randomized_response"
MECHANISMS = (TWO_ANSWERS, MANY_ANSWERS, "symmetric_unary", "optimized_unary")
"""Those whose odds can be told in a sentence, and that treat all answers alike."""


@dataclass(frozen=True)
class Asked:
    """What of a question shapes its metric.

    Attributes:
        name: In the file.
        text: In the survey's default language.
        answers: Names, PREFER_NOT last where there is one.
        mechanism: One of MECHANISMS.
        epsilon: Declared.
        sensitivity: Declared.
    """

    name: str
    text: str
    answers: tuple[str, ...]
    mechanism: str
    epsilon: Decimal
    sensitivity: str

    @property
    def boolean(self) -> bool:
        """Whether the metric is a yes/no one."""
        return is_boolean(self.answers)


def is_boolean(answers: Sequence[str]) -> bool:
    """Say whether a question with these answers becomes a boolean metric: PREFER_NOT is a third."""
    return len(answers) == 2


def values_of(answers: Sequence[str]) -> tuple[str | bool, ...]:
    """Return what the metric takes for each answer: its name, or a boolean.

    Of two answers the first is true, unless it is called "no".
    """
    if not is_boolean(answers):
        return tuple(answers)
    return (False, True) if answers[0] == "no" else (True, False)


def registry_text(
    name: str,
    contact: str,
    starts: date,
    expires: date,
    most_epsilon: Decimal,
    min_reports: int,
    questions: Iterable[Asked],
    admission: str = "open",
) -> str:
    """Return the text of the metrics.toml.

    Args:
        name: The survey's.
        contact: The survey's.
        starts: First day.
        expires: Last day.
        most_epsilon: What all questions together may cost: the lifetime epsilon.
        min_reports: Fewest reports that a release has.
        questions: In order.
        admission: Who may report: whoever is enrolled ("open"), or by "invitation" only.
    """
    head = f"""\
schema = 1

[project]
name = {_quoted(f"survey {name}")}
lifetime_epsilon = {most_epsilon}
contact = {_quoted(contact)}
"""
    if admission != "open":
        head += f"admission = {_quoted(admission)}\n"
    common = f"""\
epoch = "once"
owners = [{_quoted(contact)}]
starts = {starts}
expires = {expires + timedelta(days=1)}
min_reports = {min_reports}
"""
    return "\n".join([head, *(_metric(name, question) + common for question in questions)])


def _metric(survey: str, question: Asked) -> str:
    kind = 'type = "boolean"\n'
    if not question.boolean:
        listed = ", ".join(map(_quoted, question.answers))
        kind = (
            f'type = "category"\nvalues = [{listed}]\ncatch_all = {_quoted(question.answers[-1])}\n'
        )
    return f"""\
[metrics.{_quoted(metric_name(survey, question.name))}]
question = {_quoted(question.text)}
{kind}\
sensitivity = {_quoted(question.sensitivity)}
mechanism = {_quoted(question.mechanism)}
epsilon = {question.epsilon}
"""


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, and control characters are refused."""
    return json.dumps(text, ensure_ascii=False)

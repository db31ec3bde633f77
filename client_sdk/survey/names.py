"""Which metrics are a survey's: `survey.<survey>.<question>`, a prefix that no other metric has."""

import re

from client_sdk.declaration.table import Table

PREFIX = "survey."
NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")
"""What surveys, questions and answers may be called: it stands in addresses and metric names."""

NAME_RULE = "must be a lower-case letter, then up to 23 of a-z, 0-9 and _"

PREFER_NOT = "prefer_not_to_answer"
"""The answer of those who do not want to answer; randomized like any other."""


def is_survey(metric: str) -> bool:
    """Say whether a metric of this name is a survey's."""
    return metric.startswith(PREFIX)


def survey_of(metric: str) -> str | None:
    """Return the name of the survey that a metric belongs to, None if it is no survey's."""
    parts = metric.split(".")
    named = len(parts) == 3 and is_survey(metric) and all(map(NAME.fullmatch, parts[1:]))
    return parts[1] if named else None


def metric_name(survey: str, question: str) -> str:
    """Return the name of a question's metric."""
    return f"{PREFIX}{survey}.{question}"


def take_name(table: Table) -> str:
    """Remove and return the name that a table gives its survey or question."""
    name = table.take_text("name")
    if not NAME.fullmatch(name):
        raise table.fail("name", NAME_RULE, name)
    return name

"""The [survey] table of a survey's file: whose it is, when, for whom, and in which languages."""

import re
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from client_sdk.declaration.table import Table
from client_sdk.survey.model import Admission
from client_sdk.survey.names import take_name
from client_sdk.survey.texts import (
    LONGEST_PURPOSE,
    LONGEST_TITLE,
    take_line,
    take_translations,
)

MOST_LANGUAGES = 40
LONGEST_DAYS = 1827
"""Five years. What is asked for longer is telemetry."""
LONGEST_CONTACT = 200

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")


class Head(NamedTuple):
    """What the [survey] table says."""

    name: str
    contact: str
    languages: tuple[str, ...]
    admission: Admission
    starts: date
    expires: date
    most_epsilon: Decimal
    min_reports: int
    title: Mapping[str, str]
    purpose: Mapping[str, str]


def head_from(table: Table) -> Head:
    """Take the table; all keys."""
    name = take_name(table)
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
    return Head(
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

"""What came of a survey, or what comes of it so far: shares of answers, with their errors.

A share may be below zero or above 100 %: that is noise, and it is shown as it is. Below min_reports
a question has no numbers, before the end and after it.
"""

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sottovoce.surveys.places import add_place_arguments, found_at
from sottovoce.table import percent, table

if TYPE_CHECKING:
    from estimator.surveys.results import Result

_HEADER = ("answer", "share", "std. error", "interval", "possible")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from estimator.surveys import words
    from estimator.surveys.results import document

    found = found_at(args)
    survey = found.survey
    if args.json:
        told = document(survey, found.results) | {"invitations": found.invitations}
        print(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    language = words.language_of(survey)
    print(
        f"{survey.title[language]} ({survey.name}): {survey.starts} to {survey.expires}, "
        f"{words.admission(survey)}, epsilon {survey.epsilon} in all"
    )
    if found.invitations is not None:
        print(f"Invitations: {found.invitations}")
    for result in found.results:
        _print(result, language)
    return 0


def _print(result: "Result", language: str) -> None:
    from estimator.surveys import words

    question = result.question
    print(f"\n{question.name}: {question.text[language]}")
    print(f"  {_stage(result)}; {words.odds(question.odds, len(question.answers))}")
    if result.others:
        print(
            "  there are also reports of other versions of this question, which went through other "
            "chances and are not in these figures; the dashboard's page of the question has them"
        )
    if not result.answers:
        return
    rows = [
        (
            answer.text[language],
            percent(entry.share),
            percent(entry.standard_error),
            "-" if entry.interval is None else f"{percent(low)} to {percent(high)}",
            percent(entry.consistent),
        )
        for answer, entry in result.answers
        for low, high in [entry.interval or (None, None)]
    ]
    print(table(_HEADER, rows))
    if result.non_response is not None:
        print(
            f"Non-response: an estimated {percent(result.non_response.share)} prefer not to answer;"
            " who left the page before Send is counted nowhere"
        )
    for sentence in words.impossible(result.answers, language):
        print(sentence)


def _stage(result: "Result") -> str:
    if result.release is None:
        return "no report has been seen yet"
    moment = "final"
    if result.taken_at is not None:
        at = datetime.fromtimestamp(result.taken_at, UTC)
        moment = f"so far, as of {at:%Y-%m-%d %H:%M} UTC, provisional"
    if result.estimates is None:
        return f"{moment}: withheld, fewer than {result.release.min_reports} reports"
    return f"{moment}: {result.estimates.n:,} reports"

"""Check the file of a survey: what all questions together cost, what chance does to each answer,
where the page may say that nobody can tell, and how exact the shares will be.

A note is a question to the author. An error is a rule that is broken, a file that cannot be read,
or something that does not work as it is written; --strict makes notes count as much.

Exit status 0: good, perhaps with notes; 1: an error, or with --strict a note.
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from client_sdk.review import Finding, error_of_a_rare_value
from client_sdk.survey import (
    LEAST_DENIABLE,
    Question,
    Survey,
    SurveyError,
    deniable,
    load_survey,
    sent_by_others,
)
from client_sdk.survey.review import review_survey
from sottovoce.surveys.places import add_file_argument
from sottovoce.table import table

MANY = 1000
"""Answers that errors are told for, beside the survey's min_reports."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument("--strict", action="store_true", help="a note fails the check, too")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    try:
        survey = load_survey(args.survey)
    except SurveyError as error:
        return _refused(error, as_json=args.json)
    found = review_survey(survey, datetime.now(UTC).date())
    if args.json:
        print(json.dumps(_document(survey, found), indent=2))
    else:
        _print(survey, found)
    failing = ("note", "error") if args.strict else ("error",)
    return int(any(each.level in failing for each in found))


def explained(question: Question) -> dict[str, Any]:
    """Return what a question costs, what chance does to its answers, and its errors."""
    metric, odds = question.metric, question.odds
    return {
        "question": question.name,
        "answers": len(question.answers),
        "mechanism": metric.mechanism.name,
        "epsilon": metric.charge / 1e6,
        "sensitivity": metric.sensitivity,
        "odds": asdict(odds),
        "deniability": question.deniability,
        "deniable": deniable(metric.mechanism),
        "deniable_because": _because(question),
        "standard_errors": [_errors(question, n) for n in sorted({metric.min_reports, MANY})],
    }


def _because(question: Question) -> str:
    least = float(sent_by_others(question.metric.mechanism))
    sends = "send" if question.odds.kind == "cell" else "tick"
    return (
        f"of 100 people with another true answer {100 * least:.1f} {sends} a given one; "
        f"{100 * float(LEAST_DENIABLE):g} are needed"
    )


def _errors(question: Question, n: int) -> dict[str, Any]:
    """Return standard errors of a share: of an answer nobody has, and the largest of all."""
    return {
        "n": n,
        "rare": error_of_a_rare_value(question.metric, n),
        "worst": _worst_error(question, n),
    }


def _worst_error(question: Question, n: int) -> float | None:
    try:
        from estimator.planning.mechanism_laws import law_of
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "scipy"):
            raise
        return None  # the server parts are not installed
    law = law_of(question.metric.mechanism)
    return None if law is None else law.worst_error(n)


def _refused(error: SurveyError, *, as_json: bool) -> int:
    if as_json:
        shown = asdict(
            Finding("error", "file", error.key, str(error).removeprefix(error.key + ": "))
        )
        print(json.dumps({"errors": [str(error)], "findings": [shown]}, indent=2))
    else:
        print(f"error: {error}", file=sys.stderr)
    return 1


def _document(survey: Survey, found: list[Finding]) -> dict[str, Any]:
    return {
        "survey": survey.name,
        "epsilon": float(survey.epsilon),
        "most_epsilon": float(survey.registry.lifetime_epsilon),
        "admission": survey.admission,
        "languages": list(survey.languages),
        "starts": survey.starts.isoformat(),
        "expires": survey.expires.isoformat(),
        "questions": [explained(question) for question in survey.questions],
        "notes": [str(each) for each in found if each.level == "note"],
        "errors": [str(each) for each in found if each.level == "error"],
        "findings": [asdict(each) for each in found],
    }


def _print(survey: Survey, found: list[Finding]) -> None:
    figures = [explained(question) for question in survey.questions]
    print(
        f"epsilon {survey.epsilon}: the most that all answers of one respondent lose together "
        f"({survey.registry.lifetime_epsilon} allowed)\n"
        f"{survey.name}: {survey.admission}, {survey.starts} to {survey.expires}, "
        f"in {', '.join(survey.languages)}\n"
    )
    counts = [error["n"] for error in figures[0]["standard_errors"]]
    header = ("question", "mechanism", "answers", "epsilon", "own", "other", "nobody can tell")
    rows = [
        (
            each["question"],
            each["mechanism"],
            str(each["answers"]),
            f"{each['epsilon']:g}",
            str(each["odds"]["kept"]),
            str(each["odds"]["other"]),
            _said(each),
            *(_error_told(error) for error in each["standard_errors"]),
        )
        for each in figures
    ]
    print(table((*header, *(f"error at {n}" for n in counts)), rows, left=2))
    print(_LEGEND)
    for each in figures:
        may = "may" if each["deniable"] else "must not"
        print(f"{each['question']}: the page {may} say so: {each['deniable_because']}")
    for finding in found:
        stream = sys.stderr if finding.level == "error" else sys.stdout
        print(f"{finding.level}: {finding}", file=stream)


def _said(figures: dict[str, Any]) -> str:
    if not figures["deniable"]:
        return "no"
    return "yes, said" if figures["deniability"] else "yes, not said"


def _error_told(error: dict[str, Any]) -> str:
    rare = f"{100 * error['rare']:.1f}"
    return f"{rare} %" if error["worst"] is None else f"{rare} to {100 * error['worst']:.1f} %"


_LEGEND = """\
own, other       of 100 people with one true answer, how many send it, and any given other one;
                 of unary mechanisms, how many send a tick at it
nobody can tell  whether the page may say so, and whether it does (deniability = true)
error            standard error of a share, of an answer nobody has to the largest
"""

"""A survey's reports as files that R reads, to check our figures with somebody else's program.

Made from what is published alone: the reports of a question are counted out from its shares, one
row for each, in the order of answers. So no file says who came when, or which answers are of one
person; nor does the store know.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files

from client_sdk.survey import Answer, Question, Survey
from estimator.errors import NotPublishable
from estimator.estimates import Estimate
from estimator.surveys.r_design import Design, design_of
from estimator.surveys.results import Result

_DESIGN = (
    *("question", "column", "file", "stage", "n", "answers", "mechanism", "epsilon"),
    *("rrreg_model", "rrreg_p", "rr_design", "rr_p", "rr_p0", "rr_p1"),
)
_EXPECTED = (
    *("question", "column", "code", "answer", "share", "standard_error"),
    *("standard_error_n_minus_1", "low", "high"),
)
_WHOLE = 1e-6
"""How far from a whole number a count may be that is reckoned back from a share."""


@dataclass(frozen=True)
class Column:
    """Responses as R takes them: each is a code, and all of one code stand together.

    Attributes:
        name: Of the column.
        counts: How many responses have each code, from 0.
        codes: Per code its answer with its estimate; None: nothing is estimated of that code.
    """

    name: str
    counts: tuple[int, ...]
    codes: tuple[tuple[Answer, Estimate] | None, ...]


def exported(survey: Survey, found: Sequence[Result]) -> dict[str, str]:
    """Return the texts of the files, by name.

    Args:
        survey: What was asked.
        found: What came of it; a question that has no figures yet is left out.

    Raises:
        NotPublishable: None has, or figures are of more decimals than counts of whole reports.
    """
    shown = [each for each in found if each.answers]
    if not shown:
        raise NotPublishable(
            f"survey {survey.name} has no figures yet: no question has min_reports reports that "
            "the schedule has seen"
        )
    texts = {}
    designs: list[Sequence[object]] = [_DESIGN]
    expected: list[Sequence[object]] = [_EXPECTED]
    for result in shown:
        columns = columns_of(result)
        file = f"responses_{result.question.name}.csv"
        texts[file] = _responses(columns)
        designs += (_design(result, column, file) for column in columns)
        expected += (row for column in columns for row in _expected(result, column))
    texts["design.csv"] = _csv(designs)
    texts["expected.csv"] = _csv(expected)
    texts["analysis.R"] = files("estimator.surveys").joinpath("analysis.R").read_text("utf-8")
    return texts


def columns_of(result: Result) -> list[Column]:
    """Count out the responses of a question.

    Of two answers code 1 is yes and 0 is no, or what the file has for them; of more, codes are
    places in the file, from 0. Ticks have a column for each answer, 1 with a tick and 0 without;
    each stands in an order of its own, for which ticks came together is not known.

    Raises:
        NotPublishable: Shares are no shares of whole reports.
    """
    question, estimates = result.question, result.estimates
    if estimates is None:
        return []
    n, mechanism = estimates.n, question.metric.mechanism
    counts = [_count(result, entry, n) for _, entry in result.answers]
    if mechanism.kind == "bits" and mechanism.cells > 1:
        return [
            Column(f"{question.name}_{answer.name}", (n - count, count), (None, (answer, entry)))
            for count, (answer, entry) in zip(counts, result.answers, strict=True)
        ]
    if sum(counts) != n:
        raise NotPublishable(f"{question.name}: {sum(counts)} responses were counted, not {n}")
    by_code = list(zip(counts, result.answers, strict=True))
    if question.metric.type == "boolean":
        by_code.sort(key=lambda each: each[1][0].value)
    return [
        Column(
            question.name,
            tuple(count for count, _ in by_code),
            tuple(known for _, known in by_code),
        )
    ]


def _count(result: Result, entry: Estimate, n: int) -> int:
    """Reckon back how many reports speak for an answer: n (p_false + gap share).

    Also of either answer that one bit says, for surveys turn a bit round as often as the other.
    """
    mechanism = result.question.metric.mechanism
    own, other = float(mechanism.support_true), float(mechanism.support_false)
    share = math.nan if entry.share is None else entry.share
    count = n * (other + (own - other) * share)
    if not abs(count - round(count)) <= _WHOLE * max(1, n):
        rule = "has shares that are none of whole reports; export needs the release of this file"
        raise NotPublishable(f"{result.question.name} {rule}")
    return round(count)


def _responses(columns: Sequence[Column]) -> str:
    rows = zip(*(_counted_out(column) for column in columns), strict=True)
    return _csv([[column.name for column in columns], *rows])


def _counted_out(column: Column) -> Iterator[int]:
    for code, count in enumerate(column.counts):
        yield from (code for _ in range(count))


def _design(result: Result, column: Column, file: str) -> list[object]:
    question: Question = result.question
    design: Design = design_of(question)
    names = ";".join("-" if code is None else code[0].name for code in column.codes)
    return [
        question.name,
        column.name,
        file,
        result.stage,
        sum(column.counts),
        names,
        question.metric.mechanism.name,
        float(question.metric.mechanism.epsilon),
        design.model,
        ";".join(map(_decimal, design.p)),
        design.rr_design,
        *(_decimal(design.rr[key]) if key in design.rr else "" for key in ("p", "p0", "p1")),
    ]


def _expected(result: Result, column: Column) -> Iterator[list[object]]:
    n = sum(column.counts)
    for code, known in enumerate(column.codes):
        if known is None:
            continue
        answer, entry = known
        error = math.nan if entry.standard_error is None else entry.standard_error
        low, high = entry.interval or (math.nan, math.nan)
        # RRreg divides by n - 1 where we divide by n.
        theirs = error * math.sqrt(n / (n - 1)) if n > 1 else math.nan
        yield [
            result.question.name,
            column.name,
            code,
            answer.name,
            entry.share,
            error,
            theirs,
            low,
            high,
        ]


def _decimal(probability: Fraction) -> str:
    return repr(float(probability))


def _csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()

"""From the rows of a file to respondents: each row is checked, and bad ones are named, all of them.

A row is one respondent (`answer`, and perhaps `weight`, `stratum`, `sample`, `respondent`), or
many (`count`), or has a column of counts for each report instead of `answer`. A column named like
a parameter of the design gives each row its own: cells. A blank answer and a refusal are no
reports, and never a no; they are counted apart. Rows of one `respondent` are one respondent, who
must not say two things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.designs.base import Design, DesignError
from estimator.designs.catalogue import design as make
from estimator.designs.catalogue import parameters
from estimator.designs.row import BLANK, report_given, reports_counted, sample_of, weight_of
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.table import BadRows, Row, Table
from estimator.errors import DocumentError

_ALL = ""
"""The stratum of surveys without strata."""


@dataclass(frozen=True)
class Answer:
    """What one row says.

    Attributes:
        where: Line or row.
        design: How this respondent was asked.
        report: Its number among the design's reports; None for a blank or a refusal.
        refused: Whether it is a refusal.
        count: Respondents that the row stands for.
        weight: People of the population for whom the respondent stands; None without weights.
        stratum: Its name; "" without strata.
        sample: Number of the design's sample.
        respondent: Who; "" without such a column.
        others: Further columns that were asked for.
    """

    where: str
    design: Design
    report: int | None
    refused: bool
    count: int
    weight: float | None
    stratum: str
    sample: int
    respondent: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """How to read a table.

    Attributes:
        name: Of the design.
        given: Its parameters, but those that stand in columns.
        answer: Name of the column of answers.
        one: Which report the code 1 means; None for the design's own words.
        strata: Names of strata that exist; empty if any may.
        others: Columns that must be filled in: groups, covariates.
    """

    name: str
    given: Mapping[str, object]
    answer: str = "answer"
    one: str | None = None
    strata: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def gather(table: Table, reading: Reading) -> list[Answer]:
    """Return all respondents of a table.

    Raises:
        BadRows: Some rows break rules; nothing is used then.
        DesignError: The design itself is invalid, or the same parameter is given twice.
        DocumentError: A column is missing.
    """
    varied = _varied(table, reading)
    for name in reading.others:
        if name not in table.columns:
            raise DocumentError("columns", f"must include {name!r}", list(table.columns))
        if name in (reading.answer, "count", "respondent"):
            raise DocumentError("groups and covariates", "must not be how answers are told", name)
    if reading.strata and "stratum" not in table.columns:
        raise DocumentError("strata", "need a column 'stratum'", list(table.columns))
    wide = reading.answer not in table.columns
    if "respondent" in table.columns and (wide or "count" in table.columns):
        raise DocumentError("columns", "cannot be both counts and respondent", "both")
    if wide:
        _check_wide(table, reading, varied)
    rows = table.rows
    if not rows and not table.problems:
        raise DocumentError("rows", "must hold at least one answer", 0)
    designs: dict[tuple[str, ...], Design] = {}
    answers: list[Answer] = []
    problems = list(table.problems)
    for row in rows:
        try:
            key = tuple(row.fields[name] for name in varied)
            if key not in designs:
                own = dict(zip(varied, key, strict=True))
                designs[key] = make(reading.name, {**reading.given, **own})
            answers += _answers_of(row, designs[key], reading, wide)
        except DesignError as error:
            if not varied:
                raise
            problems.append(f"{row.where}: {error}")
        except _Broken as broken:
            problems += [f"{row.where}: {rule}" for rule in broken.rules]
    if "respondent" in table.columns:
        answers, contradictions = _merged(answers)
        problems += contradictions
    if problems:
        raise BadRows(problems)
    return answers


class _Broken(Exception):
    """Rules that one row breaks."""

    def __init__(self, *rules: str) -> None:
        self.rules = rules


def _varied(table: Table, reading: Reading) -> tuple[str, ...]:
    """Return which parameters stand in columns."""
    names = parameters(reading.name)
    if reading.name == SeveralAnswers.name:
        # A column of counts may be called like an answer, and answers like parameters.
        names = ("truth",) if reading.answer in table.columns else ()
    columns = [name for name in names if name in table.columns]
    for name in columns:
        if name in reading.given:
            raise DesignError(f"{name} is given, and there is a column {name!r}, too: drop one")
    return tuple(columns)


def _answers_of(row: Row, design: Design, reading: Reading, wide: bool) -> list[Answer]:
    """Return one answer, or of a row with a count for each report one for each."""
    rules: list[str] = []
    fields = row.fields
    sample = sample_of(fields.get("sample"), design, rules)
    stratum = fields.get("stratum", _ALL)
    if "stratum" in fields and not stratum:
        rules.append("stratum must not be blank")
    elif reading.strata and stratum not in reading.strata:
        rules.append(f"stratum must be one of {', '.join(reading.strata)}")
    respondent = fields.get("respondent", "")
    if "respondent" in fields and not respondent:
        rules.append("respondent must not be blank")
    if wide:
        said = reports_counted(fields, design, sample, rules)
    else:
        said = report_given(fields, design, sample, reading.answer, reading.one, rules)
    others = tuple(fields[name] for name in reading.others)
    weight = None
    if any(report is not None for report, _, _ in said):
        # Of who did not answer nothing else need be known.
        weight = weight_of(fields, rules)
        rules += [
            f"{name} must not be blank"
            for name, value in zip(reading.others, others, strict=True)
            if value.casefold() in (*BLANK, "nan")
        ]
    if rules:
        raise _Broken(*rules)
    return [
        Answer(
            row.where,
            design,
            report,
            refused,
            count,
            weight,
            stratum,
            sample,
            respondent,
            others,
        )
        for report, refused, count in said
    ]


def _check_wide(table: Table, reading: Reading, varied: Sequence[str]) -> None:
    """Raise DocumentError for a column of counts that nobody would count."""
    known = {"sample", "stratum", "weight", "blank", "refused", *reading.others, *varied}
    design = _any_design(table, reading, varied)
    if design is None:
        return
    for number in range(len(design.samples)):
        known |= {report.casefold() for report in design.reports(number)}
    reports = sorted({r for n in range(len(design.samples)) for r in design.reports(n)})
    for name in table.columns:
        if name.casefold() not in known and name not in known:
            raise DocumentError(
                "columns",
                f"must be {reading.answer!r} (--answer names another) and others, or counts of "
                f"{', '.join(reports)}, blank, refused",
                name,
            )
    if not all(report.casefold() in map(str.casefold, table.columns) for report in reports):
        raise DocumentError(
            "columns",
            f"must hold {reading.answer!r}, or counts of all of {', '.join(reports)}",
            list(table.columns),
        )


def _any_design(table: Table, reading: Reading, varied: Sequence[str]) -> Design | None:
    """Return the design of some row: parameters do not change what its reports are called.

    None if all rows break its rules, and are going to be named for it.
    """
    if not varied:
        return make(reading.name, reading.given)
    for row in table.rows:
        try:
            return make(reading.name, {**reading.given, **{n: row.fields[n] for n in varied}})
        except DesignError:
            continue
    return None


def _merged(answers: Sequence[Answer]) -> tuple[list[Answer], list[str]]:
    """Return one answer for each respondent, and who contradicts himself."""
    by_respondent: dict[str, list[Answer]] = {}
    for answer in answers:
        by_respondent.setdefault(answer.respondent, []).append(answer)
    kept, problems = [], []
    for rows in by_respondent.values():
        told = [row for row in rows if row.report is not None]
        told = told or [row for row in rows if row.refused] or rows
        # A blank line of the same respondent need not repeat the rest.
        if len({replace(row, where="") for row in told}) > 1:
            lines = ", ".join(row.where.split()[1] for row in told)
            what = "answers" if len({row.report for row in told}) > 1 else "further fields"
            kind = told[0].where.split()[0]
            problems.append(f"{kind}s {lines}: one respondent with different {what}")
        kept.append(told[0])
    return kept, problems

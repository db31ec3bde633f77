"""Tally sheets: what is counted on paper has the columns that `sottovoce survey estimate` reads."""

from dataclasses import fields
from fractions import Fraction
from typing import Any

from estimator.designs.base import Design
from estimator.designs.several_answers import SeveralAnswers
from sottovoce.surveys.paper import odds
from sottovoce.surveys.paper.procedure import Procedure
from sottovoce.surveys.paper.words import Words

NOT_ANSWERED = ("blank", "refused")
"""What the estimator calls rows without a report."""


def tally(asked: Procedure, words: Words, title: str, foot: str) -> dict[str, Any]:
    """Return a tally sheet: a row for each report, and for what was not answered.

    Args:
        asked: The question.
        words: Of the language.
        title: Of the question, where there are several.
        foot: What says how it was asked.
    """
    texts, design = words.texts, asked.design
    columns = [*(["sample"] if len(design.samples) > 1 else []), "answer", "count"]
    rows = []
    for number, sample in enumerate(design.samples):
        of_group = [words.say("group", group=number + 1)] if len(design.samples) > 1 else []
        code_of_group = [sample] if len(design.samples) > 1 else []
        for line in asked.each or ("",):
            of_line = [line] if line else []
            for report in design.reports(number):
                said = odds.label(asked, words, report)
                rows.append([*of_group, *of_line, said, [*code_of_group, *of_line, report]])
        rows += [
            [
                *of_group,
                *([""] if asked.each else []),
                texts[each],
                [*code_of_group, *([""] if asked.each else []), each],
            ]
            for each in NOT_ANSWERED
        ]
    if asked.each:
        columns.insert(0, "line")
    name = asked.name or "tally"
    command = ["sottovoce survey estimate", f"{name}.csv", "--design", design.name]
    return {
        "title": title,
        "head": [texts["answer"], "CSV", texts["strokes"], texts["count"]],
        "rows": [
            {"text": " · ".join(part for part in row[:-1] if part), "code": ",".join(row[-1])}
            for row in rows
        ],
        "header": ",".join(columns),
        "command": " ".join([*command, *options(design), *(["--by line"] if asked.each else [])]),
        "foot": foot,
    }


def options(design: Design) -> list[str]:
    """Return a design's parameters as options of `sottovoce survey estimate`."""
    return [f"--{name.replace('_', '-')} {value}" for name, value in stated(design).items()]


def stated(design: Design) -> dict[str, str]:
    """Return a design's parameters as text: exact fractions."""
    if isinstance(design, SeveralAnswers):
        return _of_matrix(design)
    return {
        each.name: odds.fraction(value) if isinstance(value, Fraction) else str(value)
        for each in fields(design)
        if (value := getattr(design, each.name)) is not None
    }


def _of_matrix(design: SeveralAnswers) -> dict[str, str]:
    names = {"answers": ",".join(design.answers)}
    truth = design.response[0][0] - design.response[0][-1]
    if design == SeveralAnswers.telling_truth(design.answers, truth):
        return names | {"truth": odds.fraction(truth)}
    rows = "; ".join(" ".join(map(odds.fraction, row)) for row in design.response)
    if design.named != design.answers:
        names["reports"] = ",".join(design.named)
    return names | {"matrix": f'"{rows}"'}

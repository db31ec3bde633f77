"""Tally sheets: what is counted on paper has the columns that `sottovoce survey estimate` reads."""

from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from estimator.designs.base import Design, YesNo
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
    groups = len(design.samples) > 1
    rows = []
    for number, sample in enumerate(design.samples):
        of_group = [words.say("group", group=number + 1)] if groups else []
        code = [sample] if groups else []
        for line, told in asked.each.items() or [("", "")]:
            for report in _in_order(design, number):
                said = [*of_group, told, odds.said_on_card(asked, words, report)]
                rows.append(_row(said, [*([line] if line else []), *code, report]))
        # A card is blank or refused as a whole: that is counted once, with its first line.
        first = [next(iter(asked.each))] if asked.each else []
        rows += [_row([*of_group, texts[each]], [*first, *code, each]) for each in NOT_ANSWERED]
    columns = [
        *(["line"] if asked.each else []),
        *(["sample"] if groups else []),
        "answer",
        "count",
    ]
    file = f"{asked.name or 'tally'}.csv"
    command = ["sottovoce survey estimate", file, "--design", design.name]
    return {
        "title": title,
        "text": words.say("tally_text", file=file),
        "example": words.say("tally_example", example=f"{rows[0]['code']},12"),
        "head": [texts["answer"], "CSV", texts["strokes"], texts["count"]],
        "rows": rows,
        # Lines of a card that are counted apart do not add up to cards.
        "total": "" if asked.each else texts["total"],
        "header": ",".join(columns),
        "command": " ".join([*command, *options(design), *(["--by line"] if asked.each else [])]),
        "foot": foot,
    }


def _in_order(design: Design, sample: int) -> Sequence[str]:
    """Return reports as cards have them: yes before no."""
    reports = design.reports(sample)
    return reports[::-1] if isinstance(design, YesNo) else reports


def _row(said: Sequence[str], code: Sequence[str]) -> dict[str, str]:
    return {"text": " · ".join(part for part in said if part), "code": ",".join(code)}


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

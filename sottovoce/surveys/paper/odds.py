"""What comes out of 100 people: in words, and as 100 dots."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from estimator.designs.base import Design, Matrix
from estimator.designs.several_answers import SeveralAnswers
from sottovoce.surveys.paper.procedure import TWO_FACTS, Procedure
from sottovoce.surveys.paper.words import Words

DOTS = 100
MOST_ROWS = 3
"""Truths that are told apart; of more, all alike, one sentence says it."""


def odds(asked: Procedure, words: Words, sample: int) -> list[dict[str, Any]]:
    """Return for each truth who answers what, of 100 people; nothing where no formula says it."""
    design = asked.design
    matrix = design.matrix(sample)
    if matrix is None:
        return []
    reports = [label(asked, words, name) for name in design.reports(sample)]
    truths = [truth(asked, words, name) for name in design.truths]
    several = isinstance(design, SeveralAnswers)
    if several and len(truths) > MOST_ROWS and (even := _even(matrix)):
        kept, other = map(words.of_100, even)
        return [
            {"text": words.say("odds_even", own=kept, other=other), "dots": round(DOTS * even[0])}
        ]
    rows = []
    for place in range(len(truths)) if several else reversed(range(len(truths))):
        chances = matrix[place]
        own = place if several else 1
        cells = [
            words.say("odds_line", number=words.of_100(chance), answer=report)
            for chance, report in zip(chances, reports, strict=True)
            if chance
        ]
        if not several:
            cells.reverse()
        if asked.each:
            key = "odds_own_line" if place else "odds_other_line"
            text = words.say(key, on=words.of_100(chances[1]), off=words.of_100(chances[0]))
        else:
            told = words.texts["comma"].join(cells)
            text = words.say("odds_of", true=truths[place], list=told)
        rows.append({"text": text, "dots": round(DOTS * chances[own])})
    return rows


def _even(matrix: Matrix) -> tuple[Fraction, Fraction] | None:
    """Return the odds of one's own and of any other answer, where all truths are alike."""
    own, other = matrix[0][:2]
    alike = all(
        chance == (own if i == j else other)
        for i, row in enumerate(matrix)
        for j, chance in enumerate(row)
    )
    return (own, other) if alike else None


def label(asked: Procedure, words: Words, report: str) -> str:
    """Return how a report is said."""
    if asked.each:
        return words.texts["ticked" if report == "yes" else "not_ticked"]
    return asked.labels.get(report) or words.report(report)


def said_on_card(asked: Procedure, words: Words, report: str) -> str:
    """Return how a card's box says a report, and so the tally: by name, with its rule if any."""
    said = label(asked, words, report)
    if asked.design.name in TWO_FACTS:
        return words.say("fact", report=said, rule=words.texts[f"rule_{report}"])
    return said


def truth(asked: Procedure, words: Words, name: str) -> str:
    """Return how a truth is said."""
    return asked.labels.get(name) or words.report(name)


def certain(design: Design, sample: int) -> Sequence[tuple[str, str]]:
    """Return reports that only one truth can send, with it; not where no formula says it."""
    matrix = design.matrix(sample)
    if matrix is None:
        return ()
    found = []
    for place, report in enumerate(design.reports(sample)):
        possible = [t for t, row in zip(design.truths, matrix, strict=True) if row[place]]
        if len(possible) == 1:
            found.append((report, possible[0]))
    return found


def fraction(chance: Fraction) -> str:
    """Return an exact probability as text."""
    return f"{chance.numerator}/{chance.denominator}"

"""All that is printed for one question or several: plain values, which both layouts set."""

from collections.abc import Sequence
from typing import Any

from sottovoce.surveys.paper.cut import answer_cards, bags_of_slips
from sottovoce.surveys.paper.instructions import instructions
from sottovoce.surveys.paper.interviewer import interviewer
from sottovoce.surveys.paper.procedure import Procedure
from sottovoce.surveys.paper.stating import foot
from sottovoce.surveys.paper.tally import tally
from sottovoce.surveys.paper.words import Words

MOST_COPIES = 500


def document(asked: Sequence[Procedure], words: Words, *, copies: int) -> dict[str, Any]:
    """Return all that is printed.

    Args:
        asked: The questions, in order.
        words: Of the language.
        copies: Answer cards of each question.

    Raises:
        ValueError: `copies` is out of bounds.
    """
    if not 1 <= copies <= MOST_COPIES:
        raise ValueError(f"copies must be in 1..{MOST_COPIES}, got {copies}")
    several = len(asked) > 1
    sheets, cards, tallies = [], [], []
    for number, each in enumerate(asked, start=1):
        title = words.say("question_number", number=number) if several else ""
        for sample in range(len(each.design.samples)):
            sheets.append(instructions(each, words, sample, title))
            cards.append(answer_cards(each, words, sample, title, copies))
        tallies.append(tally(each, words, title, foot(each, words)))
    return {
        "language": words.language,
        "direction": words.direction,
        "texts": dict(words.texts),
        "title": words.texts["heading"],
        "sheets": sheets,
        "interviewer": interviewer(asked, words),
        "tallies": tallies,
        "cards": cards,
        "slips": bags_of_slips(asked, words),
    }

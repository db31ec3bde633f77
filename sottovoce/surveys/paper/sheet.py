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
PARTS = ("sheets", "interviewer", "tallies", "slips", "cards")


def document(
    asked: Sequence[Procedure], words: Words, *, copies: int, parts: Sequence[str] = PARTS
) -> dict[str, Any]:
    """Return all that is printed.

    Args:
        asked: The questions, in order.
        words: Of the language.
        copies: Answer cards of each question.
        parts: Which of `PARTS` to print: what is handed out and what the team keeps may be in two
            languages, and cards are needed more often than the rest.

    Raises:
        ValueError: `copies` is out of bounds, or there is no such part.
    """
    if not 1 <= copies <= MOST_COPIES:
        raise ValueError(f"copies must be in 1..{MOST_COPIES}, got {copies}")
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"parts must be among {', '.join(PARTS)}, got {', '.join(unknown)!r}")
    several = len(asked) > 1
    sheets, cards, tallies = [], [], []
    for number, each in enumerate(asked, start=1):
        title = words.say("question_number", number=number) if several else ""
        for sample in range(len(each.design.samples)):
            sheets.append(instructions(each, words, sample, title))
            cards.append(answer_cards(each, words, sample, title, copies))
        tallies.append(tally(each, words, title, foot(each, words)))
    printed = {
        "sheets": sheets,
        "interviewer": [interviewer(asked, words)],
        "tallies": tallies,
        "slips": bags_of_slips(asked, words),
        "cards": cards,
    }
    return {
        "language": words.language,
        "direction": words.direction,
        "texts": dict(words.texts),
        "title": words.texts["heading"],
        **{part: own if part in parts else [] for part, own in printed.items()},
    }

"""What is cut out: answer cards and slips for the bag."""

from collections.abc import Sequence
from typing import Any

from estimator.designs.base import YesNo
from estimator.designs.kuk import Kuk
from sottovoce.surveys.paper.odds import said_on_card
from sottovoce.surveys.paper.procedure import Procedure
from sottovoce.surveys.paper.stating import group_of
from sottovoce.surveys.paper.words import Words

_SHORT = 16
"""Characters of an answer that fit on a third of the paper's width."""


def answer_cards(
    asked: Procedure, words: Words, sample: int, title: str, copies: int
) -> dict[str, Any]:
    """Return the cards of one sample's question, which state no question."""
    texts = words.texts
    reports = asked.design.reports(sample)
    boxes: list[dict[str, str]]
    if asked.each:
        boxes = [{"mark": "square", "text": each} for each in asked.each.values()]
    else:
        if isinstance(asked.design, YesNo):
            reports = reports[::-1]
        boxes = [
            {
                "mark": report if report in ("circle", "triangle") else "square",
                "text": said_on_card(asked, words, report),
            }
            for report in reports
        ]
    group = group_of(asked, words, sample)
    return {
        "heading": " · ".join(part for part in (texts["card"], title, group) if part),
        "title": texts["card"],
        "subtitle": " · ".join(part for part in (title, group) if part),
        "text": texts["card_text_each" if asked.each else "card_text"],
        "boxes": boxes,
        "columns": 3 if all(len(box["text"]) <= _SHORT for box in boxes) else 2,
        "copies": copies,
    }


def bags_of_slips(asked: Sequence[Procedure], words: Words) -> list[dict[str, Any]]:
    """Return bags of slips, each once."""
    bags: list[dict[str, Any]] = []
    for each in asked:
        for number, split in enumerate(each.choice.splits, start=1):
            if split.device.kind != "slips" and not isinstance(each.design, Kuk):
                continue
            labels = [str(value) for value in split.device.values]
            title = f"{words.texts['slips']} ({split.device.cases})"
            if isinstance(each.design, Kuk):
                title += f": {words.say('slips_bag', bag=number)}"
                colours = [
                    words.report(order.report)
                    for order, part in zip(
                        each.choice.draws[number - 1].orders, split.parts, strict=True
                    )
                    for _ in range(split.device.weight(part))
                ]
                labels = colours
            bag = {
                "title": title,
                "text": words.say("slips_text", number=len(labels)),
                "labels": labels,
                # Numbers alone would not tell the slips of two bags apart; colours must not.
                "of": ""
                if isinstance(each.design, Kuk)
                else words.say("slips_of", number=len(labels)),
            }
            if bag not in bags:
                bags.append(bag)
    return bags

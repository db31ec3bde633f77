"""What is cut out: answer cards and slips for the bag."""

from collections.abc import Sequence
from typing import Any

from estimator.designs.base import YesNo
from estimator.designs.kuk import Kuk
from sottovoce.surveys.paper import odds
from sottovoce.surveys.paper.instructions import rules
from sottovoce.surveys.paper.procedure import TWO_FACTS, Procedure
from sottovoce.surveys.paper.stating import group_of
from sottovoce.surveys.paper.words import Words


def answer_cards(
    asked: Procedure, words: Words, sample: int, title: str, copies: int
) -> dict[str, Any]:
    """Return the cards of one sample's question, which state no question."""
    texts = words.texts
    reports = asked.design.reports(sample)
    boxes: list[dict[str, str]]
    if asked.each:
        boxes = [{"mark": "square", "text": each} for each in asked.each.values()]
    elif asked.design.name in TWO_FACTS:
        boxes = [
            {"mark": report if report in ("circle", "triangle") else "square", "text": text}
            for text, _, report in rules(asked, words)
        ]
    else:
        named = [odds.label(asked, words, name) for name in reports]
        if isinstance(asked.design, YesNo):
            named.reverse()
        boxes = [{"mark": "square", "text": text} for text in named]
    group = group_of(asked, words, sample)
    return {
        "heading": " · ".join(part for part in (texts["card"], title, group) if part),
        "title": texts["card"],
        "subtitle": " · ".join(part for part in (title, group) if part),
        "text": texts["card_text_each" if asked.each else "card_text"],
        "boxes": boxes,
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
            }
            if bag not in bags:
                bags.append(bag)
    return bags

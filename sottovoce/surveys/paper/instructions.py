"""The sheet that a respondent reads: what to do, step by step, and what comes of it."""

from typing import Any, Literal

from estimator.designs.devices import slips
from estimator.designs.draws import Order
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import Kuk
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.splits import Split
from sottovoce.surveys.paper import odds
from sottovoce.surveys.paper.procedure import TWO_FACTS, TWO_QUESTIONS, Procedure
from sottovoce.surveys.paper.stating import foot, group_of
from sottovoce.surveys.paper.words import Words

_LETTERS = {"ar": ("أ", "ب")}
_LARGE_ROWS = 3
"""Rows of a table with which a sheet fits on one page in large letters, as HTML."""


def instructions(asked: Procedure, words: Words, sample: int, title: str) -> dict[str, Any]:
    """Return the sheet of one sample."""
    texts, listed = words.texts, isinstance(asked.design, ItemCount)
    table = _table(asked, words, sample)
    return {
        "title": title,
        "group": group_of(asked, words, sample),
        "lead": texts[_lead(asked, sample)],
        "items": _items(asked, words),
        "list": [*asked.items, *([asked.text] if sample else [])] if listed else [],
        "need": need(asked, words, sample),
        "steps": _steps(asked, words, sample),
        "table": table,
        "long": table is not None and len(table["rows"]) > _LARGE_ROWS,
        "rules": rules(asked, words),
        "why": _why(asked, words, sample),
        "odds": [] if listed else odds.odds(asked, words, sample),
        "dots": _dots(asked, words, sample),
        "never": texts[f"never_{kind(asked)}"],
        "free": texts["free_each"] if asked.each else words.say("free", no=words.report("no")),
        "foot": foot(asked, words),
    }


def kind(asked: Procedure) -> Literal["text", "ask", "kuk", "list"]:
    """Return where chance comes from, as the keys of sentences about it end."""
    if isinstance(asked.design, ItemCount):
        return "list"
    if isinstance(asked.design, Kuk):
        return "kuk"
    return "ask" if asked.design.name in TWO_FACTS else "text"


def _lead(asked: Procedure, sample: int) -> str:
    """Return which promise can be kept: not where an answer proves something."""
    if isinstance(asked.design, ItemCount):
        return "lead_list"
    return "lead_proves" if odds.certain(asked.design, sample) else "lead"


def _dots(asked: Procedure, words: Words, sample: int) -> str:
    if isinstance(asked.design, SeveralAnswers):
        return words.texts["dots_own"]
    report = asked.design.reports(sample)[1]
    return words.say("dots_answer", answer=odds.label(asked, words, report))


def _split(asked: Procedure, sample: int) -> Split | None:
    splits = asked.choice.splits
    return splits[min(sample, len(splits) - 1)] if splits else None


def need(asked: Procedure, words: Words, sample: int) -> str:
    """Return what has to be handed over; nothing where chance is remembered."""
    if isinstance(asked.design, Kuk):
        first, second = (split.device.cases for split in asked.choice.splits)
        return words.say("kuk_need", first=first, second=second)
    split = _split(asked, sample)
    return words.of(split.device, "need") if split and split.device.exact else ""


def _letters(words: Words) -> tuple[str, str]:
    return _LETTERS.get(words.language, ("A", "B"))


def _items(asked: Procedure, words: Words) -> list[dict[str, str]]:
    """Return the boxes with questions or statements."""
    texts, name = words.texts, asked.design.name
    if isinstance(asked.design, ItemCount):
        return []
    if name in TWO_QUESTIONS:
        return [
            {"label": texts["sensitive"], "text": asked.text},
            {"label": texts["harmless"], "text": asked.harmless or _birthday(asked, words)},
        ]
    second = asked.opposite
    if name in TWO_FACTS:
        second = asked.harmless or _fact(asked, words)
    if second:
        return [
            {"label": words.say("statement", label=letter), "text": text}
            for letter, text in zip(_letters(words), (asked.text, second), strict=True)
        ]
    return [{"label": texts["question"], "text": asked.text}]


def _birthday(asked: Procedure, words: Words) -> str:
    assert asked.birthday is not None
    device = asked.birthday.device
    return words.of(device, "question", values=words.values(device, asked.birthday.parts[0]))


def _fact(asked: Procedure, words: Words) -> str:
    split = asked.choice.splits[0]
    return words.of(split.device, "statement", values=words.values(split.device, split.parts[0]))


def _steps(asked: Procedure, words: Words, sample: int) -> list[str]:
    texts, split = words.texts, _split(asked, sample)
    steps = [texts["step_private"]]
    if isinstance(asked.design, ItemCount):
        return [*steps, texts["step_list"], texts["step_tick"]]
    if isinstance(asked.design, Kuk):
        yes, no, red, black = map(words.report, ("yes", "no", "red", "black"))
        steps.append(words.say("kuk_step", yes=yes, no=no))
        steps.append(words.of(slips(2), "throw"))
        return [*steps, words.say("kuk_answer", red=red, black=black), texts["step_tick"]]
    if split is not None:
        steps.append(words.of(split.device, "throw"))
    if asked.each:
        return [steps[0], texts["tick_each"], *steps[1:], texts["step_fold"]]
    steps.append(texts["step_ask" if asked.design.name in TWO_FACTS else "step_say"])
    return [*steps, texts["step_tick"]]


def _table(asked: Procedure, words: Words, sample: int) -> dict[str, Any] | None:
    """Return the table from what was thrown to what is answered."""
    if asked.design.name in TWO_FACTS or isinstance(asked.design, Kuk) or not asked.choice.splits:
        return None
    texts = words.texts
    head = [texts["got"], texts["then"], texts["often"]]
    split = asked.choice.splits[sample]
    orders = asked.choice.draws[sample].orders
    return {
        "head": head,
        "rows": [
            [
                words.values(split.device, part),
                _action(asked, words, order),
                words.of_100(split.device.probability(part)),
            ]
            for order, part in zip(orders, split.parts, strict=True)
        ],
    }


def _action(asked: Procedure, words: Words, order: Order) -> str:
    texts = words.texts
    yes, no = words.report("yes"), words.report("no")
    if asked.each:
        key = {"yes": "tick_yes", "no": "tick_no"}.get(order.report, "tick_truth")
        return texts[key]
    match order.kind:
        case "say":
            return words.say("forced", answer=odds.label(asked, words, order.report))
        case "opposite":
            return texts["ask_b"] if asked.opposite else words.say("opposite", yes=yes, no=no)
        case "sensitive" | "harmless":
            return texts[f"ask_{order.kind}"]
    return texts["ask_a" if asked.opposite else "truth"]


def rules(asked: Procedure, words: Words) -> list[list[str]]:
    """Return which of two facts is which report."""
    if asked.design.name not in TWO_FACTS:
        return []
    return [
        [words.texts[f"rule_{report}"], words.report(report), report]
        for report in reversed(asked.design.reports())
    ]


def _why(asked: Procedure, words: Words, sample: int) -> list[str]:
    texts, design = words.texts, asked.design
    said = [texts[f"why_{kind(asked)}"]]
    if isinstance(design, ItemCount):
        return [*said, texts["list_edge"]]
    said += [
        words.say(
            "certain",
            answer=odds.label(asked, words, report),
            true=odds.truth(asked, words, name),
        )
        for report, name in odds.certain(design, sample)
    ]
    if asked.birthday or not asked.choice.exact:
        said.append(texts["approximate"])
    return said

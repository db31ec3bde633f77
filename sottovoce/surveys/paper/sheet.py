"""All that is printed for one question or several: plain values, which both layouts set."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from estimator.designs.base import Design, YesNo
from estimator.designs.devices import Split, slips
from estimator.designs.draws import Order
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import Kuk
from estimator.designs.several_answers import SeveralAnswers
from sottovoce.surveys.paper import odds
from sottovoce.surveys.paper.procedure import TWO_FACTS, TWO_QUESTIONS, Procedure
from sottovoce.surveys.paper.tally import stated, tally
from sottovoce.surveys.paper.words import Words

MOST_COPIES = 500
_LETTERS = {"ar": ("أ", "ب")}


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
            sheets.append(_sheet(each, words, sample, title))
            cards.append(_cards(each, words, sample, title, copies))
        tallies.append(tally(each, words, title, _foot(each, words)))
    return {
        "language": words.language,
        "direction": words.direction,
        "texts": dict(words.texts),
        "title": words.texts["heading"],
        "sheets": sheets,
        "interviewer": _interviewer(asked, words),
        "tallies": tallies,
        "cards": cards,
        "slips": _slips(asked, words),
    }


def parameters(design: Design) -> str:
    """Return a design's parameters in words: exact fractions."""
    return ", ".join(f"{name} = {value}" for name, value in stated(design).items())


def epsilon(asked: Procedure, words: Words) -> str:
    """Return the epsilon of a card as text, and what it leaves out."""
    own = asked.epsilon
    if math.isinf(own):
        return words.texts["epsilon_none"]
    text = words.decimal_of(own)
    if asked.browser_epsilon is not None:
        text = words.say("browser", browser=words.decimal_of(asked.browser_epsilon), paper=text)
    if asked.birthday or not asked.choice.exact:
        text += f" ({words.texts['epsilon_birthday']})"
    return text


def _foot(asked: Procedure, words: Words) -> str:
    finite = not math.isinf(asked.epsilon)
    own = words.decimal_of(asked.epsilon) if finite else words.texts["epsilon_none"]
    told = f"{words.texts['epsilon']}: {own}"
    return " · ".join(part for part in (asked.design.name, parameters(asked.design), told) if part)


def _group(asked: Procedure, words: Words, sample: int) -> str:
    samples = asked.design.samples
    return words.say("group", group=sample + 1) if len(samples) > 1 else ""


def _sheet(asked: Procedure, words: Words, sample: int, title: str) -> dict[str, Any]:
    texts, listed = words.texts, isinstance(asked.design, ItemCount)
    return {
        "title": title,
        "group": _group(asked, words, sample),
        "lead": texts[_lead(asked, sample)],
        "items": _items(asked, words),
        "list": [*asked.items, *([asked.text] if sample else [])] if listed else [],
        "need": "" if not asked.choice.splits else _need(asked, words, sample),
        "steps": _steps(asked, words, sample),
        "table": _table(asked, words, sample),
        "rules": _rules(asked, words),
        "why": _why(asked, words, sample),
        "odds": [] if listed else odds.odds(asked, words, sample),
        "dots": _dots(asked, words, sample),
        "free": words.say("free", no=words.report("no")),
        "foot": _foot(asked, words),
    }


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


def _need(asked: Procedure, words: Words, sample: int) -> str:
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
    steps.append(texts["step_ask" if asked.design.name in TWO_FACTS else "step_say"])
    if asked.each:
        steps.append(texts["tick_each"])
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


def _rules(asked: Procedure, words: Words) -> list[list[str]]:
    """Return which of two facts is which report."""
    if asked.design.name not in TWO_FACTS:
        return []
    return [
        [words.texts[f"rule_{report}"], words.report(report), report]
        for report in reversed(asked.design.reports())
    ]


def _why(asked: Procedure, words: Words, sample: int) -> list[str]:
    texts, design = words.texts, asked.design
    if isinstance(design, ItemCount):
        return [texts["why_list"], texts["list_edge"]]
    said = [texts["why_ask" if design.name in TWO_FACTS else "why_text"]]
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


def _cards(asked: Procedure, words: Words, sample: int, title: str, copies: int) -> dict[str, Any]:
    texts = words.texts
    reports = asked.design.reports(sample)
    boxes: list[dict[str, str]]
    if asked.each:
        boxes = [{"mark": "square", "text": each} for each in asked.each.values()]
    elif asked.design.name in TWO_FACTS:
        boxes = [
            {"mark": report if report in ("circle", "triangle") else "square", "text": text}
            for text, _, report in _rules(asked, words)
        ]
    else:
        named = [odds.label(asked, words, name) for name in reports]
        if isinstance(asked.design, YesNo):
            named.reverse()
        boxes = [{"mark": "square", "text": text} for text in named]
    group = _group(asked, words, sample)
    return {
        "heading": " · ".join(part for part in (texts["card"], title, group) if part),
        "title": texts["card"],
        "subtitle": " · ".join(part for part in (title, group) if part),
        "text": texts["card_text_each" if asked.each else "card_text"],
        "boxes": boxes,
        "copies": copies,
    }


def _slips(asked: Sequence[Procedure], words: Words) -> list[dict[str, Any]]:
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


def _interviewer(asked: Sequence[Procedure], words: Words) -> dict[str, Any]:
    texts = words.texts
    needs = list(dict.fromkeys(
        need
        for each in asked
        for sample in range(len(each.design.samples))
        if (need := _need(each, words, sample))
    ))  # fmt: skip
    steps = [texts["interviewer_read"]]
    if any(len(each.design.samples) > 1 for each in asked):
        steps.append(texts["interviewer_groups"])
    if needs:
        steps.append(words.say("interviewer_hand", need=words.together(needs)))
    else:
        steps.append(texts["interviewer_sheet"])
    checks = dict.fromkeys(
        words.of(split.device, "check")
        for each in asked
        if not isinstance(each.design, Kuk)
        for split in each.choice.splits
    )
    if needs:
        checks = {texts["interviewer_device"]: None} | checks
    if checks:
        steps.append(" ".join(checks))
    steps += [
        texts["interviewer_never"],
        texts["interviewer_help"],
        texts["interviewer_once"],
        words.say("interviewer_blank", no=words.report("no")),
        texts["interviewer_box"],
    ]
    return {"steps": steps, "facts": [_facts(each, words) for each in asked]}


def _facts(asked: Procedure, words: Words) -> dict[str, Any]:
    """Return what the office has to know: exact odds, parameters, epsilon."""
    texts = words.texts
    rows = [
        [texts["design"], asked.design.name],
        [texts["parameters"], parameters(asked.design)],
        [texts["epsilon"], epsilon(asked, words)],
    ]
    if asked.wished is not None:
        told = words.say("wished", wished=parameters(asked.wished), got=parameters(asked.design))
        rows.append(["", told])
    exact = [
        words.say("exact_row", values=values, fraction=odds.fraction(chance))
        for values, chance in _exact(asked, words)
    ]
    return {"question": asked.text, "rows": rows, "exact": exact}


def _exact(asked: Procedure, words: Words) -> Iterator[tuple[str, Fraction]]:
    """Yield what devices show, each once, with the exact probability."""
    if isinstance(asked.design, Kuk):
        for number, split in enumerate(asked.choice.splits, start=1):
            orders = asked.choice.draws[number - 1].orders
            for order, chance in zip(orders, split.probabilities, strict=True):
                bag = words.say("slips_bag", bag=number)
                yield f"{bag}, {words.report(order.report)}", chance
        return
    splits = dict.fromkeys([*asked.choice.splits, *([asked.birthday] if asked.birthday else [])])
    for split in splits:
        for part, chance in zip(split.parts, split.probabilities, strict=True):
            yield words.values(split.device, part), chance

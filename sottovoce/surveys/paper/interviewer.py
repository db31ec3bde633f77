"""The page of the interviewer: how to keep out of it, and what the office has to know."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from estimator.designs.kuk import Kuk
from sottovoce.surveys.paper import odds
from sottovoce.surveys.paper.instructions import kind, need
from sottovoce.surveys.paper.procedure import Procedure
from sottovoce.surveys.paper.stating import epsilon, group_of, parameters
from sottovoce.surveys.paper.words import Words


def interviewer(asked: Sequence[Procedure], words: Words) -> dict[str, Any]:
    """Return the page for all questions."""
    texts = words.texts
    needs = list(dict.fromkeys(
        thing
        for each in asked
        for sample in range(len(each.design.samples))
        if (thing := need(each, words, sample))
    ))  # fmt: skip
    kinds = {kind(each) for each in asked}
    steps = [texts["interviewer_read"]]
    if kinds != {"list"}:
        steps[0] += " " + texts["interviewer_practise"]
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
    checks |= dict.fromkeys(_bags(each, words) for each in asked if kind(each) == "kuk")
    if needs:
        checks = {texts["interviewer_device"]: None} | checks
    if checks:
        steps.append(" ".join(checks))
    steps += [texts["interviewer_never"], texts["interviewer_help"]]
    lines = any(each.each for each in asked)
    if needs:
        steps.append(texts["interviewer_each" if lines else "interviewer_once"])
    blanks = []
    if not all(each.each for each in asked):
        blanks.append(words.say("interviewer_blank", no=words.report("no")))
    if lines:
        blanks.append(texts["interviewer_blank_each"])
    steps += [
        *blanks,
        texts["interviewer_box"],
    ]
    return {"steps": steps, "facts": [_facts(each, words) for each in asked]}


def _bags(asked: Procedure, words: Words) -> str:
    """Return how many slips of which colour Kuk's two bags must hold."""
    bags = []
    for number, (split, draw) in enumerate(
        zip(asked.choice.splits, asked.choice.draws, strict=True), start=1
    ):
        first, second = map(split.device.weight, split.parts)
        one, other = (words.report(order.report) for order in draw.orders)
        bags.append(
            words.say("kuk_bag", bag=number, first=first, one=one, second=second, other=other)
        )
    return words.say("interviewer_kuk", bags=words.together(bags))


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
    splits = [(group_of(asked, words, n), split) for n, split in enumerate(asked.choice.splits)]
    if asked.birthday:
        splits.append(("", asked.birthday))
    for group, split in splits:
        for part, chance in zip(split.parts, split.probabilities, strict=True):
            values = words.values(split.device, part)
            yield f"{group}, {values}" if group else values, chance

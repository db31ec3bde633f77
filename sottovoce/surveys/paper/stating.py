"""How a question was asked, stated: its design, exact parameters, devices, epsilon, group."""

import math

from estimator.designs.base import Design
from estimator.designs.choosing import Choice
from sottovoce.surveys.paper.procedure import Procedure
from sottovoce.surveys.paper.tally import stated
from sottovoce.surveys.paper.words import Words


def parameters(design: Design) -> str:
    """Return a design's parameters in words: exact fractions."""
    return ", ".join(f"{name} = {value}" for name, value in stated(design).items())


def needs(choice: Choice, words: Words) -> list[str]:
    """Return what has to be at hand, each thing once."""
    return [*dict.fromkeys(words.of(split.device, "need") for split in choice.splits)]


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


def foot(asked: Procedure, words: Words) -> str:
    """Return the line at the foot of a page: design, parameters, epsilon."""
    finite = not math.isinf(asked.epsilon)
    own = words.decimal_of(asked.epsilon) if finite else words.texts["epsilon_none"]
    told = f"{words.texts['epsilon']}: {own}"
    return " · ".join(part for part in (asked.design.name, parameters(asked.design), told) if part)


def group_of(asked: Procedure, words: Words, sample: int) -> str:
    """Return how a sample is called on paper; nothing where there is one."""
    samples = asked.design.samples
    return words.say("group", group=sample + 1) if len(samples) > 1 else ""

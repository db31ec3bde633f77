"""One question as it is asked on paper: its text, its design, its devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from estimator.designs.base import Design, DesignError
from estimator.designs.choosing import Choice, for_design
from estimator.designs.crosswise import Crosswise
from estimator.designs.devices import BIRTHDAYS, Device
from estimator.designs.direct import Direct
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import KukDraws
from estimator.designs.splits import Split, simplest
from estimator.designs.triangular import Triangular
from estimator.designs.unrelated import UnrelatedQuestion
from estimator.designs.unrelated_unknown import UnrelatedUnknown
from estimator.designs.warner import Warner

TWO_FACTS = (Crosswise.name, Triangular.name)
TWO_QUESTIONS = (UnrelatedQuestion.name, UnrelatedUnknown.name)


@dataclass(frozen=True)
class Procedure:
    """One question, ready to be printed.

    Attributes:
        text: The question, or the sensitive statement.
        choice: The design that the devices give, and how.
        wished: The design that was asked for, where it is another.
        opposite: Warner's second statement; without it people say the opposite.
        harmless: The harmless statement or question, in somebody's own words.
        birthday: The birthdays that it is made of, if it has no words of its own.
        items: Harmless statements of item count.
        labels: How reports are said, where they are not the design's.
        each: Answers of a card on which chance decides about each line apart, by their names.
        browser_epsilon: Of the same question in a browser survey, for whom both modes are mixed.
        name: Of the question, where there are several.
    """

    text: str
    choice: Choice
    wished: Design | None = None
    opposite: str = ""
    harmless: str = ""
    birthday: Split | None = None
    items: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    each: Mapping[str, str] = field(default_factory=dict)
    browser_epsilon: float | None = None
    name: str = ""

    @property
    def design(self) -> Design:
        """What people follow."""
        return self.choice.design

    @property
    def epsilon(self) -> float:
        """Of the whole card: lines decided apart differ in two where the truth does."""
        return self.design.epsilon if not self.each else line_epsilon(self.design)


def line_epsilon(line: Design) -> float:
    """Return the epsilon of a card whose lines are asked by one yes-or-no design each.

    Two truths differ in two lines, so the worst card multiplies the worst odds of a tick where it
    is true by those of an empty line where it is not.
    """
    ticked, empty = line.evidence()["yes"], line.evidence()["no"]
    return ticked + empty


def procedure(
    design: Design,
    text: str,
    *,
    devices: Sequence[Device] | None = None,
    opposite: str = "",
    harmless: str = "",
    items: Sequence[str] = (),
) -> Procedure:
    """Prepare a question for paper.

    Args:
        design: As wished for.
        text: The question; of "crosswise", "triangular" and "warner" with its opposite, a
            statement.
        devices: Among which to choose; None: all, or birthdays where a second fact is asked for.
        opposite: Of "warner".
        harmless: Of a second question or statement; its rate is then the design's.
        items: Of "item-count": as many as the design has.

    Raises:
        DesignError: It cannot be asked so.
    """
    if not text.strip():
        raise DesignError("question must have a text")
    _check(design, opposite, harmless, items)
    if isinstance(design, UnrelatedQuestion) and not harmless:
        birthday = simplest((design.q, 1 - design.q), BIRTHDAYS)
        rate = birthday.probabilities[0]
        choice = for_design(UnrelatedQuestion(design.p, rate), devices)
        return Procedure(text, choice, _if_other(design, choice), birthday=birthday)
    if design.name in TWO_FACTS and harmless:
        return Procedure(text, Choice(design, (), ()), harmless=harmless)
    choice = for_design(design, devices)
    birthday_of_unknown = None
    if isinstance(design, UnrelatedUnknown) and not harmless:
        birthday_of_unknown = simplest((Fraction(1, 4), Fraction(3, 4)), BIRTHDAYS)
    return Procedure(
        text,
        choice,
        _if_other(design, choice),
        opposite=opposite,
        harmless=harmless,
        birthday=birthday_of_unknown,
        items=tuple(items),
    )


def _if_other(design: Design, choice: Choice) -> Design | None:
    return None if choice.design == design else design


def _check(design: Design, opposite: str, harmless: str, items: Sequence[str]) -> None:
    if isinstance(design, KukDraws | Direct):
        raise DesignError(f"there are no sheets for {design.name}")
    if opposite and not isinstance(design, Warner):
        raise DesignError(f"an opposite statement is for warner, got design {design.name}")
    if harmless and design.name not in (*TWO_FACTS, *TWO_QUESTIONS):
        raise DesignError(f"{design.name} has no harmless question")
    wanted = design.items if isinstance(design, ItemCount) else 0
    if len(items) != wanted:
        raise DesignError(f"{design.name} takes {wanted} harmless items, got {len(items)}")

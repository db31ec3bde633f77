"""What chance orders in each design, so that a device can give the orders.

A draw is one act of chance with its possible orders. Most designs have one; two samples have one
each, Kuk's design one for each truth, item count none. Given the splits of real devices, `realised`
returns the design that people then follow: not the one wished for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Literal

from estimator.designs.base import Design, DesignError
from estimator.designs.crosswise import Crosswise
from estimator.designs.forced import ForcedResponse
from estimator.designs.kuk import Kuk
from estimator.designs.lie_detector import StochasticLieDetector
from estimator.designs.mangat import Mangat
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.splits import Split
from estimator.designs.triangular import Triangular
from estimator.designs.two_coins import TwoCoins
from estimator.designs.unrelated import UnrelatedQuestion
from estimator.designs.unrelated_unknown import UnrelatedUnknown
from estimator.designs.warner import Warner

Kind = Literal["truth", "opposite", "say", "sensitive", "harmless", "holds", "fails"]


@dataclass(frozen=True)
class Order:
    """What one part of a device's values means.

    Attributes:
        kind: "truth": answer truthfully. "opposite": answer with the opposite. "say": give
            `report`, whatever is true. "sensitive", "harmless": answer this of two questions.
            "holds", "fails": the harmless statement is true, or is not.
        report: Of "say": one of the design's reports.
    """

    kind: Kind
    report: str = ""


TRUTH, OPPOSITE = Order("truth"), Order("opposite")
SENSITIVE, HARMLESS = Order("sensitive"), Order("harmless")
HOLDS, FAILS = Order("holds"), Order("fails")


@dataclass(frozen=True)
class Draw:
    """One act of chance.

    Attributes:
        orders: What may come of it.
        wanted: Their probabilities, which sum to 1 and are all above 0.
    """

    orders: tuple[Order, ...]
    wanted: tuple[Fraction, ...]


def draws(design: Design) -> tuple[Draw, ...]:
    """Return what chance does in a design; nothing of item count and the direct question.

    Raises:
        DesignError: One draw, followed by an order or the truth, cannot give such a matrix.
    """
    match design:
        case Warner(p):
            return (_draw({TRUTH: p, OPPOSITE: 1 - p}),)
        case ForcedResponse() | TwoCoins() | Mangat():
            return (_forced(*design.p_yes),)
        case StochasticLieDetector(p1, p2):
            return tuple(_forced(Fraction(1), 1 - p) for p in (p1, p2))
        case UnrelatedQuestion(p, _):
            return (_draw({SENSITIVE: p, HARMLESS: 1 - p}),)
        case UnrelatedUnknown(p1, p2):
            return tuple(_draw({SENSITIVE: p, HARMLESS: 1 - p}) for p in (p1, p2))
        case Kuk(red_if_yes, red_if_no):
            black, red = (Order("say", report) for report in design.reports())
            return tuple(_draw({red: p, black: 1 - p}) for p in (red_if_yes, red_if_no))
        case Crosswise(p) | Triangular(p):
            return (_draw({HOLDS: p, FAILS: 1 - p}),)
        case SeveralAnswers():
            return (_several(design),)
    return ()


def realised(design: Design, splits: Sequence[Split]) -> Design:
    """Return the design that these devices make of a wished one.

    Args:
        design: The wished one.
        splits: One for each of its draws, with a part for each order.
    """
    chances = [
        dict(zip(draw.orders, split.probabilities, strict=True))
        for draw, split in zip(draws(design), splits, strict=True)
    ]
    match design:
        case Warner():
            return Warner(chances[0].get(TRUTH, Fraction(0)))
        case ForcedResponse():
            return ForcedResponse(*(_say(chances[0], report) for report in ("yes", "no")))
        case TwoCoins():
            yes, no = (_say(chances[0], report) for report in ("yes", "no"))
            return TwoCoins(1 - yes - no, yes / (yes + no) if yes + no else design.second)
        case Mangat():
            return Mangat(chances[0].get(TRUTH, Fraction(0)))
        case StochasticLieDetector():
            return StochasticLieDetector(*(each.get(TRUTH, Fraction(0)) for each in chances))
        case UnrelatedQuestion(_, q):
            return UnrelatedQuestion(chances[0].get(SENSITIVE, Fraction(0)), q)
        case UnrelatedUnknown():
            return UnrelatedUnknown(*(each.get(SENSITIVE, Fraction(0)) for each in chances))
        case Kuk():
            return Kuk(*(_say(each, "red") for each in chances))
        case Crosswise():
            return Crosswise(chances[0].get(HOLDS, Fraction(0)))
        case Triangular():
            return Triangular(chances[0].get(HOLDS, Fraction(0)))
        case SeveralAnswers(answers, _, named):
            truth = chances[0].get(TRUTH, Fraction(0))
            said = [_say(chances[0], report) for report in named]
            rows = tuple(
                tuple(said[j] + truth * (i == j) for j in range(len(named)))
                for i in range(len(answers))
            )
            return SeveralAnswers(answers, rows, named)
    return design


def _draw(chances: dict[Order, Fraction]) -> Draw:
    some = {order: chance for order, chance in chances.items() if chance}
    return Draw(tuple(some), tuple(some.values()))


def _forced(holder: Fraction, other: Fraction) -> Draw:
    """Return the draw after which holders say yes with one chance and others with a lower one."""
    if holder < other:
        raise DesignError(
            f"those who have it must say yes more often than others, got {holder} and {other}"
        )
    yes, no = Order("say", "yes"), Order("say", "no")
    return _draw({yes: other, TRUTH: holder - other, no: 1 - holder})


def _several(design: SeveralAnswers) -> Draw:
    """Return the draw of a matrix in which a wrong report is as likely from every other truth."""
    matrix, reports = design.response, design.reports()
    said = [matrix[int(j == 0)][j] for j in range(len(reports))]
    truth = 1 - sum(said, Fraction(0))
    for i, row in enumerate(matrix):
        for j, chance in enumerate(row):
            if chance != said[j] + (truth if i == j else 0) or truth < 0:
                raise DesignError(
                    "one draw cannot give this matrix: every report must be as likely from "
                    "each truth that it is not, and more likely from its own by the same for all"
                )
    chances = {TRUTH: truth}
    chances |= {Order("say", name): chance for name, chance in zip(reports, said, strict=True)}
    return _draw(chances)


def _say(chances: dict[Order, Fraction], report: str) -> Fraction:
    return chances.get(Order("say", report), Fraction(0))


@dataclass(frozen=True)
class Family:
    """Designs that differ in one number only, by which their epsilon falls.

    Attributes:
        orders: Of their one draw.
        parts: Probabilities of the orders, from that number; below 0 where it is too large.
        design: The design that follows from such probabilities.
        epsilon: What counts of that design, where it is not its own epsilon.
    """

    orders: tuple[Order, ...]
    parts: Callable[[Fraction], tuple[Fraction, ...]]
    design: Callable[[Sequence[Fraction]], Design]
    epsilon: Callable[[Design], float] = attrgetter("epsilon")


def family(name: str, *, q: Fraction | None = None, answers: Sequence[str] = ()) -> Family:
    """Return the designs of one name among which an epsilon chooses.

    Args:
        name: Of the design.
        q: Of an unrelated question: the rate of its harmless one.
        answers: Of a design with several answers; each is ordered equally often.

    Raises:
        DesignError: An epsilon does not determine such a design, or it has none.
    """
    yes, no = Order("say", "yes"), Order("say", "no")
    if name == Warner.name:
        return Family((TRUTH, OPPOSITE), lambda lie: (1 - lie, lie), lambda p: Warner(p[0]))
    if name == Crosswise.name:
        return Family((HOLDS, FAILS), lambda rate: (rate, 1 - rate), lambda p: Crosswise(p[0]))
    if name in (ForcedResponse.name, TwoCoins.name):
        forced = name == ForcedResponse.name
        return Family(
            (yes, TRUTH, no),
            lambda each: (each, 1 - 2 * each, each),
            lambda p: ForcedResponse(p[0], p[2]) if forced else TwoCoins(p[1]),
        )
    if name == UnrelatedQuestion.name and q is not None:
        rate = q
        return Family(
            (SENSITIVE, HARMLESS),
            lambda other: (1 - other, other),
            lambda p: UnrelatedQuestion(p[0], rate),
        )
    if name == SeveralAnswers.name and len(answers) > 1:
        said = tuple(Order("say", answer) for answer in answers)
        return Family(
            (TRUTH, *said),
            lambda each: (1 - len(said) * each, *(each,) * len(said)),
            lambda p: SeveralAnswers.telling_truth(answers, p[0]),
        )
    raise DesignError(
        f"an epsilon does not choose a design of the name {name!r}: one of its reports proves a "
        "truth, or it takes more than one number; give its parameters"
    )

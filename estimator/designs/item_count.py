"""Item count (list experiment): how many of these statements are true of you?

One sample gets a short list of harmless statements, the other the same list and the sensitive one.
Reports are counts. share = mean(long) - mean(short), with variance s_long^2 / n_long +
s_short^2 / n_short. How much a count tells depends on how common the harmless statements are, which
nobody knows beforehand; a 0 of the long list proves no and the highest count proves yes, so epsilon
is infinite. Nobody should be asked with a list on which such counts are likely.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from estimator.designs.base import Design, DesignError, Matrix, Scores

MOST_ITEMS = 20


@dataclass(frozen=True)
class ItemCount(Design):
    """The difference of two lists' means.

    Attributes:
        items: How many harmless statements both lists have.
    """

    items: int

    name: ClassVar[str] = "item-count"
    paper: ClassVar[str] = (
        "Miller, A New Survey Technique for Studying Deviant Behavior (1984); Imai, Multivariate "
        "Regression Analysis for the Item Count Technique, JASA 106 (2011)"
    )
    samples: ClassVar[tuple[str, ...]] = ("short", "long")

    def check(self) -> None:
        if not 1 <= self.items <= MOST_ITEMS:
            raise DesignError(f"items must be in 1..{MOST_ITEMS}, got {self.items}")

    def reports(self, sample: int = 0) -> tuple[str, ...]:
        return tuple(map(str, range(self.items + 1 + sample)))

    def matrix(self, sample: int = 0) -> Matrix | None:
        return None

    @property
    def proofs(self) -> tuple[str, ...]:
        return (
            "the count '0' of the long list rules out the truth 'yes'",
            f"the count '{self.items + 1}' of the long list rules out the truth 'no'",
        )

    def scores(self, figure: str) -> Scores:
        return (
            tuple(Fraction(-count) for count in range(self.items + 1)),
            tuple(Fraction(count) for count in range(self.items + 2)),
        )

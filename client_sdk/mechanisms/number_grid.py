"""Numbers on a finite grid: rounded up or down by chance, so that their mean stays what it was.

Reports of real numbers do not exist here. The floats of textbook samplers have gaps that give the
input away (Mironov, "On Significance of the Least Significant Bits for Differential Privacy", CCS
2012); a channel between a few integers can be stated, drawn and audited exactly.
"""

from abc import abstractmethod
from fractions import Fraction

from client_sdk.mechanisms.base import POSITIONS, Mechanism, Value
from client_sdk.mechanisms.thresholds import probability
from client_sdk.randomness import Coin


class NumberGrid(Mechanism):
    """A number of a range cut into `steps` equal steps; one cell is sent.

    Attributes:
        steps: The grid's points are 0..steps.
    """

    kind = "cell"
    encodes = "number"
    domain = POSITIONS + 1
    steps: int

    @abstractmethod
    def law(self, point: int) -> list[Fraction]:
        """Return the probability of each cell for a number on a point of the grid."""

    @abstractmethod
    def scores(self) -> list[Fraction]:
        """Return for each cell the estimate of the number, in steps: unbiased for each point."""

    @abstractmethod
    def squares(self) -> list[Fraction]:
        """Return for each cell an unbiased estimate of the point's square."""

    @abstractmethod
    def noise(self, point: int) -> Fraction:
        """Return the variance of the score for a number on a point, in squared steps."""

    @property
    @abstractmethod
    def quietest(self) -> int:
        """The point with the least noise."""

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        point, rest = divmod(int(value) * self.steps, POSITIONS)
        return point + coin.bernoulli(rest * POSITIONS)

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        point, rest = divmod(int(value) * self.steps, POSITIONS)
        if not rest:
            return self.law(point)
        up = probability(rest * POSITIONS)
        pairs = zip(self.law(point), self.law(point + 1), strict=True)
        return [(1 - up) * below + up * above for below, above in pairs]

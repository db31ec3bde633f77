"""The exponential mechanism: wrong answers near the truth are likelier than those far from it.

Channel: P(y|x) proportional to exp(s u(x, y)) for a utility u; by default u(x, y) = -|x - y|.
McSherry and Talwar, "Mechanism Design via Differential Privacy" (FOCS 2007), take
s = eps/(2 Delta), Delta the most by which u(., y) changes over all possible inputs. The 2 pays for
the normaliser's change, and is too much for all but the worst utilities: four ordered categories
lose 1 where 2 was asked. So s is solved for: the loss that the integers in use have comes as close
to epsilon as it can from below. u(x, y) = 1 for x = y, else 0 is generalized randomized response.

For a histogram alone generalized randomized response is more exact; this is for answers whose use
forgives a near miss (versions, sizes, levels). An estimate inverts the whole matrix.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.hashing import sha256
from client_sdk.mechanisms.base import Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.exponential_scale import Thresholds, largest_loss, solve
from client_sdk.mechanisms.thresholds import Real, checked_epsilon, log_ratio, probability
from client_sdk.mechanisms.utility import (
    MOST_TABLE_VALUES,
    Utility,
    checked_utility,
    distance,
    readable,
    sensitivity,
)
from client_sdk.randomness import ONE, Coin

MOST_VALUES = 256
WORST_CONDITION = 1e7
"""Largest condition number (in the row-sum norm) of a channel that is inverted."""


class Exponential(Mechanism):
    """A response of the domain 0..domain-1, likelier the more useful it is.

    Args:
        thresholds: P(y|x) out of 2**64, row x; each at least 1, each row adding up to 2**64.

    Attributes:
        p_true: Here the average probability of sending the value itself.
        p_false: Here that of sending any one other value.
    """

    name = "exponential"
    kind = "cell"
    counted = False

    def __init__(self, thresholds: Thresholds) -> None:
        self.domain: int = require_domain(len(thresholds))
        for row in thresholds:
            if len(row) != self.domain or min(row) < 1 or sum(row) != ONE:
                raise ParameterError(
                    "each of the domain's rows must give every response a threshold of at least "
                    f"1, and add up to 2**64, got {row!r:.200}"
                )
        self.cells = self.domain
        self.thresholds = thresholds
        self._cuts = tuple(tuple(accumulate(row)) for row in thresholds)
        diagonal = sum(row[x] for x, row in enumerate(thresholds))
        self.p_true = probability(diagonal) / self.domain
        self.p_false = (1 - self.p_true) / (self.domain - 1)
        self._loss = largest_loss(thresholds)
        self.epsilon = log_ratio(self._loss.ratio, Fraction(1))

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("utility", "rescale")
        rescale = declared.options.get("rescale", True)
        if not isinstance(rescale, bool):
            raise OptionError("rescale", "must be true or false", rescale)
        domain = require_domain(declared.closed())
        utility = declared.options.get("utility", "distance")
        table = None if utility == "distance" else checked_utility(utility, domain)
        return cls.from_epsilon(domain, declared.once(), table, rescale=rescale)

    @classmethod
    def from_epsilon(
        cls, domain: int, epsilon: Real, utility: Utility | None = None, *, rescale: bool = True
    ) -> Self:
        """The channel with a loss of at most `epsilon`.

        Args:
            domain: Number of values, at most 256, or 64 with a utility of its own.
            epsilon: Asked loss.
            utility: u(x, y), row x; None for -|x - y|.
            rescale: Whether the scale is solved for; else it is eps/(2 Delta), which loses less
                than is asked.

        Raises:
            ParameterError: The channel would tell too little about the value to be inverted.
        """
        asked = checked_epsilon(epsilon)
        if utility is None and not 2 <= domain <= MOST_VALUES:
            raise ParameterError(f"domain must have 2 to {MOST_VALUES} values, got domain={domain}")
        utility = utility or distance(domain)
        change = sensitivity(utility)
        if change == 0:
            rule = "must differ between inputs: its rows are all the same"
            raise OptionError("utility", rule, readable(utility))
        found = solve(utility, change, asked, rescale)
        mechanism = cls(found)
        worst = _condition(found) if _is_written(utility) else _condition_of_distance(found)
        if worst > WORST_CONDITION:
            raise ParameterError(
                f"its channel cannot be inverted with so little difference between responses "
                f"(condition {worst:.1g}, at most {WORST_CONDITION:.0g}): take a larger epsilon, "
                f"fewer values than {domain}, or a utility whose rows differ more"
            )
        return mechanism

    @cached_property
    def rare_variance(self) -> float:
        """The same where all other values are held equally often, of the worst value."""
        rows = [[threshold / ONE for threshold in row] for row in self.thresholds]
        inverse = inverted(rows)
        others = self.domain - 1
        sums = [sum(column) for column in zip(*rows, strict=True)]
        values = range(self.domain)
        worst = max(
            sum((sums[y] - rows[v][y]) * inverse[y][v] * inverse[y][v] for y in values)
            for v in values
        )
        return float(worst / others)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (require_index(value, self.domain),)

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        row = self.thresholds[require_index(value, self.domain)]
        return [probability(threshold) for threshold in row]

    def sample(self, most: int) -> Sequence[Value]:
        """Return values of which two show the largest loss; further ones spread evenly."""
        spread = [int(value) for value in super().sample(max(most, 2))]
        kept = dict.fromkeys([self._loss.likely, self._loss.unlikely, *spread])
        return sorted(list(kept)[: max(most, 2)])

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.pick(self._cuts[permanent])

    def parameters(self) -> Mapping[str, int]:
        written = ",".join(str(cut) for cuts in self._cuts for cut in cuts)
        law = int.from_bytes(sha256(written.encode()).digest()[:16], "big")
        return {"domain": self.cells, "law": law}


def _is_written(utility: Utility) -> bool:
    return len(utility) <= MOST_TABLE_VALUES


def _condition(thresholds: Thresholds) -> float:
    """Return the condition number in the row-sum norm, in which a channel has the norm 1."""
    rows = [[threshold / ONE for threshold in row] for row in thresholds]
    try:
        return max(sum(map(abs, row)) for row in inverted(rows))
    except ZeroDivisionError:
        return float("inf")


def _condition_of_distance(thresholds: Thresholds) -> float:
    """Return a bound on it for u = -|x - y|, whose weights r^|x - y| have a banded inverse."""
    r = thresholds[0][1] / thresholds[0][0]
    return float((1 + r) / max(1 - r, 1e-300)) ** 2


def inverted(rows: list[list[float]]) -> list[list[float]]:
    """Return the inverse of a square matrix, by elimination with the largest pivot.

    Raises:
        ZeroDivisionError: It has none.
    """
    size = len(rows)
    both = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(rows)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(both[k][i]))
        both[i], both[pivot] = both[pivot], both[i]
        head = both[i][i]
        lead = both[i] = [number / head for number in both[i]]
        for k, row in enumerate(both):
            if k != i and row[i]:
                factor = row[i]
                both[k] = [a - factor * b for a, b in zip(row, lead, strict=True)]
    return [row[size:] for row in both]

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

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.hashing import sha256
from client_sdk.mechanisms.base import Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import Real, checked_epsilon, exact, log_ratio, probability
from client_sdk.randomness import ONE, Coin

MOST_VALUES = 256
MOST_TABLE_VALUES = 64
"""Of a domain with a written utility; its channel takes a device a tenth of a second to solve."""
WORST_CONDITION = 1e7
"""Largest condition number (in the row-sum norm) of a channel that is inverted."""
_PRECISE = Context(prec=60)
_UNIT = 10**60
_SMALLEST, _LARGEST = Decimal("1e-9"), Decimal(10**9)
_STEPS = 24
_CLOSE = Decimal("1e-15")

Utility = tuple[tuple[Fraction | int, ...], ...]
"""u(x, y), row x, square."""
Thresholds = tuple[tuple[int, ...], ...]
"""P(y|x) out of 2**64, row x; each at least 1, each row adding up to 2**64."""


class Loss(NamedTuple):
    """The largest ratio of one response's probabilities, and two values that have it."""

    ratio: Fraction
    likely: int
    unlikely: int


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
            raise OptionError("utility", rule, _readable(utility))
        first = _PRECISE.divide(asked, _decimal(2 * change))
        found = solve(utility, first, asked, rescale)
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


def distance(domain: int) -> Utility:
    """Return u(x, y) = -|x - y|."""
    return tuple(tuple(-abs(x - y) for y in range(domain)) for x in range(domain))


def checked_utility(written: Any, domain: int) -> Utility:
    """Return the utility that a file writes as a list of rows.

    Raises:
        OptionError: It is no square table of numbers that fits the domain.
    """
    if domain > MOST_TABLE_VALUES:
        raise OptionError(
            "utility", f'must be "distance" above {MOST_TABLE_VALUES} values', f"{domain} values"
        )
    rows = written if isinstance(written, list) else []
    if len(rows) != domain or not all(isinstance(r, list) and len(r) == domain for r in rows):
        rule = f'must be "distance" or {domain} rows of {domain} numbers, one per response'
        raise OptionError("utility", rule, written)
    return tuple(tuple(_entry(number) for number in row) for row in rows)


def sensitivity(utility: Utility) -> Fraction:
    """Return Delta, the most by which one response's utility changes with the input."""
    return Fraction(max(max(column) - min(column) for column in zip(*utility, strict=True)))


def largest_loss(thresholds: Thresholds) -> Loss:
    """Return the exact loss of a channel as a ratio, with values that attain it."""
    worst = Loss(Fraction(1), 0, 1)
    for column in zip(*thresholds, strict=True):
        high, low = max(column), min(column)
        if high * worst.ratio.denominator > low * worst.ratio.numerator:
            worst = Loss(Fraction(high, low), column.index(high), column.index(low))
    return worst


def solve(utility: Utility, first: Decimal, epsilon: Decimal, rescale: bool) -> Thresholds:
    """Return the channel of the largest scale found whose exact loss is at most `epsilon`.

    Args:
        utility: u(x, y), row x.
        first: eps/(2 Delta): it loses at most epsilon, but for the rounding of tiny thresholds.
        epsilon: Asked loss.
        rescale: Whether to go above `first`.
    """
    # The largest of each row is taken off, so that no power overflows.
    parts = [[each - max(row) for each in row] for row in utility]
    place = {part: index for index, part in enumerate({part for row in parts for part in row})}
    places = [[place[part] for part in row] for row in parts]
    exponents = [_decimal(Fraction(part)) for part in place]

    def at(scale: Decimal) -> tuple[Thresholds, Decimal]:
        with localcontext(_PRECISE):
            weights = [int((scale * exponent).exp() * _UNIT) for exponent in exponents]
        rows = tuple(_rounded([weights[index] for index in row]) for row in places)
        loss = log_ratio(largest_loss(rows).ratio, Fraction(1))
        return rows, _PRECISE.subtract(loss, epsilon)

    low, high = first, first
    rows, over = at(first)
    if over <= 0 and not rescale:
        return rows
    best, below, above = rows, over, over
    with localcontext(_PRECISE):
        while above <= 0:
            low, below, best = high, above, rows
            high *= 2
            if high > 64 * first:
                rule = "must let responses tell inputs apart: its rows differ by constants only"
                raise OptionError("utility", rule, _readable(utility))
            rows, above = at(high)
        while below > 0:
            high, above = low, below
            low /= 2
            best, below = at(low)
        return _between(at, (low, below), (high, above), best)


def _between(
    at: Callable[[Decimal], tuple[Thresholds, Decimal]],
    lower: tuple[Decimal, Decimal],
    upper: tuple[Decimal, Decimal],
    best: Thresholds,
) -> Thresholds:
    """Close in on the scale of no excess: false position, bisection where that is slow."""
    (low, below), (high, above) = lower, upper
    for step in range(_STEPS):
        if -below < _CLOSE:
            break
        # Aimed a little below, so that the lower end moves too.
        part = below / (below - above) if step % 3 else Decimal("0.5")
        middle = low + (high - low) * part - (_CLOSE / 4 * high if step % 3 == 2 else 0)
        if not low < middle < high:
            middle = (low + high) / 2
        rows, over = at(middle)
        if over <= 0:
            low, below, best = middle, over, rows
        else:
            high, above = middle, over
    return best


def _rounded(weights: list[int]) -> tuple[int, ...]:
    """Return thresholds in proportion to weights: all rounded up, the largest takes the rest."""
    total = sum(weights)
    row = [max(1, -(-weight * ONE // total)) for weight in weights]
    row[weights.index(max(weights))] -= sum(row) - ONE
    return tuple(row)


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


def _entry(number: Any) -> Fraction:
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise OptionError("utility", "must hold numbers only", number)
    size = Decimal(number).copy_abs()
    # Exact arithmetic on 1e999999 would not end.
    if not (size.is_finite() and (size == 0 or _SMALLEST <= size <= _LARGEST)):
        raise OptionError("utility", "must hold 0 or numbers of size 1e-9 to 1e9", number)
    return exact(number)


def _readable(utility: Utility) -> list[list[float]]:
    return [[float(number) for number in row] for row in utility]


def _decimal(part: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(part.numerator), Decimal(part.denominator))

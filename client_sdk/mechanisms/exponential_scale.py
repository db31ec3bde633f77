"""The scale of an exponential channel: solved for, so that the integers in use lose epsilon.

P(y|x) is proportional to exp(s u(x, y)). The loss of the rounded thresholds is exact at each s; it
rises with s, and the largest s is looked for at which it is no more than was asked.
"""

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

from client_sdk.errors import OptionError
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.mechanisms.utility import Utility, readable
from client_sdk.randomness import ONE

_PRECISE = Context(prec=60)
_UNIT = 10**60
_STEPS = 24
_CLOSE = Decimal("1e-15")

Thresholds = tuple[tuple[int, ...], ...]
"""P(y|x) out of 2**64, row x; each at least 1, each row adding up to 2**64."""


class Loss(NamedTuple):
    """The largest ratio of one response's probabilities, and two values that have it."""

    ratio: Fraction
    likely: int
    unlikely: int


def largest_loss(thresholds: Thresholds) -> Loss:
    """Return the exact loss of a channel as a ratio, with values that attain it."""
    worst = Loss(Fraction(1), 0, 1)
    for column in zip(*thresholds, strict=True):
        high, low = max(column), min(column)
        if high * worst.ratio.denominator > low * worst.ratio.numerator:
            worst = Loss(Fraction(high, low), column.index(high), column.index(low))
    return worst


def solve(utility: Utility, change: Fraction, epsilon: Decimal, rescale: bool) -> Thresholds:
    """Return the channel of the largest scale found whose exact loss is at most `epsilon`.

    Args:
        utility: u(x, y), row x.
        change: Delta, positive.
        epsilon: Asked loss.
        rescale: Whether to go above eps/(2 Delta).
    """
    # It loses at most epsilon, but for the rounding of tiny thresholds.
    first = _PRECISE.divide(epsilon, _decimal(2 * change))
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
                raise OptionError("utility", rule, readable(utility))
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


def _decimal(part: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(part.numerator), Decimal(part.denominator))

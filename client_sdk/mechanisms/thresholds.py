"""From epsilon or a probability to integer thresholds, and back to the exact epsilon.

Rounding always goes towards less information: the high probability down, the low one up. So
the loss computed from the integers never exceeds the configured one (rounding to nearest
may: epsilon 1 at 16 bits gives 1.0000268).
"""

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from client_sdk.errors import ParameterError
from client_sdk.randomness import ONE

_DIGITS = 60
# Contexts of our own everywhere: the host app may have set the thread's to three digits.
_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_UP = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_MILLION = Decimal(1_000_000)
INFINITE = Decimal("Infinity")

Real = int | float | str | Decimal | Fraction
"""A number as a caller may write it; floats mean what they print as (0.1 is one tenth)."""


def exact(number: Real) -> Fraction:
    """Return the number a person meant: 0.1 becomes 1/10, not the nearest binary double.

    Raises:
        ParameterError: It is no finite number.
    """
    try:
        return Fraction(str(number)) if isinstance(number, float) else Fraction(number)
    except (ValueError, OverflowError) as error:
        raise ParameterError(f"need a finite number, got {number}") from error


def checked_epsilon(epsilon: Real) -> Decimal:
    """Return epsilon as a Decimal of 60 digits in (0, 40], else raise ParameterError."""
    value = _decimal(exact(epsilon))
    if value <= 0:
        raise ParameterError(f"epsilon must be positive, got epsilon={epsilon}")
    if value > 40:
        raise ParameterError(f"epsilon above 40 protects nobody, got epsilon={epsilon}")
    return value


def checked_probability(name: str, probability: Real) -> Fraction:
    """Return a probability in [0, 1], else raise ParameterError."""
    value = exact(probability)
    if not 0 <= value <= 1:
        raise ParameterError(f"{name} must lie in [0, 1], got {name}={probability}")
    return value


def floor_threshold(probability: Fraction | Decimal) -> int:
    """Return the largest threshold whose probability does not exceed `probability`."""
    return int((Fraction(probability) * ONE).__floor__())


def ceil_threshold(probability: Fraction | Decimal) -> int:
    """Return the smallest threshold whose probability is at least `probability`."""
    return int((Fraction(probability) * ONE).__ceil__())


def part(epsilon: Decimal, count: int) -> Decimal:
    """Return epsilon / count to 60 digits, rounded down."""
    return _DOWN.divide(epsilon, Decimal(count))


def multiple(epsilon: Decimal, count: int) -> Decimal:
    """Return count * epsilon to 60 digits, rounded up."""
    return _UP.multiply(epsilon, Decimal(count))


def added(epsilons: Iterable[Decimal]) -> Decimal:
    """Return the sum to 60 digits, rounded up."""
    total = Decimal(0)
    for epsilon in epsilons:
        total = _UP.add(total, epsilon)
    return total


def exponential(exponent: Decimal) -> Decimal:
    """Return e**exponent to 60 digits."""
    return exponent.exp(Context(prec=_DIGITS))


def logistic(exponent: Decimal) -> Decimal:
    """Return e**x / (1 + e**x) to 60 digits: the keep-probability of symmetric response."""
    with localcontext(Context(prec=_DIGITS)):
        power = exponential(exponent)
        return power / (1 + power)


def log_ratio(numerator: Fraction, denominator: Fraction) -> Decimal:
    """Return ln(numerator / denominator) to 60 digits; infinite when the denominator is 0."""
    if denominator == 0:
        return INFINITE
    with localcontext(Context(prec=_DIGITS)):
        ratio = Fraction(numerator) / Fraction(denominator)
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def micro(epsilon: Decimal, times: int = 1) -> int:
    """Return `times` epsilon in millionths, rounded up: what a ledger is charged."""
    return int(_UP.multiply(epsilon, times * _MILLION).to_integral_value(ROUND_CEILING))


def written_up(epsilon: Decimal) -> str:
    """Return epsilon rounded up to a millionth: a figure that covers it when written down."""
    return f"{epsilon}" if epsilon.is_infinite() else f"{micro(epsilon) / 1e6:.6f}"


def budget_micro(epsilon: Decimal) -> int:
    """Return epsilon in millionths, rounded down: what a cap allows."""
    return int(_DOWN.multiply(epsilon, _MILLION).to_integral_value(ROUND_FLOOR))


def probability(threshold: int) -> Fraction:
    """Return the probability that a threshold stands for."""
    return Fraction(threshold, ONE)


def _decimal(value: Fraction) -> Decimal:
    with localcontext(Context(prec=_DIGITS)):
        return Decimal(value.numerator) / Decimal(value.denominator)

"""What one report can tell: the law of its loss for the two values that it tells apart best.

The loss of a report y is ln P(y|v)/P(y|v'). Of many mechanisms it takes three values, +epsilon, 0
and -epsilon, whichever two values are compared: y speaks for the one, for the other, or for both
alike. Such a law is fixed by epsilon and by how much likelier y speaks for v than for v' when v is
the truth. Randomized response never says 0. It is the worst of all mechanisms of its epsilon: each
can be made from its answer alone, without looking at the value (Kairouz, Oh, Viswanath, "The
Composition Theorem for Differential Privacy", 2015, section 6), so it stands for those whose law
is not of this form.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism
from client_sdk.mechanisms.thresholds import (
    Real,
    added,
    checked_epsilon,
    exponential,
    micro,
    multiple,
)

DELTA = 1e-6
"""What figures are shown at: well below one in the number of devices, of which one may be unlucky
(it is named with each figure)."""

LEAST_DELTA = 1e-30

_THREE_POINTS = frozenset(
    {
        "randomized_response",
        "generalized_randomized_response",
        "symmetric_unary",
        "optimized_unary",
        "subset_selection",
        "optimized_local_hashing",
        "binary_local_hashing",
        "hadamard_response",
        "count_mean_sketch",
    }
)
"""Mechanisms whose loss is +epsilon, 0 or -epsilon, alike for all values that share no cell."""


@dataclass(frozen=True)
class Law:
    """The loss of one report: +epsilon, 0 or -epsilon.

    Attributes:
        epsilon: Its size, exact to 60 digits.
        gain: Probability of +epsilon; that of -epsilon is e**epsilon times smaller.
    """

    epsilon: Decimal
    gain: Fraction

    @cached_property
    def minus(self) -> Fraction:
        """Probability of -epsilon."""
        return self.gain / Fraction(exponential(self.epsilon))

    @cached_property
    def zero(self) -> Fraction:
        """Probability of a loss of 0; none for randomized response, but for its last digits."""
        return max(Fraction(0), 1 - self.gain - self.minus)

    @cached_property
    def size(self) -> float:
        """Epsilon as a float."""
        return float(self.epsilon)

    @cached_property
    def chances(self) -> tuple[float, float, float]:
        """Probabilities of +epsilon, 0 and -epsilon as floats."""
        return float(self.gain), float(self.zero), float(self.minus)


class Fresh(NamedTuple):
    """Reports of one law, each with noise of its own."""

    law: Law
    reports: int


def worst_law(epsilon: Real) -> Law:
    """Return the law of randomized response, the worst of all mechanisms with this epsilon.

    Raises:
        ParameterError: epsilon does not lie in (0, 40].
    """
    exact = checked_epsilon(epsilon)
    power = Fraction(exponential(exact))
    return Law(exact, power / (1 + power))


def law_of(mechanism: Mechanism) -> Law:
    """Return the exact law of a mechanism's report, or the worst one of its epsilon.

    With the probabilities s and o that a report speaks for the truth and for another value, a
    report of v speaks for v alone with s - (both) and for v' alone with o - (both). These differ by
    s - o and are in the ratio e**epsilon, which gives both. For generalized randomized response,
    unary encodings, subsets and hashed cells alike (reference 11). Strings are compared that share
    no cell under any hash function: those that do lose less. A yes/no answer that is kept more
    often for one truth than for the other is such a report of which two of the three losses are
    not told apart, so it loses no more.

    Raises:
        ParameterError: The mechanism remembers its noise, so its reports have no law each.
    """
    if mechanism.memoizes:
        raise ParameterError(
            f"reports with fresh noise compose, those of {mechanism.name} share theirs: see "
            "client_sdk.accounting.Remembered"
        )
    if mechanism.name not in _THREE_POINTS:
        return worst_law(mechanism.epsilon)
    if mechanism.kind == "bits":
        apart = mechanism.p_true - mechanism.p_false
    else:
        apart = mechanism.support_true - mechanism.support_false
    inverse = 1 / Fraction(exponential(mechanism.epsilon))
    return Law(mechanism.epsilon, abs(apart) / (1 - inverse))


def merged(fresh: Iterable[tuple[Mechanism | Law | Real, int]]) -> tuple[Fresh, ...]:
    """Return one group for each law; of a bare epsilon the worst law is taken.

    Raises:
        ParameterError: A number of reports is negative, a mechanism remembers its noise, or an
            epsilon is out of range.
    """
    counts: dict[Law, int] = {}
    for source, reports in fresh:
        if reports < 0:
            raise ParameterError(f"reports must be at least 0, got reports={reports}")
        if isinstance(source, Law):
            law = source
        else:
            law = law_of(source) if isinstance(source, Mechanism) else worst_law(source)
        counts[law] = counts.get(law, 0) + reports
    return tuple(Fresh(law, reports) for law, reports in counts.items() if reports)


def checked_delta(delta: float) -> float:
    """Return delta if it is a probability that a bound may fail with, else raise ParameterError."""
    if not LEAST_DELTA <= delta < 1:
        raise ParameterError(f"delta must lie in [{LEAST_DELTA:g}, 1), got delta={delta}")
    return delta


def enforced(fresh: Iterable[Fresh]) -> int:
    """Return the plain sum in micro-epsilon, each report rounded up: what a ledger is charged."""
    return sum(micro(law.epsilon) * reports for law, reports in fresh)


def plain_sum(fresh: Iterable[Fresh]) -> float:
    """Return the sum of epsilons: basic composition, with delta 0."""
    return float(added(multiple(law.epsilon, reports) for law, reports in fresh))

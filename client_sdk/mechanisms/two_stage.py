"""Noise in two stages: what is solved, and what many reports of one value lose together.

A value's permanent response holds noise and is kept; each report adds fresh noise to it. The first
stage alone loses epsilon_permanent, which endlessly many reports approach; both stages in a row
lose epsilon. The first is solved from the one, then the second from the other and from the
thresholds that the first really has, so that rounding is never added up.

    one bit         p* = p1 p2 + (1-p1) q2        q* = q1 p2 + (1-q1) q2
    one of d cells  p* = p1 p2 + (d-1) q1 q2      q* = q1 p2 + p1 q2 + (d-2) q1 q2

Arcolezi, Couchot, Al Bouna, Xiao, "Improving the Utility of Locally Differentially Private
Protocols for Longitudinal and Multidimensional Frequency Estimates" (Digital Communications and
Networks 2022). Their closed form of p2 for one of d cells leaves (d-2) q1 q2 out, which spends
less than is allowed for d > 2 (asked 2, d = 100: 1.254); here the whole chain is solved.
"""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    exponential,
    floor_threshold,
    probability,
)
from client_sdk.randomness import ONE

_MOST_STEPS = 8


class BitStages(NamedTuple):
    """Probabilities of a one, of one bit through both stages.

    Attributes:
        set: Of the permanent bit, where the value's bit is 1.
        unset: Of the permanent bit, where it is 0.
        high: Of the report's bit, where the permanent one is 1.
        low: Of the report's bit, where it is 0.
    """

    set: Fraction
    unset: Fraction
    high: Fraction
    low: Fraction

    @property
    def p_true(self) -> Fraction:
        """P(the report's bit is 1 | the value's bit is 1)."""
        return self.set * self.high + (1 - self.set) * self.low

    @property
    def p_false(self) -> Fraction:
        """P(the report's bit is 1 | the value's bit is 0)."""
        return self.unset * self.high + (1 - self.unset) * self.low

    def ratio_of(self, reports: int) -> tuple[Fraction, Fraction]:
        """Return the largest ratio of probabilities, of so many reports under two values.

        Numerator and denominator, for one bit that only the one value sets and one that only the
        other sets. All reports share the permanent bits; the ratio is largest where all of them
        have the first bit and none has the second (reference 10.3).
        """
        ones, zeros = self.high**reports, (1 - self.high) ** reports
        low_ones, low_zeros = self.low**reports, (1 - self.low) ** reports
        first = self.set * ones + (1 - self.set) * low_ones
        without_first = self.unset * ones + (1 - self.unset) * low_ones
        second = self.unset * zeros + (1 - self.unset) * low_zeros
        without_second = self.set * zeros + (1 - self.set) * low_zeros
        return first * second, without_first * without_second


class CellStages(NamedTuple):
    """One of `cells` through two stages, each of which keeps its input or sends another one.

    Attributes:
        cells: At least 2.
        keep: Probability that the first stage keeps the value.
        keep_again: Probability that the second stage keeps the permanent response.
    """

    cells: int
    keep: Fraction
    keep_again: Fraction

    @classmethod
    def solved(cls, cells: int, epsilon: Decimal, epsilon_permanent: Decimal) -> tuple[int, int]:
        """Return both thresholds of keeping, so that neither loss is exceeded.

        The chain is again a response of this kind, so it has to keep the value with
        p* = e^eps / (e^eps + cells - 1); then p2 = (p* - q1) / (p1 - q1).

        Raises:
            ParameterError: A loss is too small for thresholds of 64 bits.
        """
        keep = floor_threshold(_kept(cells, epsilon_permanent))
        p1 = probability(keep)
        q1 = (1 - p1) / (cells - 1)
        if p1 <= q1:
            raise ParameterError(f"epsilon_permanent is too small, got {epsilon_permanent}")

        def ratio(threshold: int) -> tuple[Fraction, Fraction]:
            chain = cls(cells, p1, probability(threshold))
            return chain.p_true, chain.p_false

        start = floor_threshold((_kept(cells, epsilon) - q1) / (p1 - q1))
        again = stepped_down(start, ratio, epsilon, floor_threshold(Fraction(1, cells)))
        return keep, again

    @property
    def leave(self) -> Fraction:
        """Probability that the first stage makes it a certain other one."""
        return (1 - self.keep) / (self.cells - 1)

    @property
    def leave_again(self) -> Fraction:
        """The same of the second stage."""
        return (1 - self.keep_again) / (self.cells - 1)

    @property
    def p_true(self) -> Fraction:
        """P(the report is the value)."""
        return self.keep * self.keep_again + (1 - self.keep) * self.leave_again

    @property
    def p_false(self) -> Fraction:
        """P(the report is a certain other value)."""
        return (1 - self.p_true) / (self.cells - 1)

    def ratio_of(self, reports: int) -> tuple[Fraction, Fraction]:
        """Return the largest ratio of probabilities, of so many reports under two values.

        It is largest where all reports are the one value (reference 10.3).
        """
        ones, others = self.keep_again**reports, self.leave_again**reports
        return (
            self.keep * ones + (1 - self.keep) * others,
            self.leave * ones + (1 - self.leave) * others,
        )


def both_epsilons(declared: Declared) -> tuple[Decimal, Decimal]:
    """Return epsilon of one report and of all reports of one value.

    Raises:
        ParameterError: One is missing, or the first is not below the second.
    """
    if declared.epsilon is None or declared.epsilon_permanent is None:
        raise ParameterError("give epsilon and epsilon_permanent")
    return checked_epsilons(declared.epsilon, declared.epsilon_permanent)


def checked_epsilons(epsilon: Real, epsilon_permanent: Real) -> tuple[Decimal, Decimal]:
    """Return both as Decimals, the first below the second, else raise ParameterError."""
    one, permanent = checked_epsilon(epsilon), checked_epsilon(epsilon_permanent)
    if one >= permanent:
        rule = f"must be above epsilon of one report, {epsilon}"
        raise OptionError("epsilon_permanent", rule, epsilon_permanent)
    return one, permanent


def stepped_down(
    threshold: int,
    ratio: Callable[[int], tuple[Fraction, Fraction]],
    epsilon: Decimal,
    chance: int,
) -> int:
    """Return the first threshold from `threshold` down whose loss is at most `epsilon`.

    Args:
        threshold: Solved, so at most a rounding too large: a few steps must do.
        ratio: From a threshold to the ratio whose logarithm is the loss.
        epsilon: The most that may be lost.
        chance: The threshold at which nothing is told.

    Raises:
        ParameterError: None of them above `chance` loses so little.
    """
    power = Fraction(exponential(epsilon))
    start = min(threshold, ONE - 1)
    for fitting in range(start, max(chance, start - _MOST_STEPS), -1):
        numerator, denominator = ratio(fitting)
        if numerator <= power * denominator:
            return fitting
    raise ParameterError(f"epsilon is too small beside epsilon_permanent, got epsilon={epsilon:f}")


def _kept(cells: int, epsilon: Decimal) -> Fraction:
    power = Fraction(exponential(epsilon))
    return power / (power + cells - 1)

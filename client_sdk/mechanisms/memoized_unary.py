"""Unary encodings with memory: noisy bits are kept, and each report adds noise to them.

The first stage is a unary encoding at epsilon_permanent (P(1|1) = p1, P(1|0) = q1), the second
keeps each remembered bit with p2 and flips it otherwise, q2 = 1 - p2. A report's own bit is then 1
with p* = p1 p2 + (1-p1) q2 and any other with q* = q1 p2 + (1-q1) q2; two values differ in two
bits, so epsilon = ln[p*(1-q*) / ((1-p*) q*)].

    symmetric (L-SUE)   p1 = 1 - q1    p2 = (ps+p1-1)/(2p1-1), ps = e^{eps/2}/(1 + e^{eps/2})
    optimized (L-OSUE)  p1 = 1/2       p2 = (1-q1-qs)/(1-2q1), qs = 1/(1 + e^eps);  p* = 1/2

Arcolezi et al. (2022), see `two_stage`. With a symmetric first stage N reports of one value lose
at most N epsilon; `epsilon_of` says what they lose exactly, and never more than
epsilon_permanent. When the value changes all remembered bits are other ones: `d` of them tell.
"""

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    exponential,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.mechanisms.two_stage import (
    BitStages,
    both_epsilons,
    checked_epsilons,
    stepped_down,
)
from client_sdk.randomness import ONE, Coin


class MemoizedUnary(Mechanism):
    """One-hot bits through two binary channels in a row, on the domain 0..domain-1.

    Args:
        domain: Number of values, at least 2.
        one_if_set: Threshold of p1, P(permanent bit 1 | the value's own), in (0, 2**64).
        one_if_unset: Threshold of q1, P(permanent bit 1 | another's), in (0, one_if_set).
        keep: Threshold of p2, P(a report has the permanent bit), in (2**63, 2**64).
    """

    kind = "bits"
    memoizes = True

    def __init__(self, domain: int, one_if_set: int, one_if_unset: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        if not 0 < one_if_unset < one_if_set < ONE or not ONE < 2 * keep < 2 * ONE:
            raise ParameterError(
                "probabilities must satisfy 0 < q1 < p1 < 1 and 1/2 < p2 < 1, got "
                f"q1={float(probability(one_if_unset))}, p1={float(probability(one_if_set))}, "
                f"p2={float(probability(keep))}"
            )
        self.cells = domain
        self.one_if_set = one_if_set
        self.one_if_unset = one_if_unset
        self.keep = keep
        self.stages = _stages(one_if_set, one_if_unset, keep)
        self.p_true, self.p_false = self.stages.p_true, self.stages.p_false
        self.epsilon = self.epsilon_of(1)
        set_, unset = self.stages.set, self.stages.unset
        self.epsilon_permanent = log_ratio(set_ * (1 - unset), (1 - set_) * unset)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only()
        return cls.from_epsilons(declared.closed(), *both_epsilons(declared))

    @classmethod
    def from_epsilons(cls, domain: int, epsilon: Real, epsilon_permanent: Real) -> Self:
        """The channel with a loss of at most `epsilon` once and `epsilon_permanent` for ever.

        Raises:
            ParameterError: epsilon is not below epsilon_permanent.
        """
        one, permanent = checked_epsilons(epsilon, epsilon_permanent)
        if_set, if_unset = cls._first_stage(permanent)
        if if_set <= if_unset:
            raise ParameterError(f"epsilon_permanent is too small, got {epsilon_permanent}")
        start = floor_threshold(cls._second_stage(probability(if_set), probability(if_unset), one))

        def ratio(keep: int) -> tuple[Fraction, Fraction]:
            return _stages(if_set, if_unset, keep).ratio_of(1)

        return cls(domain, if_set, if_unset, stepped_down(start, ratio, one, ONE // 2))

    @classmethod
    @abstractmethod
    def _first_stage(cls, epsilon_permanent: Decimal) -> tuple[int, int]:
        """Return the thresholds of p1 and q1."""

    @classmethod
    @abstractmethod
    def _second_stage(cls, p1: Fraction, q1: Fraction, epsilon: Decimal) -> Fraction:
        """Return p2, before rounding."""

    @property
    def epsilon_instantaneous(self) -> Decimal:
        # Two remembered responses can differ in every bit.
        high, low = self.stages.high, self.stages.low
        return log_ratio(high**self.cells, low**self.cells)

    def epsilon_of(self, reports: int) -> Decimal:
        return log_ratio(*self.stages.ratio_of(reports))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (int(value),)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        encoded = super().permanent(value, cohort, coin)
        return coin.flip_bits(encoded, self.cells, self.one_if_set, self.one_if_unset)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.keep, ONE - self.keep)

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.cells,
            "one_if_set": self.one_if_set,
            "one_if_unset": self.one_if_unset,
            "keep": self.keep,
        }


class MemoizedSymmetricUnary(MemoizedUnary):
    """Both stages symmetric (L-SUE): the channel of basic RAPPOR, one bit for each value."""

    name = "memoized_symmetric_unary"

    @classmethod
    def _first_stage(cls, epsilon_permanent: Decimal) -> tuple[int, int]:
        kept = floor_threshold(logistic(part(epsilon_permanent, 2)))
        return kept, ONE - kept

    @classmethod
    def _second_stage(cls, p1: Fraction, q1: Fraction, epsilon: Decimal) -> Fraction:
        return (Fraction(logistic(part(epsilon, 2))) - q1) / (p1 - q1)


class MemoizedOptimizedUnary(MemoizedUnary):
    """The first stage optimized, the second symmetric (L-OSUE): least variance of rare values."""

    name = "memoized_optimized_unary"

    @classmethod
    def _first_stage(cls, epsilon_permanent: Decimal) -> tuple[int, int]:
        power = Fraction(exponential(epsilon_permanent))
        return ONE // 2, ceil_threshold(1 / (1 + power))

    @classmethod
    def _second_stage(cls, p1: Fraction, q1: Fraction, epsilon: Decimal) -> Fraction:
        least = 1 / (1 + Fraction(exponential(epsilon)))
        return (1 - q1 - least) / (1 - 2 * q1)


def _stages(one_if_set: int, one_if_unset: int, keep: int) -> BitStages:
    high = probability(keep)
    return BitStages(probability(one_if_set), probability(one_if_unset), high, 1 - high)

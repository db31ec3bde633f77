"""Unary encodings: one bit per value, each perturbed independently.

Channel: the value's own bit is 1 with probability p, every other with q; two values differ in
two bits, so epsilon = ln[p(1-q) / ((1-p)q)].
Symmetric: p = 1 - q = e^{eps/2}/(1 + e^{eps/2}); optimized: p = 1/2, q = 1/(1 + e^eps), which
minimises q(1-q)/(p-q)^2. Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for
Frequency Estimation" (USENIX Security 2017), sections 4.1 and 4.2.
"""

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    checked_epsilon,
    checked_probability,
    exponential,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.randomness import ONE, Coin


class UnaryEncoding(Mechanism):
    """One-hot bits through binary channels, on the domain 0..domain-1.

    Args:
        domain: Number of values, at least 2.
        one_if_one: Threshold of P(1|1), in (0, 2**64).
        one_if_zero: Threshold of P(1|0), in (0, one_if_one).
    """

    kind = "bits"

    def __init__(self, domain: int, one_if_one: int, one_if_zero: int) -> None:
        self.domain: int = require_domain(domain)
        if not 0 < one_if_zero < one_if_one < ONE:
            raise ParameterError(
                "probabilities must satisfy 0 < p_false < p_true < 1, got "
                f"p_true={float(probability(one_if_one))}, "
                f"p_false={float(probability(one_if_zero))}"
            )
        self.cells = domain
        self.one_if_one = one_if_one
        self.one_if_zero = one_if_zero
        self.p_true = p = probability(one_if_one)
        self.p_false = q = probability(one_if_zero)
        self.epsilon = log_ratio(p * (1 - q), (1 - p) * q)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("p_true", "p_false")
        written = declared.probabilities()
        if written:
            return cls.from_probabilities(declared.closed(), *written)
        return cls.from_epsilon(declared.closed(), declared.once())

    @classmethod
    @abstractmethod
    def from_epsilon(cls, domain: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`."""

    @classmethod
    def from_probabilities(cls, domain: int, p_true: Real, p_false: Real) -> Self:
        """Any pair with p_false < p_true."""
        p = checked_probability("p_true", p_true)
        q = checked_probability("p_false", p_false)
        return cls(domain, floor_threshold(p), ceil_threshold(q))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (int(value),)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return 1 << int(value)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.one_if_one, self.one_if_zero)

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.cells,
            "one_if_one": self.one_if_one,
            "one_if_zero": self.one_if_zero,
        }


class SymmetricUnary(UnaryEncoding):
    """Unary encoding with p + q = 1; its noise does not depend on the shares."""

    name = "symmetric_unary"

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`."""
        kept = floor_threshold(logistic(part(checked_epsilon(epsilon), 2)))
        return cls(domain, kept, ONE - kept)


class OptimizedUnary(UnaryEncoding):
    """Unary encoding with p = 1/2: least variance for rare values."""

    name = "optimized_unary"

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`."""
        power = Fraction(exponential(checked_epsilon(epsilon)))
        return cls(domain, ONE // 2, ceil_threshold(1 / (1 + power)))

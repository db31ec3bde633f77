"""Generalized (k-ary) randomized response: keep the value, or send another one.

Channel: P(y|v) = p for y = v and (1-p)/(d-1) for each other y, with p = e^eps/(e^eps + d - 1).
Kairouz, Bonawitz, Ramage, "Discrete Distribution Estimation under Local Privacy" (ICML 2016).
The other value is drawn from the d-1 *others*; the variant that redraws from all d has the same
channel with another parameter. Least variance among the common oracles while d < 3 e^eps + 2.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    checked_probability,
    exact,
    exponential,
    floor_threshold,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin


class GeneralizedRandomizedResponse(Mechanism):
    """k-ary randomized response on the domain 0..domain-1.

    Args:
        domain: Number of values, at least 2.
        keep: Threshold of sending the true value, in (0, 2**64), above chance level.
    """

    name = "generalized_randomized_response"
    kind = "cell"

    def __init__(self, domain: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        if not ONE < keep * domain < ONE * domain:
            raise ParameterError(
                f"p_true must lie between 1/domain = 1/{domain} and 1, "
                f"got p_true={float(probability(keep))}"
            )
        self.cells = domain
        self.keep = keep
        self.p_true = probability(keep)
        self.p_false = (1 - self.p_true) / (domain - 1)
        self.epsilon = log_ratio(self.p_true, self.p_false)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("p_true", "p_false")
        written = declared.probabilities()
        if written:
            return cls.from_probabilities(declared.closed(), *written)
        return cls.from_epsilon(declared.closed(), declared.once())

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`."""
        power = exponential(checked_epsilon(epsilon))
        keep = Fraction(power) / (Fraction(power) + require_domain(domain) - 1)
        return cls(domain, floor_threshold(keep))

    @classmethod
    def from_probabilities(cls, domain: int, p_true: Real, p_false: Real) -> Self:
        """The channel that keeps with `p_true`; `p_false` must be (1 - p_true)/(domain - 1)."""
        p = checked_probability("p_true", p_true)
        implied = (1 - p) / (require_domain(domain) - 1)
        if abs(implied - exact(p_false)) > Fraction(Decimal("1e-6")):
            raise ParameterError(
                f"p_false must be (1 - p_true)/(domain - 1) = {float(implied)}, "
                f"got p_false={p_false}"
            )
        return cls(domain, floor_threshold(p))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (int(value),)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return int(value)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        # Both draws are made whatever the first one says, so that both paths do the same work.
        keep = coin.bernoulli(self.keep)
        shift = 1 + coin.uniform(self.cells - 1)
        return permanent if keep else (permanent + shift) % self.cells

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.cells, "keep": self.keep}

"""Hadamard response in its one-bit form: one noisy entry of the value's row of signs.

H is the Sylvester matrix of order K, the least power of two above the domain: H[r, l] is +1 if r
and l have an even number of ones in common, else -1. Value v has row v + 1 (row 0 is constant and
says nothing). The device draws a column l uniformly, whatever the value, and sends l with the sign
of H[v + 1, l], kept with probability p = e^eps/(1 + e^eps), else turned. A report speaks for the
values whose rows have that sign there; two rows agree in exactly half of the columns, so another
value is supported with probability exactly 1/2. Acharya, Sun, Zhang, "Hadamard Response:
Estimating Distributions Privately, Efficiently, and with Little Communication" (AISTATS 2019).
For epsilon up to about 1: with more the variance tends to 1/n, since a report stays one bit.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import MOST_CELLS, Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    floor_threshold,
    log_ratio,
    logistic,
    probability,
)
from client_sdk.randomness import ONE, Coin

MOST_VALUES = MOST_CELLS // 2 - 1
"""Each column has two cells, and the first row is nobody's."""


class HadamardResponse(Mechanism):
    """One-bit Hadamard response on the domain 0..domain-1; response 2 * column + (sign is -1).

    Args:
        domain: Number of values, at least 2.
        keep: Threshold of sending the true sign, in (2**63, 2**64).
    """

    name = "hadamard_response"
    kind = "cell"

    def __init__(self, domain: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        if not ONE // 2 < keep < ONE:
            raise ParameterError(
                f"p_true must lie between 1/2 and 1, got p_true={float(probability(keep))}"
            )
        self.keep = keep
        self.columns = 1 << domain.bit_length()
        self.cells = 2 * self.columns
        kept = probability(keep)
        self.p_true, self.p_false = kept / self.columns, (1 - kept) / self.columns
        self.epsilon = log_ratio(kept, 1 - kept)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only()
        if declared.closed() > MOST_VALUES:
            raise ParameterError(
                f"hadamard_response has rows for {MOST_VALUES} values, got {declared.closed()}; "
                "declare fewer values, or strings"
            )
        return cls.from_epsilon(declared.closed(), declared.once())

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`."""
        return cls(domain, floor_threshold(logistic(checked_epsilon(epsilon))))

    @property
    def even_parts(self) -> int:
        return self.columns

    @property
    def support_true(self) -> Fraction:
        return probability(self.keep)

    @property
    def support_false(self) -> Fraction:
        return Fraction(1, 2)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        """Return the value itself: its row is looked at in a fresh column in every report."""
        return require_index(value, self.domain)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        column = coin.uniform(self.columns)
        keep = coin.bernoulli(self.keep)
        return 2 * column + (_sign(permanent, column) ^ (not keep))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        index = require_index(value, self.domain)
        return tuple(2 * column + _sign(index, column) for column in range(self.columns))

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.domain, "keep": self.keep}


def _sign(index: int, column: int) -> int:
    """Return 1 where the entry of a value's row is -1."""
    return (index + 1 & column).bit_count() & 1

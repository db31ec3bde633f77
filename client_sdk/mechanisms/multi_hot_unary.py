"""Several options at once, one bit for each: all bits are sent, each perturbed independently.

Channel: the bit of a selected option is 1 with probability p, of any other with q. Where up to s
of d options can be selected, two selections differ in at most s bits each way and d in all, so

    epsilon = max over a, b <= s with a + b <= d of  a ln(p/q) + b ln((1-q)/(1-p))

for the whole report, not for each option (reference section 3, "sets with up to s ones"). While
2 s <= d that is s times the loss of one pair of bits, and p = 1/2 has the least variance for rare
options; above it is at most d single bits, and p = 1 - q spends the same on each.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.selections import members, require_options, selections
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    checked_epsilon,
    exponential,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.randomness import ONE, Coin


class MultiHotUnary(Mechanism):
    """Unary encoding of a set of options.

    Args:
        options: How many there are, at least 2.
        most: How many can be selected, 1 to options.
        one_if_one: Threshold of P(1|1), in (0, 2**64).
        one_if_zero: Threshold of P(1|0), in (0, one_if_one).
    """

    name = "multi_hot_unary"
    kind = "bits"
    encodes = "several"

    def __init__(self, options: int, most: int, one_if_one: int, one_if_zero: int) -> None:
        require_options(options, most)
        if not 0 < one_if_zero < one_if_one < ONE:
            raise ParameterError("probabilities must satisfy 0 < p_false < p_true < 1")
        self.cells = options
        self.domain: int = 1 << options
        self.most = most
        self.one_if_one = one_if_one
        self.one_if_zero = one_if_zero
        self.p_true = p = probability(one_if_one)
        self.p_false = q = probability(one_if_zero)
        more, less = p / q, (1 - q) / (1 - p)
        # Each way is monotone in a and b, so the loss is largest with as many as can be.
        fewer = min(most, options - most)
        worst = max(more**most * less**fewer, more**fewer * less**most)
        self.epsilon = log_ratio(worst, Fraction(1))

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("most")
        options = declared.closed()
        most = declared.integer("most", 1, options, options)
        return cls.from_epsilon(options, most, declared.once())

    @classmethod
    def from_epsilon(cls, options: int, most: int, epsilon: Real) -> Self:
        """The channel whose whole report loses at most `epsilon`."""
        require_options(options, most)
        total = checked_epsilon(epsilon)
        if 2 * most <= options:
            power = Fraction(exponential(part(total, most)))
            return cls(options, most, ONE // 2, ceil_threshold(1 / (1 + power)))
        kept = floor_threshold(logistic(part(total, options)))
        return cls(options, most, kept, ONE - kept)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return members(int(value))

    def sample(self, most: int) -> Sequence[Value]:
        return selections(self.cells, self.most, most)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return int(value)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.one_if_one, self.one_if_zero)

    def parameters(self) -> Mapping[str, int]:
        return {
            "options": self.cells,
            "most": self.most,
            "one_if_one": self.one_if_one,
            "one_if_zero": self.one_if_zero,
        }

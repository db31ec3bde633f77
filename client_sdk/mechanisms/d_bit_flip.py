"""d-bit flip: a device answers for d of the k values only, once and for all (dBitFlipPM).

Which d is its cohort's, drawn without looking at any value: of k cohorts, number c answers for the
values c, c+1, ..., c+d-1 (mod k), one bit each. A bit is 1 with p = e^{eps/2}/(1 + e^{eps/2}) where
it is the value's and with 1 - p where it is not. The bits are remembered and sent as they are.
Ding, Kulkarni, Yekhanin, "Collecting Telemetry Data Privately" (NeurIPS 2017).

Two values that are both asked for differ in two bits, so epsilon = 2 ln[p/(1-p)]. With d = 1 one
bit differs at most, so e^{eps/2} would spend only half of it; there p = e^eps/(1 + e^eps).

All reports ever of one value lose no more than one: epsilon_permanent = epsilon. Values that are
not asked for share one memory, so a device has at most min(k, d+1) of them. What is sent is
what is remembered: two different reports of a device prove that its value changed, and there is no
bound on what changes tell. A share is estimated from the cohorts that were asked for it,
about n d/k reports.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.base import MOST_BITS, MOST_COHORTS, Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    INFINITE,
    Real,
    ceil_threshold,
    checked_epsilon,
    checked_probability,
    exact,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.randomness import ONE, Coin

USUAL_BITS = 4


class DBitFlip(Mechanism):
    """dBitFlipPM on the domain 0..domain-1.

    Args:
        domain: Number of values k, 2 to 65536.
        bits: Values d that a device answers for, 1 to domain, at most 4096.
        one_if_own: Threshold of P(1|the value's bit), in (0, 2**64).
        one_if_other: Threshold of P(1|another's bit), in (0, one_if_own).
    """

    name = "d_bit_flip"
    kind = "bits"
    memoizes = True

    def __init__(self, domain: int, bits: int, one_if_own: int, one_if_other: int) -> None:
        self.domain: int = require_domain(domain)
        if domain > MOST_COHORTS:
            raise ParameterError(
                f"domain must have at most {MOST_COHORTS} values, got domain={domain}"
            )
        if not 1 <= bits <= min(domain, MOST_BITS):
            raise ParameterError(
                f"bits must lie in 1..{min(domain, MOST_BITS)}, as there are {domain} values, "
                f"got bits={bits}"
            )
        if not 0 < one_if_other < one_if_own < ONE:
            raise ParameterError(
                "probabilities must satisfy 0 < p_false < p_true < 1, got "
                f"p_true={float(probability(one_if_own))}, "
                f"p_false={float(probability(one_if_other))}"
            )
        self.cells = bits
        # Who is asked for all values needs no cohort.
        self.cohorts = domain if bits < domain else 1
        self.one_if_own = one_if_own
        self.one_if_other = one_if_other
        self.p_true = p = probability(one_if_own)
        self.p_false = q = probability(one_if_other)
        first, second = p / q, (1 - q) / (1 - p)
        both = first * second if bits > 1 else max(first, second)
        self.epsilon = self.epsilon_permanent = log_ratio(both, Fraction(1))

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("bits", "p_true", "p_false")
        domain = declared.closed()
        bits = declared.integer("bits", 1, MOST_BITS, min(domain, USUAL_BITS))
        written = declared.probabilities()
        if written:
            return cls.from_probabilities(domain, bits, *written)
        epsilon, permanent = declared.once(), declared.epsilon_permanent
        if permanent is not None and exact(permanent) != exact(epsilon):
            rule = f"must be equal to epsilon, {epsilon}: {cls.name} sends what it remembers"
            raise OptionError("epsilon_permanent", rule, permanent)
        return cls.from_epsilon(domain, bits, epsilon)

    @classmethod
    def from_epsilon(cls, domain: int, bits: int, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`, once and for ever."""
        differing = 2 if bits > 1 else 1
        kept = floor_threshold(logistic(part(checked_epsilon(epsilon), differing)))
        return cls(domain, bits, kept, ONE - kept)

    @classmethod
    def from_probabilities(cls, domain: int, bits: int, p_true: Real, p_false: Real) -> Self:
        """Any pair with p_false < p_true."""
        p = checked_probability("p_true", p_true)
        q = checked_probability("p_false", p_false)
        return cls(domain, bits, floor_threshold(p), ceil_threshold(q))

    @property
    def asked(self) -> Fraction:
        """The part of the cohorts that answers for a value, d/k."""
        return Fraction(self.cells, self.domain)

    @property
    def support_true(self) -> Fraction:
        return self.asked * self.p_true

    @property
    def support_false(self) -> Fraction:
        return self.asked * self.p_false

    @property
    def rare_variance(self) -> float:
        # The estimate divides by the reports of those who were asked, n d/k of them.
        p, q = self.p_true, self.p_false
        return float(q * (1 - q) / (p - q) ** 2 / self.asked)

    @property
    def epsilon_instantaneous(self) -> Decimal:
        return INFINITE

    @property
    def most_memories(self) -> int:
        return min(self.domain, self.cells + 1)

    def epsilon_of(self, reports: int) -> Decimal:
        return self.epsilon

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        place = (int(value) - cohort) % self.domain
        return (place,) if place < self.cells else ()

    def remembered_as(self, value: Value, cohort: int) -> str:
        return ",".join(map(str, self.cells_for(value, cohort)))

    def sample(self, most: int) -> Sequence[Value]:
        # Neighbours: they are asked for together, and lose most.
        return range(min(self.domain, most))

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        encoded = super().permanent(value, cohort, coin)
        return coin.flip_bits(encoded, self.cells, self.one_if_own, self.one_if_other)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return permanent

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.domain,
            "bits": self.cells,
            "one_if_own": self.one_if_own,
            "one_if_other": self.one_if_other,
        }

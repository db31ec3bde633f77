"""Binary randomized response: a yes/no answer, kept or flipped by a coin.

Channel: P(1|1) = p_true, P(1|0) = p_false. epsilon = max(ln(p/q), ln((1-q)/(1-p))).
Warner, "Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias" (JASA
1965) is p = 1 - q = e^eps / (1 + e^eps): for a given epsilon no other pair has less variance at
any share. Two fair coins are p = 3/4, q = 1/4 with epsilon = ln 3.

The response is one bit, cell 0: "yes". A "no" supports nothing.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    checked_epsilon,
    checked_probability,
    floor_threshold,
    log_ratio,
    logistic,
    probability,
)
from client_sdk.randomness import ONE, Coin


class RandomizedResponse(Mechanism):
    """Randomized response on the domain {0: no, 1: yes}.

    Args:
        yes_if_yes: Threshold of P(1|1), in (0, 2**64).
        yes_if_no: Threshold of P(1|0), in (0, 2**64), different from `yes_if_yes`.
    """

    name = "randomized_response"
    kind = "bits"
    domain = 2
    cells = 1

    def __init__(self, yes_if_yes: int, yes_if_no: int) -> None:
        if not (0 < yes_if_yes < ONE and 0 < yes_if_no < ONE) or yes_if_yes == yes_if_no:
            raise ParameterError(
                "p_true and p_false must differ and lie strictly between 0 and 1, got "
                f"p_true={float(probability(yes_if_yes))}, "
                f"p_false={float(probability(yes_if_no))}"
            )
        self.yes_if_yes = yes_if_yes
        self.yes_if_no = yes_if_no
        self.p_true = p = probability(yes_if_yes)
        self.p_false = q = probability(yes_if_no)
        yes, no = max(p / q, q / p), max((1 - q) / (1 - p), (1 - p) / (1 - q))
        self.epsilon = log_ratio(max(yes, no), Fraction(1))

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("p_true", "p_false")
        if declared.domain != 2:
            raise ParameterError(f"{cls.name} needs exactly two values, got {declared.domain}")
        written = declared.probabilities()
        return cls.from_probabilities(*written) if written else cls.from_epsilon(declared.once())

    @classmethod
    def from_epsilon(cls, epsilon: Real) -> Self:
        """Warner's symmetric design with a loss of at most `epsilon`."""
        kept = floor_threshold(logistic(checked_epsilon(epsilon)))
        return cls(kept, ONE - kept)

    @classmethod
    def from_probabilities(cls, p_true: Real, p_false: Real) -> Self:
        """Any design by P(yes|yes) and P(yes|no), for instance two coins: 3/4 and 1/4."""
        p = checked_probability("p_true", p_true)
        q = checked_probability("p_false", p_false)
        if p > q:
            return cls(floor_threshold(p), ceil_threshold(q))
        return cls(ceil_threshold(p), floor_threshold(q))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (0,) if value else ()

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return 1 if value else 0

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return int(coin.bernoulli(self.yes_if_yes if permanent else self.yes_if_no))

    def parameters(self) -> Mapping[str, int]:
        return {"yes_if_yes": self.yes_if_yes, "yes_if_no": self.yes_if_no}

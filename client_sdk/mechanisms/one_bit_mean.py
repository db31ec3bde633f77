"""One bit of a number: set the more often, the higher the number is.

Channel: P(1|x) = 1/(e^eps + 1) + x (e^eps - 1)/(e^eps + 1) for a number at the part x of its range.
Ding, Kulkarni, Yekhanin, "Collecting Telemetry Data Privately" (NeurIPS 2017), 1BitMean; after an
affine map it is the mechanism of Duchi, Jordan, Wainwright, "Minimax Optimal Procedures for
Locally Private Estimation" (JASA 2018) on one dimension. A number that lies between the ends is
rounded to one of them by chance, and that bit is randomized: both are one probability here.

The estimated mean is unbiased with a variance of at most (C/2)^2 / n squared ranges,
C = (e^eps + 1)/(e^eps - 1), whatever the numbers are. From epsilon 0.61 on `piecewise` has less
noise for numbers near the middle of the range, and more for those at its ends.

Numbers outside the range are clamped to its ends. That is a bias no estimate can remove: choose the
range so that few are.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import POSITIONS, Mechanism, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    exponential,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin

_UNIT = POSITIONS // 2  # of the threshold: then each place of the range has a whole one of its own


class OneBitMean(Mechanism):
    """One bit whose probability is exactly linear in the place of a number, 0 to POSITIONS.

    Args:
        one_if_lowest: Threshold of P(1 | lowest), a multiple of 2**31 in (0, 2**63). That of the
            highest number is what is left to 2**64.
    """

    name = "one_bit_mean"
    kind = "bits"
    encodes = "number"
    domain = POSITIONS + 1
    cells = 1

    def __init__(self, one_if_lowest: int) -> None:
        if not 0 < one_if_lowest < ONE // 2 or one_if_lowest % _UNIT:
            raise ParameterError(
                "P(1 | lowest) must be a multiple of 2**-33 between 0 and 1/2, "
                f"got {float(probability(one_if_lowest))}"
            )
        self.one_if_lowest = one_if_lowest
        self._step = (ONE - 2 * one_if_lowest) // POSITIONS
        self.p_true = probability(ONE - one_if_lowest)
        self.p_false = probability(one_if_lowest)
        self.epsilon = log_ratio(self.p_true, self.p_false)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only()
        return cls.from_epsilon(declared.once())

    @classmethod
    def from_epsilon(cls, epsilon: Real) -> Self:
        """The channel with a loss of at most `epsilon`; never more than ln(2**33), 22.87."""
        lowest = ONE / (1 + Fraction(exponential(checked_epsilon(epsilon))))
        units = -(-lowest // _UNIT)
        if 2 * units * _UNIT >= ONE:
            raise ParameterError(f"epsilon is too small to tell anything, got epsilon={epsilon}")
        return cls(units * _UNIT)

    @property
    def rare_variance(self) -> float:
        """Largest variance of the estimated mean, times n, in squared ranges."""
        return float(1 / (4 * (self.p_true - self.p_false) ** 2))

    def threshold(self, place: int) -> int:
        """Return the threshold of P(1 | place), place in [0, POSITIONS]."""
        return self.one_if_lowest + self._step * place

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (0,)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return int(value)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return int(coin.bernoulli(self.threshold(permanent)))

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        return [probability(self.threshold(int(value)))]

    def parameters(self) -> Mapping[str, int]:
        return {"one_if_lowest": self.one_if_lowest}

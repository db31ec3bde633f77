"""The one estimator of every pure frequency oracle: share = (count/n - p_false)/(p_true - p_false).

Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency Estimation"
(USENIX Security 2017), equation 2 divided by n. Unbiased, also when p_true < p_false (Warner's
question cards can have that). Nothing is clipped here: it would bias every later sum and average.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import Mechanism
from estimator.errors import NoReports

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """The two probabilities of one cell, ready to be inverted.

    Attributes:
        p_true: P(cell is supported | it is the truth).
        p_false: P(cell is supported | it is not).
        gap: p_true - p_false, signed and never 0; subtracted exactly, since for a small epsilon
            the two agree in most of their digits.
    """

    p_true: float
    p_false: float
    gap: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> Self:
        """The channel of a mechanism's cells."""
        return cls.from_probabilities(mechanism.p_true, mechanism.p_false)

    @classmethod
    def of_values(cls, mechanism: Mechanism) -> Self:
        """The channel of a mechanism's values: P(a report speaks for a value | it is, is not)."""
        return cls.from_probabilities(mechanism.support_true, mechanism.support_false)

    @classmethod
    def from_probabilities(cls, p_true: Fraction | float, p_false: Fraction | float) -> Self:
        """Any two different probabilities."""
        gap = float(Fraction(p_true) - Fraction(p_false))
        if gap == 0:
            raise ValueError(f"p_true and p_false must differ, got both {float(p_true)}")
        return cls(float(p_true), float(p_false), gap)

    def complement(self) -> "Channel":
        """The channel of "not supported" about "not the truth": the No of a yes/no answer."""
        return Channel(1 - self.p_false, 1 - self.p_true, self.gap)

    def support(self, share: ArrayLike) -> Floats:
        """Return the probability of support when `share` of the reporters hold the value."""
        return self.p_false + np.asarray(share, np.float64) * self.gap

    def invert(self, fraction: ArrayLike) -> Floats:
        """Return the share behind a fraction of supports; decreasing when the gap is negative."""
        return (np.asarray(fraction, np.float64) - self.p_false) / self.gap


def shares(tally: Tally, mechanism: Mechanism) -> Floats:
    """Estimate the share of devices behind each cell, over all cohorts together.

    Returns:
        Array of shape (cells,). Entries may be negative or exceed one; that is noise.

    Raises:
        NoReports: No cohort has a report.
    """
    if tally.n == 0:
        raise NoReports("the tally holds no reports")
    return Channel.of(mechanism).invert(tally.counts.sum(axis=0) / tally.n)

"""Count-mean sketch: strings hashed into one of many cells, every cell sent with noise.

Apple Differential Privacy Team, "Learning with Privacy at Scale" (2017), CMS. A report draws one
of k public hash functions, its row, forms the one-hot vector of the value's cell among m, and
flips each of its bits with probability 1/(1 + e^{eps/2}). Two values differ in two bits, so
epsilon = ln[p(1-q) / ((1-p)q)] with p = 1 - q; nothing is remembered.

All devices share the hashes, so strings that collide do so in every collection. Averaged over
hash functions a report speaks for a value which is not the truth with p/m + (1 - 1/m) q; given
the functions the collisions among *listed* strings are known and taken out by the estimator, and
those with unlisted ones remain as an error of sum f_u^2 / ((m-1) k) that no number of reports
averages out. (Reading the median of rows instead of their mean is biased, and not offered.)
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import MOST_BITS, MOST_COHORTS, Mechanism, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.string_hashing import SKETCH, hash_words, place
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.randomness import ONE, Coin

MOST_COUNTERS = 1 << 24
"""Of a whole sketch, all rows together: 64 MB in the store, a few times that to estimate."""


class CountMeanSketch(Mechanism):
    """Count-mean sketch over open strings.

    Args:
        cells: Places that a hash function has, m, 2 to 4096.
        hashes: Hash functions, k, 1 to 65536; each is one row of the sketch and one cohort.
        kept: Threshold of sending a bit as it is, above one half, below 2**64.
    """

    name = "count_mean_sketch"
    kind = "bits"
    encodes = "string"
    domain = None

    def __init__(self, cells: int, hashes: int, kept: int) -> None:
        if not 2 <= cells <= MOST_BITS:
            raise ParameterError(f"cells must lie in 2..{MOST_BITS}, got cells={cells}")
        if not 1 <= hashes <= MOST_COHORTS:
            raise ParameterError(f"hashes must lie in 1..{MOST_COHORTS}, got hashes={hashes}")
        if cells * hashes > MOST_COUNTERS:
            raise ParameterError(
                f"cells * hashes must not exceed {MOST_COUNTERS}, got {cells} * {hashes}"
            )
        if not ONE // 2 < kept < ONE:
            raise ParameterError(
                f"a bit must be kept with a chance in (1/2, 1), got {float(probability(kept))}"
            )
        self.cells = cells
        self.cohorts = hashes
        self.kept = kept
        self.p_true = p = probability(kept)
        self.p_false = q = 1 - p
        self.epsilon = log_ratio(p * (1 - q), (1 - p) * q)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("cells", "hashes")
        if declared.domain is not None:
            raise ParameterError(f"{cls.name} is for strings, not for a closed list of values")
        return cls.from_epsilon(
            declared.integer("cells", 2, MOST_BITS, 256),
            declared.integer("hashes", 1, MOST_COHORTS, 64),
            declared.once(),
        )

    @classmethod
    def from_epsilon(cls, cells: int, hashes: int, epsilon: Real) -> Self:
        """The sketch with a loss of at most `epsilon`."""
        half = part(checked_epsilon(epsilon), 2)
        return cls(cells, hashes, floor_threshold(logistic(half)))

    @property
    def support_false(self) -> Fraction:
        """P(a report speaks for a value that is not the truth), averaged over hash functions."""
        return self.p_true / self.cells + (1 - Fraction(1, self.cells)) * self.p_false

    @property
    def rare_variance(self) -> float:
        # A row estimates by all its cells, centred: x - 1/m has length 1 - 1/m. One report adds
        # the noise of each bit and the draw of its own cell, 1/m (reference 4.3, one hash).
        p, q = self.p_true, self.p_false
        noise = q * (1 - q) / (p - q) ** 2 + Fraction(1, self.cells)
        return float(noise / (1 - Fraction(1, self.cells)))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        word = next(hash_words(SKETCH, cohort, str(value)))
        return (place(word, self.cells),)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.kept, ONE - self.kept)

    def parameters(self) -> Mapping[str, int]:
        return {"cells": self.cells, "hashes": self.cohorts, "kept": self.kept}

"""Hadamard count-mean sketch: strings hashed into one of many cells, one noisy bit sent.

Apple Differential Privacy Team, "Learning with Privacy at Scale" (2017), HCMS. A report draws one
of k public hash functions, its row, and one index l of m, both uniform, and sends the sign
H[h(v), l] of the Hadamard matrix, kept with probability p = e^eps/(1 + e^eps). Neither row nor
index depends on the value, so epsilon = ln[p / (1-p)]; nothing is remembered.

A response is the cell 2 l + b, b = 1 where the sign sent is -1. Of the 2 m cells those whose sign
agrees with H[h(v), l], one for each l, belong to the value. Averaged over hash functions a report
speaks for a value which is not the truth with 1/2 + (2p-1)/(2m).

For devices that can send a bit only: at m bits the count-mean sketch errs less where epsilon is
large. Collisions are as there.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.base import MOST_CELLS, MOST_COHORTS, Mechanism, Value
from client_sdk.mechanisms.count_mean_sketch import MOST_COUNTERS
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.string_hashing import SKETCH, hash_words, place
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    floor_threshold,
    log_ratio,
    logistic,
    probability,
)
from client_sdk.randomness import ONE, Coin

MOST_PLACES = MOST_CELLS // 2
"""Each column has two cells."""


class HadamardCountMeanSketch(Mechanism):
    """Hadamard count-mean sketch over open strings.

    Args:
        places: Places that a hash function has, m, a power of two, 2 to 32768; options call
            them cells. The wire has two cells for each.
        hashes: Hash functions, k, 1 to 65536; each is one row of the sketch and one cohort.
        keep: Threshold of sending the true sign, above one half, below 2**64.
    """

    name = "hadamard_count_mean_sketch"
    kind = "cell"
    encodes = "string"
    domain = None

    def __init__(self, places: int, hashes: int, keep: int) -> None:
        if not 2 <= places <= MOST_PLACES or places & places - 1:
            raise ParameterError(
                f"cells must be a power of two in 2..{MOST_PLACES}, got cells={places}"
            )
        if not 1 <= hashes <= MOST_COHORTS:
            raise ParameterError(f"hashes must lie in 1..{MOST_COHORTS}, got hashes={hashes}")
        if 2 * places * hashes > MOST_COUNTERS:
            raise ParameterError(
                f"cells * hashes must not exceed {MOST_COUNTERS // 2}, got {places} * {hashes}"
            )
        if not ONE // 2 < keep < ONE:
            raise ParameterError(
                f"a sign must be kept with a chance in (1/2, 1), got {float(probability(keep))}"
            )
        self.places = places
        self.cells = 2 * places
        self.cohorts = hashes
        self.keep = keep
        self.p_kept = probability(keep)
        self.p_true = self.p_kept / places
        self.p_false = (1 - self.p_kept) / places
        self.epsilon = log_ratio(self.p_true, self.p_false)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("cells", "hashes")
        if declared.domain is not None:
            raise ParameterError(f"{cls.name} is for strings, not for a closed list of values")
        places = declared.integer("cells", 2, MOST_PLACES, 256)
        if places & places - 1:
            raise OptionError("cells", "must be a power of two", places)
        hashes = declared.integer("hashes", 1, MOST_COHORTS, 64)
        return cls.from_epsilon(places, hashes, declared.once())

    @classmethod
    def from_epsilon(cls, places: int, hashes: int, epsilon: Real) -> Self:
        """The sketch with a loss of at most `epsilon`."""
        return cls(places, hashes, floor_threshold(logistic(checked_epsilon(epsilon))))

    @property
    def support_true(self) -> Fraction:
        """P(a report speaks for the value that is the truth)."""
        return self.p_kept

    @property
    def support_false(self) -> Fraction:
        """The same for another value, averaged over hash functions."""
        return Fraction(1, 2) + (2 * self.p_kept - 1) / (2 * self.places)

    @property
    def even_parts(self) -> int:
        return self.places

    @property
    def rare_variance(self) -> float:
        # Places of a row have uncorrelated estimates of variance c^2, c = 1/(2p - 1), and a row
        # estimates by all of them, centred: x - 1/m has length 1 - 1/m.
        return float(1 / ((2 * self.p_kept - 1) ** 2 * (1 - Fraction(1, self.places))))

    def place_of(self, value: Value, row: int) -> int:
        """Return the place in [0, places) that a row's hash function gives a string."""
        return place(next(hash_words(SKETCH, row, str(value))), self.places)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        own = self.place_of(value, cohort)
        return tuple(2 * index + _parity(own & index) for index in range(self.places))

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        """Return the value's place, which is all that the fresh stage needs."""
        return self.place_of(value, cohort)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        index = coin.uniform(self.places)
        keep = coin.bernoulli(self.keep)
        return 2 * index + (_parity(permanent & index) ^ (not keep))

    def parameters(self) -> Mapping[str, int]:
        return {"cells": self.places, "hashes": self.cohorts, "keep": self.keep}


def _parity(number: int) -> int:
    """Return b of the Hadamard sign (-1)**b: the parity of a row number and a column number."""
    return number.bit_count() & 1

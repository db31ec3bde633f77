"""Local hashing: the value is hashed to one of few cells, and that cell goes through a channel.

The device draws a seed uniformly, whatever the value, hashes with it, and sends the seed with a
cell y: P(y | v) = p for y = H(v) and (1-p)/(g-1) for each of the other g-1 cells, with
p = e^eps/(e^eps + g - 1). A report speaks for every value that its seed sends to y. The loss is
eps whatever the hash functions are; what a value that is not the truth gains follows from how
often two values share a cell, which `linear_hashing` makes the same for every two.
Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency Estimation"
(USENIX Security 2017), section 4.4: g near e^eps + 1 has least variance (optimized), that of
optimized unary encoding with a report of few bytes; g = 2 is binary local hashing (Bassily and
Smith, "Local, Private, Efficient Protocols for Succinct Histograms", STOC 2015).
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.base import MOST_CELLS, Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.linear_hashing import LinearHashing, admissible, admissible_from
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    exponential,
    floor_threshold,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin


class LocalHashing(Mechanism):
    """Local hashing on the domain 0..domain-1; response seed * g + y.

    Args:
        domain: Number of values, at least 2.
        cells_per_seed: Cells g of each hash function, a prime or a power of two.
        keep: Threshold of sending the true cell, in (0, 2**64), above chance level.
    """

    kind = "cell"

    def __init__(self, domain: int, cells_per_seed: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        self.hashing = LinearHashing(domain, cells_per_seed)
        if not ONE < keep * cells_per_seed < ONE * cells_per_seed:
            raise ParameterError(
                f"p_true must lie between 1/cells = 1/{cells_per_seed} and 1, "
                f"got p_true={float(probability(keep))}"
            )
        self.keep = keep
        self.seeds = self.hashing.seeds
        self.cells_per_seed = cells_per_seed
        self.cells = self.seeds * cells_per_seed
        kept = probability(keep)
        other = (1 - kept) / (cells_per_seed - 1)
        self.p_true, self.p_false = kept / self.seeds, other / self.seeds
        self.epsilon = log_ratio(kept, other)

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real, cells_per_seed: int) -> Self:
        """The channel with a loss of at most `epsilon`."""
        power = Fraction(exponential(checked_epsilon(epsilon)))
        return cls(domain, cells_per_seed, floor_threshold(power / (power + cells_per_seed - 1)))

    @property
    def even_parts(self) -> int:
        return self.seeds

    @property
    def support_true(self) -> Fraction:
        return probability(self.keep)

    @property
    def support_false(self) -> Fraction:
        return _support_false(self.hashing, probability(self.keep))

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        """Return the value itself: it is hashed with a fresh seed in every report."""
        return require_index(value, self.domain)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        # All draws are made whatever the first ones say, so that all paths do the same work.
        seed = coin.uniform(self.seeds)
        keep = coin.bernoulli(self.keep)
        shift = 1 + coin.uniform(self.cells_per_seed - 1)
        cell = self.hashing.cell(seed, permanent)
        sent = cell if keep else (cell + shift) % self.cells_per_seed
        return seed * self.cells_per_seed + sent

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        cells = self.hashing.cells(require_index(value, self.domain))
        return tuple(seed * self.cells_per_seed + cell for seed, cell in enumerate(cells))

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.domain,
            "cells_per_seed": self.cells_per_seed,
            "keep": self.keep,
        }


class OptimizedLocalHashing(LocalHashing):
    """Local hashing with the number of cells that has least variance for rare values."""

    name = "optimized_local_hashing"

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("cells")
        domain, epsilon = declared.closed(), checked_epsilon(declared.once())
        if "cells" not in declared.options:
            return cls.from_epsilon(domain, epsilon, best_cells(domain, epsilon))
        size = declared.integer("cells", 2, MOST_CELLS)
        if not admissible(size):
            rule = f"must be a prime or a power of two, as {admissible_from(size)} is"
            raise OptionError("cells", rule, size)
        counters = LinearHashing(domain, size).seeds * size
        if counters > MOST_CELLS:
            best = best_cells(domain, epsilon)
            rule = f"must need at most {MOST_CELLS} counters for {domain} values, as {best} does"
            raise OptionError("cells", rule, size)
        return cls.from_epsilon(domain, epsilon, size)


class BinaryLocalHashing(LocalHashing):
    """Local hashing with two cells; one bit beside the seed, good for small epsilon only."""

    name = "binary_local_hashing"

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only()
        mechanism = cls.from_epsilon(declared.closed(), declared.once(), 2)
        if mechanism.cells > MOST_CELLS:
            raise _too_many_values(mechanism.domain)
        return mechanism


def best_cells(domain: int, epsilon: Real) -> int:
    """Return the cells g that have the least variance for a rare value, among possible ones.

    Raises:
        ParameterError: The domain is so large that every g needs too many counters.
    """
    power = Fraction(exponential(checked_epsilon(epsilon)))
    # From two digits on, g (g + 1) counters are needed; one digit is best with the least g.
    sizes = [size for size in range(2, 257) if admissible(size) and size < domain]
    if domain <= MOST_CELLS:
        sizes.append(admissible_from(domain))
    functions = [LinearHashing(domain, size) for size in sizes]
    possible = [each for each in functions if each.seeds * each.size <= MOST_CELLS]
    if not possible:
        raise _too_many_values(domain)

    def variance(hashing: LinearHashing) -> Fraction:
        p = power / (power + hashing.size - 1)
        q = _support_false(hashing, p)
        return q * (1 - q) / (p - q) ** 2

    return min(possible, key=variance).size


def _support_false(hashing: LinearHashing, p: Fraction) -> Fraction:
    return hashing.collision * p + (1 - hashing.collision) * (1 - p) / (hashing.size - 1)


def _too_many_values(domain: int) -> ParameterError:
    return ParameterError(
        f"local hashing of {domain} values needs more than {MOST_CELLS} counters; "
        "declare fewer values, or strings"
    )

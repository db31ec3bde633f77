"""LOLOHA: the value is hashed to one of few cells for good, and that cell is remembered with noise.

A device's cohort is its hash function, drawn once, whatever its values. Permanent and fresh noise
are those of L-GRR on g cells, both stages solved with the real g, so a report is one of local
hashing at epsilon: it speaks for every value of its cell, for the truth with p* and for another
value with coll p* + (1 - coll) q*, where coll is how often two values share a cell, the same for
every two (`linear_hashing`).
Arcolezi, Pinzon, Palamidessi, Gambs, "Frequency Estimation of Evolving Data Under Local
Differential Privacy" (EDBT 2023).

Values of one cell share one memory, so a device pays for at most g of them, ever: all its reports
lose at most g epsilon_permanent for two histories whose cells (not values) change and return at
the same times, and a change between values of one cell shows nowhere. The variance is least with g
near e^eps + 1, the default; fewer cells lower the bound, two most of all.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms.base import MOST_COHORTS, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.linear_hashing import LinearHashing, admissible, admissible_from
from client_sdk.mechanisms.memoized_generalized_randomized_response import MemoizedCells
from client_sdk.mechanisms.thresholds import Real, exponential
from client_sdk.mechanisms.two_stage import CellStages, both_epsilons, checked_epsilons

MOST_HASH_CELLS = 256


class Loloha(MemoizedCells):
    """LOLOHA on the domain 0..domain-1.

    Args:
        domain: Number of values, at least 2.
        cells: Cells g of each hash function, a prime or a power of two, 2 to 256.
        keep: Threshold of p1, above chance level 2**64 / cells.
        keep_again: Threshold of p2, the same.
    """

    name = "loloha"

    def __init__(self, domain: int, cells: int, keep: int, keep_again: int) -> None:
        self.domain: int = require_domain(domain)
        self.hashing = LinearHashing(domain, cells)
        self.cohorts = self.hashing.seeds
        if cells > MOST_HASH_CELLS or self.cohorts > MOST_COHORTS:
            raise ParameterError(
                f"cells must be at most {MOST_HASH_CELLS}, and hash functions at most "
                f"{MOST_COHORTS}, got cells={cells}, which need {self.cohorts} functions"
            )
        super().__init__(cells, keep, keep_again)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("cells")
        domain, (epsilon, permanent) = declared.closed(), both_epsilons(declared)
        usual = usual_cells(require_domain(domain), epsilon)
        cells = declared.integer("cells", 2, MOST_HASH_CELLS, usual)
        if not admissible(cells):
            rule = f"must be a prime or a power of two, as {admissible_from(cells)} is"
            raise OptionError("cells", rule, cells)
        return cls.from_epsilons(domain, cells, epsilon, permanent)

    @classmethod
    def from_epsilons(cls, domain: int, cells: int, epsilon: Real, epsilon_permanent: Real) -> Self:
        """The channel with a loss of at most `epsilon` once and `epsilon_permanent` for ever.

        Raises:
            ParameterError: epsilon is not below epsilon_permanent.
        """
        one, permanent = checked_epsilons(epsilon, epsilon_permanent)
        return cls(domain, cells, *CellStages.solved(cells, one, permanent))

    @property
    def support_false(self) -> Fraction:
        together = self.hashing.collision
        return together * self.p_true + (1 - together) * self.p_false

    @property
    def most_memories(self) -> int:
        return min(self.cells, self.domain)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (self.hashing.cell(cohort, require_index(value, self.domain)),)

    def remembered_as(self, value: Value, cohort: int) -> str:
        return str(self.cells_for(value, cohort)[0])

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.domain,
            "cells": self.cells,
            "keep": self.keep,
            "keep_again": self.keep_again,
        }


def usual_cells(domain: int, epsilon: Decimal) -> int:
    """Return the possible number of cells next below e^epsilon + 1 and the domain."""
    most = min(round(exponential(epsilon)) + 1, domain - 1, MOST_HASH_CELLS)
    return next((size for size in range(most, 2, -1) if admissible(size)), 2)

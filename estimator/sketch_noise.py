"""Sketches of strings: what their tallies count of each hash cell, and how noisy that is.

In every row (cohort) a string owns one or some of m hash cells. A tally becomes *supports* of
hash cells; a support is a binomial count, inverted by one two-probability channel to an unbiased
density t of the cell. What least squares needs beside that is how cells of a row covary:

* Independent bits (RAPPOR, count-mean sketch): given the values not at all. Supports are the
  counts themselves.
* Hadamard rows: a report is a uniform column l and the sign of H[g, l], g its own hash cell, kept
  with chance p. It supports the cells h whose H[h, l] has the sign sent: p of them if h = g, half
  otherwise, so the channel is (p, 1/2). With c = 1/(2p - 1) it adds c s H[h, l] to the density of
  h, with E[c s H[h, l]] = 1 for h = g, else 0, and E[c^2 H[h, l] H[h', l]] = 0 for h != h'.
  So cells are uncorrelated, given the values, here too; the variance of a density is
  (c^2 - t)/N given the values, and the population's covariance of a row (c^2 I - t t')/N.

Third moments are those of each cell by itself; with Hadamard rows there are mixed ones, which are
left out. They are of the order of the shares: small for whatever significance is in doubt of.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from client_sdk.mechanisms import CountMeanSketch, HadamardCountMeanSketch, Mechanism, Rappor
from estimator.debias import Channel, Floats
from estimator.hadamard import supports_by_signs

Counts = NDArray[np.int64]
M = TypeVar("M", bound=Mechanism)


@dataclass(frozen=True)
class Sketch(ABC, Generic[M]):
    """A mechanism, read as rows of hash cells.

    Attributes:
        mechanism: Of strings.
        cells: Hash cells of a row.
        own: How many of them a string owns.
        channel: From the density of a hash cell to the chance that a report supports it.
    """

    mechanism: M
    cells: int
    own: int
    channel: Channel

    @property
    def rows(self) -> int:
        """Number of rows, each with hash functions of its own."""
        return self.mechanism.cohorts

    @abstractmethod
    def cells_of(self, text: str, row: int) -> Iterable[int]:
        """Return the hash cells that a string owns in a row, ascending."""

    @abstractmethod
    def supports(self, counts: Counts) -> Counts:
        """Return the supports of hash cells, from counts of shape (..., the mechanism's cells)."""

    @abstractmethod
    def pairs(self, reports: Counts) -> Floats:
        """Return over how many pairs of reports a row's squared densities sum, see `misfit`."""


class BitSketch(Sketch[Rappor | CountMeanSketch]):
    """Independent bits, one for each hash cell."""

    def cells_of(self, text: str, row: int) -> Iterable[int]:
        return self.mechanism.cells_for(text, row)

    def supports(self, counts: Counts) -> Counts:
        return counts

    def pairs(self, reports: Counts) -> Floats:
        return np.full(len(reports), np.inf)


class HadamardSketch(Sketch[HadamardCountMeanSketch]):
    """One sign of a column of the Hadamard matrix."""

    def cells_of(self, text: str, row: int) -> Iterable[int]:
        return (self.mechanism.place_of(text, row),)

    def supports(self, counts: Counts) -> Counts:
        return supports_by_signs(counts)

    def pairs(self, reports: Counts) -> Floats:
        # The transform keeps squares, and those of columns count pairs of reports in one column.
        return reports * (reports - 1) / (2 * self.cells)


def sketch_of(mechanism: Mechanism) -> BitSketch | HadamardSketch:
    """Return how the tallies of a mechanism of strings are read."""
    if isinstance(mechanism, HadamardCountMeanSketch):
        channel = Channel.from_probabilities(mechanism.p_kept, Fraction(1, 2))
        return HadamardSketch(mechanism, mechanism.places, 1, channel)
    assert isinstance(mechanism, Rappor | CountMeanSketch)
    own = mechanism.hashes if isinstance(mechanism, Rappor) else 1
    return BitSketch(mechanism, mechanism.cells, own, Channel.of(mechanism))

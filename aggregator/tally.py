"""A tally: the sum of the supports of all reports of one metric and epoch.

It is all that the server keeps of reports, and all that an estimator needs.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client_sdk.mechanisms import Mechanism


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts per cohort. Tallies of disjoint sets of reports add up.

    Attributes:
        reports: Number of reports, int64, shape (cohorts,).
        counts: How many of them support each cell, int64, shape (cohorts, cells).
    """

    reports: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def zero(cls, mechanism: Mechanism) -> Self:
        """The tally of no reports."""
        cohorts, cells = mechanism.cohorts, mechanism.cells
        return cls(np.zeros(cohorts, np.int64), np.zeros((cohorts, cells), np.int64))

    @classmethod
    def of(cls, counts: ArrayLike, reports: ArrayLike | None = None) -> Self:
        """Make a tally from plain numbers.

        Args:
            counts: Per cell, or per cohort and cell.
            reports: Of each cohort. Needed where one report supports several cells or none; else
                it is the sum of the counts.

        Raises:
            ValueError: The shapes do not fit, or a number is negative or no whole number.
        """
        cells = np.atleast_2d(_whole("counts", counts))
        rows = cells.sum(axis=1) if reports is None else np.atleast_1d(_whole("reports", reports))
        if cells.ndim != 2 or rows.shape != cells.shape[:1]:
            raise ValueError(
                f"reports must have one number per row of counts, got {rows.size} for {len(cells)}"
            )
        return cls(rows, cells)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.reports + other.reports, self.counts + other.counts)

    @property
    def n(self) -> int:
        """Number of reports of all cohorts."""
        return int(self.reports.sum())


def _whole(name: str, numbers: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(numbers)
    whole = given.astype(np.int64)
    if (whole != given).any() or (whole < 0).any():
        raise ValueError(f"{name} must be whole numbers >= 0, got {numbers!r}")
    return whole


def pack_counts(counts: NDArray[np.int64]) -> bytes:
    """Write reports and counts of cohorts, shape (..., 1 + cells), as the store keeps them: uint32.

    Raises:
        OverflowError: More than 4 billion reports in one shard, epoch and cohort.
    """
    if counts.max() > np.iinfo(np.uint32).max:
        raise OverflowError(f"a shard's counter must fit 32 bits, got {counts.max()}")
    return counts.astype("<u4").tobytes()


def unpack_counts(packed: bytes) -> NDArray[np.int64]:
    """Read what `pack_counts` wrote."""
    return np.frombuffer(packed, "<u4").astype(np.int64)

"""Simulated collections: tallies of many reports at once, drawn from a mechanism's stated channel.

That the stated channel is what the client's code does is shown exactly by the audit: the law of
a cell, or of each bit and that bits are independent. Where bits of a response depend on each
other (subset selection, padding and sampling) only the law of each single count is right here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from client_sdk.mechanisms import Mechanism, Value

COLLECTIONS = 10_000
WITHIN = 0.03
"""The standard deviation of 10,000 draws is off by 0.7 % (one sigma): 3 % is more than four."""


def channel_table(mechanism: Mechanism, values: Sequence[Value]) -> NDArray[np.float64]:
    """Return P(cell is supported | value, cohort), shape (values, cohorts, cells)."""
    cohorts = range(mechanism.cohorts)
    rows = [[mechanism.channel(value, cohort) for cohort in cohorts] for value in values]
    return np.array([[[float(p) for p in row] for row in each] for each in rows])


def tallies(
    mechanism: Mechanism,
    values: Sequence[Value],
    shares: Sequence[float],
    n: int,
    collections: int,
    chance: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw collections of n reports from a population.

    Returns:
        Reports, shape (collections, cohorts), and counts, shape (collections, cohorts, cells).
    """
    table = channel_table(mechanism, values)
    held = np.array(shares) / sum(shares)
    if mechanism.kind == "cell":
        law = np.einsum("v,vcy->cy", held, table) / mechanism.cohorts
        flat = chance.multinomial(n, law.ravel() / law.sum(), size=collections)
        counts = flat.reshape(collections, *law.shape)
        return counts.sum(axis=2), counts
    places = np.repeat(held / mechanism.cohorts, mechanism.cohorts)
    holders = chance.multinomial(n, places / places.sum(), size=collections)
    holders = holders.reshape(collections, len(values), mechanism.cohorts)
    bits = np.zeros((collections, mechanism.cohorts, mechanism.cells), np.int64)
    for value in range(len(values)):
        bits += chance.binomial(holders[:, value, :, None], table[value][None])
    return holders.sum(axis=1), bits

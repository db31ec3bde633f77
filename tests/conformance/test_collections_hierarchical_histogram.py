"""Predicted errors of trees and of cumulative shares, held to 10,000 simulated collections."""

from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from client_sdk.mechanisms import MEMOIZED, HierarchicalHistogram, build
from estimator.debias import Channel
from estimator.inversion.cumulative import cumulative, cumulative_error, quantiles_of
from estimator.inversion.tree import Sums, fit
from estimator.quantiles import PARTS
from tests.conformance.simulated import COLLECTIONS, WITHIN, tallies

SHARES = np.array([0.3, 0.0, 0.0, 0.05, 0.1, 0.25, 0.0, 0.02, 0.08, 0.0, 0.2])
N = 3000


def fixed_population(
    mechanism: HierarchicalHistogram, chance: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Collections from always the same N reporters, whose levels and bits are drawn anew."""
    held = np.rint(SHARES * N).astype(np.int64)
    levels = np.full(mechanism.cohorts, 1 / mechanism.cohorts)
    by_leaf = np.stack([chance.multinomial(h, levels, COLLECTIONS) for h in held], axis=1)
    counts = np.zeros((COLLECTIONS, mechanism.cohorts, mechanism.cells), np.int64)
    for leaf in range(len(held)):
        for level in range(mechanism.cohorts):
            chances = [float(p) for p in mechanism.channel(leaf, level)]
            counts[:, level] += chance.binomial(by_leaf[:, leaf, level, None], chances)
    return by_leaf.sum(axis=1), counts


def check(sums: Sums, counts: NDArray[np.int64], which: int) -> None:
    """Hold shares to the truth, and their spread to the predicted one."""
    found = sums.shares(counts)
    spread = found.std(axis=0)
    # 6 standard errors of the mean: 40 sums are all within with all but 1e-7.
    assert np.abs(found.mean(axis=0) - sums.parts @ SHARES).max() < 6 * spread.max() / 100
    # Sizes of the levels vary from one collection to another, and the error with them.
    predicted = np.sqrt((sums.errors(SHARES)[which] ** 2).mean(axis=0))
    assert np.abs(spread / predicted - 1).max() < WITHIN


@pytest.mark.parametrize("epsilon", [1, 6])
def test_the_errors_of_leaves_ranges_and_cumulative_shares_are_the_predicted_ones(
    epsilon: int,
) -> None:
    mechanism = HierarchicalHistogram.from_epsilon(len(SHARES), epsilon, 3)
    chance = np.random.default_rng(8)
    drawn = tallies(mechanism, range(len(SHARES)), SHARES.tolist(), N, COLLECTIONS, chance)
    for which, (reports, counts) in enumerate((drawn, fixed_population(mechanism, chance))):
        leaves = fit(mechanism, reports)
        for sums in (leaves, leaves.cumulative(), leaves.between(2, 7)):
            check(sums, counts, which)


@pytest.mark.parametrize(
    "name", ["generalized_randomized_response", "symmetric_unary", "optimized_unary"]
)
@pytest.mark.parametrize("memoized", [False, True])
def test_the_error_of_cumulative_shares_is_the_predicted_one(name: str, memoized: bool) -> None:
    mechanism = build(name, domain=len(SHARES), epsilon=1)
    if memoized:
        two_staged = MEMOIZED[name]
        mechanism = build(two_staged, domain=len(SHARES), epsilon=1, epsilon_permanent=2)
        edges = [Decimal(edge) for edge in range(len(SHARES) + 1)]
        assert len(quantiles_of(mechanism, edges, SHARES, N, 0.95)) == len(PARTS)
    chance = np.random.default_rng(9)
    values = range(len(SHARES))
    _, counts = tallies(mechanism, values, SHARES.tolist(), N, COLLECTIONS, chance)
    channel = Channel.of_values(mechanism)
    found = cumulative(channel.invert(counts[:, 0] / N))
    truth = np.cumsum(SHARES)[:-1]
    spread = found.std(axis=0)
    assert np.abs(found.mean(axis=0) - truth).max() < 6 * spread.max() / 100
    predicted = cumulative_error(SHARES, N, channel, mechanism.kind)
    assert np.abs(spread / predicted - 1).max() < WITHIN

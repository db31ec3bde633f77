"""Predicted standard errors, held to 10,000 simulated collections of reports."""

import numpy as np
import pytest

from client_sdk.mechanisms import build
from estimator.debias import Channel
from estimator.uncertainty import variance_population
from tests.conformance.simulated import tallies

SHARES = (0.5, 0.3, 0.15, 0.05, 0.0)
N = 2000
COLLECTIONS = 10_000
WITHIN = 0.03
"""The standard deviation of 10,000 draws is off by 0.7 % (one sigma): 3 % is more than four."""


@pytest.mark.parametrize(
    "name", ["generalized_randomized_response", "symmetric_unary", "optimized_unary"]
)
def test_the_error_of_direct_counts_is_the_predicted_one(name: str) -> None:
    mechanism = build(name, domain=len(SHARES), epsilon=1)
    chance = np.random.default_rng(8)
    _, counts = tallies(mechanism, range(len(SHARES)), SHARES, N, COLLECTIONS, chance)
    channel = Channel.of_values(mechanism)
    found = channel.invert(counts[:, 0] / N).std(axis=0)
    predicted = np.sqrt(variance_population(SHARES, N, channel))
    assert np.abs(found / predicted - 1).max() < WITHIN

"""Predicted standard errors, held to 10,000 simulated collections of reports."""

import numpy as np
import pytest

from client_sdk.mechanisms import build
from estimator.debias import Channel
from estimator.uncertainty import variance_population
from tests.conformance.simulated import COLLECTIONS, WITHIN, tallies

SHARES = (0.5, 0.3, 0.15, 0.05, 0.0)
N = 2000


@pytest.mark.parametrize("name", ["multi_hot_unary", "padding_and_sampling"])
@pytest.mark.parametrize("most", [2, 5])
def test_the_error_of_several_options_is_the_predicted_one(name: str, most: int) -> None:
    mechanism = build(name, domain=5, epsilon=1, most=most)
    selections = [0b00000, 0b00001, 0b00011, 0b01001]
    shares = (0.2, 0.4, 0.3, 0.1)
    truth = np.array([0.8, 0.3, 0.0, 0.1, 0.0])
    chance = np.random.default_rng(9)
    channel = Channel.of_values(mechanism)
    _, counts = tallies(mechanism, selections, shares, N, COLLECTIONS, chance)
    found = channel.invert(counts[:, 0] / N)
    assert np.abs(found.mean(axis=0) - truth).max() < 6 * found.std(axis=0).max() / 100
    assert np.abs(found.std(axis=0) / np.sqrt(variance_population(truth, N, channel)) - 1).max() < (
        WITHIN
    )


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

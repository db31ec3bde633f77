"""Hashed values: predicted errors against 10,000 simulated collections, and real reports."""

import numpy as np
import pytest

from client_sdk import loads
from client_sdk.mechanisms import build
from estimator.debias import Channel
from estimator.estimate import estimate
from estimator.inversion.hashed import supports
from estimator.uncertainty import variance_population, variance_reporters
from tests.conformance.real import report_of, tally_of
from tests.conformance.simulated import COLLECTIONS, WITHIN, channel_table, tallies
from tests.registries import registry as declared
from tests.registries import theme

NAMES = ["optimized_local_hashing", "binary_local_hashing", "hadamard_response"]
SHARES = (0.5, 0.25, 0.15, 0.06, 0.04, 0.0, 0.0)
N = 2000


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize("name", NAMES)
def test_the_error_about_the_population_is_the_predicted_one(name, epsilon):
    mechanism = build(name, domain=len(SHARES), epsilon=epsilon)
    chance = np.random.default_rng(21)
    _, counts = tallies(mechanism, range(len(SHARES)), SHARES, N, COLLECTIONS, chance)
    channel = Channel.of_values(mechanism)
    found = channel.invert(supports(mechanism, counts[:, 0]) / N)
    predicted = np.sqrt(variance_population(SHARES, N, channel))
    assert np.abs(found.std(axis=0) / predicted - 1).max() < WITHIN
    # The mean of 10,000 is within 5.5 of its standard errors but for 3e-7 in all six cases.
    assert (np.abs(found.mean(axis=0) - SHARES) < 5.5 * predicted / COLLECTIONS**0.5).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_error_about_the_reporters_is_the_predicted_one(name):
    mechanism = build(name, domain=len(SHARES), epsilon=1)
    chance = np.random.default_rng(22)
    table = channel_table(mechanism, range(len(SHARES)))[:, 0]
    counts = np.zeros((COLLECTIONS, mechanism.cells), np.int64)
    for share, law in zip(SHARES, table, strict=True):
        counts += chance.multinomial(round(N * share), law / law.sum(), size=COLLECTIONS)
    channel = Channel.of_values(mechanism)
    found = channel.invert(supports(mechanism, counts) / N)
    predicted = np.sqrt(variance_reporters(SHARES, N, channel))
    assert np.abs(found.std(axis=0) / predicted - 1).max() < WITHIN


def test_hash_functions_that_all_devices_share_leave_no_bias():
    """Reference 5.1: with S shared random functions a bias of about sqrt(sum f^2 / ((g-1) S))
    stays, whatever n. Here the expected estimate is the truth, exactly."""
    mechanism = build("optimized_local_hashing", domain=50, epsilon=1)
    truth = np.zeros(50)
    truth[[3, 17, 49]] = 0.6, 0.3, 0.1
    expected = truth @ channel_table(mechanism, range(50))[:, 0]
    scale = 2.0**52  # counts are whole numbers: of so many reports they are off by 2**-52 each
    counts = np.rint(expected * scale).astype(np.int64)
    found = Channel.of_values(mechanism).invert(supports(mechanism, counts) / counts.sum())
    assert found == pytest.approx(truth, abs=1e-12)


ANSWERS = [f"city {number}" for number in range(99)] + ["other"]
HELD = {"city 0": 1500, "city 41": 900, "city 98": 450, "other": 150}


@pytest.mark.parametrize(
    "mechanism",
    [
        '{ name = "optimized_local_hashing", cells = 4 }',
        '"optimized_local_hashing"',
        '"binary_local_hashing"',
        '"hadamard_response"',
    ],
)
def test_real_reports_come_back_as_the_truth(mechanism: str) -> None:
    """From a file to estimates, 3,000 answers, chance of the operating system. Each of 4 times
    100 shares is off by more than 6.2 standard errors once in 1.8e9: together 2.3e-7."""
    text = declared(theme(*ANSWERS, mechanism="@", epsilon=2.0))
    registry = loads(text.replace('"@"', mechanism))
    metric = registry.metrics["theme"]
    answers = [answer for answer, n in HELD.items() for _ in range(n)]
    found = estimate(
        metric, tally_of(registry, metric, [report_of(metric, each) for each in answers])
    )
    assert [entry.value for entry in found.entries] == ANSWERS and found.n == 3000
    for entry in found.entries:
        assert isinstance(entry.value, str)
        assert entry.share is not None and entry.standard_error is not None
        assert abs(entry.share - HELD.get(entry.value, 0) / 3000) < 6.2 * entry.standard_error
    assert found.entries[0].significant and found.entries[41].significant

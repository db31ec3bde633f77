"""Leaps of expectation maximization: they end where its steps end, and need few of those."""

import numpy as np
import pytest

from client_sdk.mechanisms import SquareWave
from estimator.debias import Floats
from estimator.inversion import likelihood
from estimator.inversion.distribution import matrix
from estimator.inversion.likelihood import maximum_likelihood


def collection(epsilon: float, buckets: int, n: int) -> tuple[Floats, Floats]:
    """A channel, and what comes of n reports of two peaks, one of them narrow."""
    channel = matrix(SquareWave.from_epsilon(buckets, epsilon))
    place = np.arange(buckets) / buckets
    shares = np.exp(-(((place - 0.4) / 0.12) ** 2)) + (np.abs(place - 0.8) < 0.02) + 0.02
    law = channel @ (shares / shares.sum())
    return channel, np.random.default_rng(1).multinomial(n, law / law.sum()).astype(float)


@pytest.mark.parametrize("n", [3, 1000, 1_000_000])
@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_smoothed_leaps_end_where_smoothed_steps_end(epsilon: float, n: int) -> None:
    channel, counts = collection(epsilon, 32, n)
    leapt = maximum_likelihood(channel, counts, tolerance=1e-9)
    walked = maximum_likelihood(channel, counts, tolerance=0, most_steps=5000)
    assert leapt == pytest.approx(walked, abs=2e-4 / np.sqrt(n))
    assert leapt.sum() == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_plain_leaps_end_at_shares_that_are_no_less_likely(epsilon: float) -> None:
    channel, counts = collection(epsilon, 32, 10_000)
    leapt = maximum_likelihood(channel, counts, smooth=False, tolerance=1e-6)
    walked = maximum_likelihood(channel, counts, smooth=False, tolerance=0, most_steps=5000)
    likely, wanted = (counts @ np.log(channel @ each) for each in (leapt, walked))
    assert likely > wanted - 1e-2
    assert (leapt >= 0).all()


def test_a_wide_window_over_many_buckets_takes_hundreds_of_steps_not_thousands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel, counts = collection(1, 256, 1_000_000)
    step, made = likelihood._step, []

    def counted(*arguments: Floats) -> tuple[Floats, Floats]:
        made.append(1)
        return step(*arguments)

    monkeypatch.setattr(likelihood, "_step", counted)
    maximum_likelihood(channel, counts)
    assert len(made) < 300  # 1,463 without leaps
    made.clear()
    maximum_likelihood(channel, counts, smooth=False, tolerance=likelihood.TOLERANCE * np.e)
    assert len(made) < 600  # 2,989


def test_few_reports_of_all_kinds_are_leapt_over() -> None:
    channel = matrix(SquareWave.from_epsilon(16, 20))
    counts = np.vstack([np.eye(len(channel)) * n for n in (1, 2, 10**9)])
    found = maximum_likelihood(channel, counts, smooth=False)
    assert np.isfinite(found).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(len(counts)))

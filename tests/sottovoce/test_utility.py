"""The monitor's statistics: silent about an estimator that works, loud about one that does not.

Tallies are simulated with fixed seeds. Were they drawn anew, a test of silence would fail with
probability below 1e-6, and a test of loudness below that too, as each says.
"""

from dataclasses import replace

import numpy as np
import pytest

from estimator import debias, uncertainty
from estimator.canary import evidence
from estimator.canary.utility import ALARM, score
from estimator.debias import Channel
from estimator.errors import NotPublishable
from tests.sottovoce.canaries import NAMES, drawn, pairs, registry

METRICS = registry().metrics
CLOSED = NAMES[:3]


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_that_works_is_as_wrong_as_it_says(name):
    found = score(pairs(METRICS[name], n=200, epochs=30, seed=1))
    # 11 p-values in all four cases, each below 5e-8 with probability 5e-8: 5.5e-7.
    assert found.p_coverage > 5e-8 and found.p_error > 5e-8
    assert found.p_standard_error is None or found.p_standard_error > 5e-8
    # 30 epochs leave at least 30 independent errors, so both are near each other: the
    # bounds are those of chi-square with 30 degrees at 1e-7: 0.17 and 2.96 times the variance.
    assert 0.17**0.5 < 1 / found.predicted_over_observed < 2.96**0.5
    assert found.mean_absolute_error < found.root_mean_square_error
    assert found.epochs[0] == "2026-11-01" and len(found.epochs) == 30 and found.n == 6000
    assert found.design_effect == pytest.approx(found.signal_to_noise_to_direct**-2)


def _break(monkeypatch, wrong):
    """Let estimators take channels for others, of cells and of values."""
    for name in ("of", "of_values"):
        right = getattr(Channel, name)
        monkeypatch.setattr(debias.Channel, name, lambda m, right=right: wrong(right(m)))


@pytest.mark.parametrize("name", CLOSED)
def test_a_p_false_that_is_wrong_by_little_is_noticed(name, monkeypatch):
    """Shares are off by 0.06: at 30,000 reports over 9 standard errors of the worst metric."""
    _break(monkeypatch, lambda c: replace(c, p_false=c.p_false - 0.06 * c.gap))
    found = score(pairs(METRICS[name], n=1000, epochs=30, seed=2))
    # The alarm is at 4.1 of them: missed with probability below 1e-6.
    assert found.p_error < ALARM
    assert "more than the channel explains" in " ".join(found.alarms)


@pytest.mark.parametrize("name", NAMES)
def test_a_gap_that_is_wrong_is_noticed(name, monkeypatch):
    """Strings are estimated whatever level all bits have, but not whatever distance."""
    _break(monkeypatch, lambda c: replace(c, gap=1.5 * c.gap))
    found = score(pairs(METRICS[name], n=1000, epochs=30, seed=2))
    # The largest share is off by a third of itself, over 10 standard errors: missed with
    # probability below 1e-7.
    assert found.p_error < ALARM


@pytest.mark.parametrize("name", ["canary.one_of_6", "canary.one_of_16"])
def test_intervals_that_are_30_percent_too_narrow_are_noticed(name, monkeypatch):
    """They hold the truth in 83 of 100 cases."""
    right = uncertainty.interval

    def narrow(*args, **keywords):
        low, high = right(*args, **keywords)
        middle = (low + high) / 2
        return middle + 0.7 * (low - middle), middle + 0.7 * (high - middle)

    monkeypatch.setattr(uncertainty, "interval", narrow)
    # 150 epochs of 5 values: the alarm is at 62 misses of 750, and Bin(750, 0.17) is below that
    # with probability 3e-12. An alarm of p_error below 5e-8 would be chance.
    found = score(pairs(METRICS[name], n=200, epochs=150, seed=3))
    assert found.p_coverage < ALARM and found.p_error > 5e-8
    assert "too narrow" in found.alarms[0]
    assert found.coverage_interval[0] < found.coverage < found.coverage_interval[1] < found.level


@pytest.mark.parametrize("name", CLOSED)
def test_standard_errors_that_are_30_percent_too_small_are_noticed(name, monkeypatch):
    """No chance in it: at n = 1000 a stated variance is right within some percent."""
    right = uncertainty.standard_error_population
    monkeypatch.setattr(uncertainty, "standard_error_population", lambda *args: 0.7 * right(*args))
    found = score(pairs(METRICS[name], n=1000, epochs=5, seed=4))
    assert found.p_standard_error < 1e-6
    assert "stated smaller" in " ".join(found.alarms)
    assert found.predicted_over_observed < 1.4


def test_a_withheld_release_and_mixed_versions_are_refused():
    metric = METRICS["canary.yes_no"]
    withheld = pairs(metric, n=20, epochs=1, seed=5)
    with pytest.raises(NotPublishable, match="withheld"):
        score(withheld)
    with pytest.raises(NotPublishable, match="one version"):
        score(pairs(metric, 200, 1, 6) + pairs(METRICS["canary.text"], 200, 1, 7))
    with pytest.raises(NotPublishable, match="at least one"):
        score([])


@pytest.mark.parametrize("n", [7, 50, 313])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.97])
@pytest.mark.parametrize("channel", [(0.75, 0.25), (0.5, 0.1), (0.2, 0.6)])
def test_the_probability_of_a_miss_is_that_of_the_interval_itself(n, share, channel):
    channel = Channel.from_probabilities(*channel)
    counts = np.arange(n + 1)
    low, high = uncertainty.interval(counts, n, channel, level=0.95)
    law = evidence.stats.binom.pmf(counts, n, channel.support(share))
    expected = law[(share < low - 1e-12) | (share > high + 1e-12)].sum()
    found = evidence.miss_probability(np.array([share]), n, channel, 0.95)
    assert found == pytest.approx(expected, abs=1e-9)


def test_misses_count_for_as_many_as_are_independent():
    # Yes and no miss together: 3 epochs of 20, as binomial(20, 0.05) has it.
    once = evidence.too_many_misses([2, 0, 2, 2] + [0] * 16, 2, 1, 0.05)
    assert once == pytest.approx(float(evidence.stats.binom.sf(2, 20, 0.05)))
    # Whatever depends on whatever: the bound is never below that of complete dependence.
    whole = evidence.too_many_misses([5, 0, 5, 5] + [0] * 16, 5, None, 0.05)
    assert whole == pytest.approx(np.e * once)


@pytest.mark.parametrize("closed", [True, False])
def test_the_bound_on_negative_mass_is_one_and_not_idle(closed):
    """100,000 draws at p: the share of them beyond the bound's 0.01 is below 0.01."""
    errors = np.array([0.01, 0.02, 0.02, 0.05])
    chance = np.random.default_rng(8)
    scores = chance.standard_normal((100_000, 4 if closed else 1))
    masses = np.maximum(0, -scores * errors if closed else scores @ errors[None, :]).sum(axis=1)
    expected, p = evidence.below_zero(float(np.quantile(masses, 0.99)), errors, closed)
    assert expected == pytest.approx(masses.mean(), rel=0.03)
    assert 0.01 < p < 0.15
    assert evidence.below_zero(expected, errors, closed)[1] == 1.0
    assert evidence.below_zero(6 * errors.sum(), errors, closed)[1] < 1e-7
    assert evidence.below_zero(0.0, np.zeros(2), closed) == (0.0, 1.0)


@pytest.mark.parametrize("name", CLOSED)
def test_values_count_for_as_many_as_their_covariance_has_rank(name):
    metric, known = METRICS[name], pairs(METRICS[name], 200, 1, 9)[0][1]
    truth = np.array([share for _, share in known.shares])
    kind, channel = metric.mechanism.kind, Channel.of(metric.mechanism)
    spread = uncertainty.covariance(truth, 500, channel, kind, population=True)
    if len(truth) == 2:
        spread = spread[1, 1] * np.array([[1, -1], [-1, 1]])  # "no" is one minus "yes"
    rank = np.linalg.matrix_rank(spread, tol=1e-12)
    assert evidence.independent_values(metric.mechanism.name, len(truth)) == rank
    # So often is what the statistic is on average; 2,000 draws leave it within 5.4 standard
    # errors but for 1e-7.
    chance = np.random.default_rng(10)
    found = []
    for _ in range(2000):
        tally = drawn(metric, known, 500, chance)
        errors = debias.shares(tally, metric.mechanism) - truth[-metric.mechanism.cells :]
        part, free = evidence.squared_error(errors, truth, 500, channel, metric.mechanism.name)
        assert free == rank
        found.append(part)
    assert abs(np.mean(found) - rank) < 5.4 * np.std(found) / 2000**0.5

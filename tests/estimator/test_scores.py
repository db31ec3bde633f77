"""Linear scores: unbiased, and both errors right, by enumeration of every tally there can be."""

from collections.abc import Callable, Iterator
from math import lgamma

import numpy as np
import pytest
from scipy import stats

from client_sdk.mechanisms import BlockHadamardResponse, Mechanism, build
from estimator.inversion.blocks import block_estimate, variance_reporters
from estimator.inversion.scores import (
    Linear,
    channel_rows,
    linear_estimate,
    unbiased_scores,
    variance_population,
    worst_shift_of,
)

LOPSIDED = [[3, 2, 0], [0, 5, 1], [1, 1, 1]]
EXPONENTIAL = build("exponential", domain=3, epsilon=2)
TABLE = build("exponential", domain=3, epsilon=2, utility=LOPSIDED)
GRR = build("generalized_randomized_response", domain=3, epsilon=1)
ONE_BLOCK = BlockHadamardResponse.from_epsilon(3, 2, 1)
TWO_BLOCKS = BlockHadamardResponse.from_epsilon(3, 2, 2)
SQUARE = [EXPONENTIAL, TABLE, GRR]
ALL = [*SQUARE, ONE_BLOCK, TWO_BLOCKS]

Estimator = Callable[[np.ndarray, np.ndarray], Linear]


def estimator_of(mechanism: Mechanism) -> Estimator:
    """How the shipped inversion of a mechanism estimates."""
    if isinstance(mechanism, BlockHadamardResponse):
        return lambda counts, n: block_estimate(counts, mechanism, n)
    rows = channel_rows(mechanism)
    scores = unbiased_scores(rows)
    return lambda counts, n: linear_estimate(counts, scores, rows, n)


def tallies_of(n: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Every way in which n reports fall into cells."""
    if cells == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in tallies_of(n - first, cells - 1):
            yield first, *rest


def probabilities(tallies: np.ndarray, law: np.ndarray) -> np.ndarray:
    n = int(tallies[0].sum())
    logs = lgamma(n + 1) - np.vectorize(lgamma)(tallies + 1.0).sum(axis=1)
    return np.exp(logs + tallies @ np.log(law))


def ids(mechanism: Mechanism) -> str:
    return f"{mechanism.name}-{mechanism.cells}-cells"


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (1.0, 0.0, 0.0), (0.0, 0.9, 0.1)])
@pytest.mark.parametrize("mechanism", ALL, ids=ids)
def test_the_estimate_and_its_population_variance_are_unbiased(
    mechanism: Mechanism, shares: tuple[float, ...]
) -> None:
    """Summed over every tally of 4 reports by an independent sample of the population."""
    n, rows, truth = 4, channel_rows(mechanism), np.array(shares)
    tallies = np.array(list(tallies_of(n, mechanism.cells)))
    weight = probabilities(tallies, truth @ rows)
    assert weight.sum() == pytest.approx(1, abs=1e-12)
    found = estimator_of(mechanism)(tallies, np.full(len(tallies), n))
    assert weight @ found.shares == pytest.approx(truth, abs=1e-10)
    variance = weight @ (found.shares - truth) ** 2
    assert variance == pytest.approx(variance_of_one(mechanism, truth) / n, rel=1e-9)
    stated = variance_population(found.shares, second_moments(mechanism, tallies), np.full(1, n))
    assert weight @ stated == pytest.approx(variance, rel=1e-9)
    assert (found.population >= found.reporters).all()


def second_moments(mechanism: Mechanism, tallies: np.ndarray) -> np.ndarray:
    scores = scores_of(mechanism)
    return tallies @ (scores**2).T / tallies.sum(axis=1, keepdims=True)


def scores_of(mechanism: Mechanism) -> np.ndarray:
    """The scores that an estimator uses: what one report in each cell alone would give."""
    alone = np.eye(mechanism.cells)
    return estimator_of(mechanism)(alone, np.ones(mechanism.cells)).shares.T


def variance_of_one(mechanism: Mechanism, shares: np.ndarray) -> np.ndarray:
    rows, scores = channel_rows(mechanism), scores_of(mechanism)
    return shares @ rows @ (scores**2).T - (shares @ rows @ scores.T) ** 2


@pytest.mark.parametrize("mechanism", ALL, ids=ids)
def test_the_noise_alone_is_that_of_reporters_who_hold_what_they_hold(mechanism: Mechanism) -> None:
    """Enumerated for two holders of value 0 and one of value 2: all responses of all three."""
    rows, scores = channel_rows(mechanism), scores_of(mechanism)
    held = np.array([2 / 3, 0, 1 / 3])
    first, second, third = np.meshgrid(*[np.arange(mechanism.cells)] * 3, indexing="ij")
    weight = (rows[0][first] * rows[0][second] * rows[2][third]).ravel()
    mean = (scores[:, first] + scores[:, second] + scores[:, third]).reshape(3, -1) / 3
    assert mean @ weight == pytest.approx(held, abs=1e-9)
    variance = (mean - held[:, None]) ** 2 @ weight
    if isinstance(mechanism, BlockHadamardResponse):
        stated = variance_reporters(held, mechanism) / 3
    else:
        expected = 3 * held @ rows
        stated = linear_estimate(expected, scores, rows, 3, held).reporters ** 2
    assert stated == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("mechanism", ALL, ids=ids)
def test_the_noise_stays_within_what_some_population_has(mechanism: Mechanism) -> None:
    rows, scores = channel_rows(mechanism), scores_of(mechanism)
    noise = rows @ (scores**2).T - (rows @ scores.T) ** 2
    counts = 100 * np.eye(mechanism.cells)
    found = estimator_of(mechanism)(counts, np.full(len(counts), 100))
    assert found.shares.min() < 0  # no population has such shares
    assert (100 * found.population**2 >= noise.min(axis=0) * (1 - 1e-9)).all()
    assert (100 * found.reporters**2 >= noise.min(axis=0) * (1 - 1e-9)).all()
    assert (100 * found.reporters**2 <= noise.max(axis=0) * (1 + 1e-9)).all()


def test_reports_that_are_all_the_same_do_not_look_certain() -> None:
    """The spread of their scores is zero; the channel's noise is not."""
    for mechanism in ALL:
        counts = np.zeros(mechanism.cells)
        counts[0] = 50
        found = estimator_of(mechanism)(counts, np.full((), 50))
        assert (found.population > 0).all()
        assert np.isfinite(found.skewness).all()


@pytest.mark.parametrize("mechanism", [ONE_BLOCK, TWO_BLOCKS], ids=ids)
def test_scores_of_more_cells_than_values_have_the_least_variance(mechanism: Mechanism) -> None:
    rows = channel_rows(mechanism)
    scores = unbiased_scores(rows)
    assert scores @ rows.T == pytest.approx(np.eye(3), abs=1e-12)
    uniform = np.full(3, 1 / 3)
    best = uniform @ rows @ (scores**2).T
    # Any other unbiased scores differ by something that no value's channel sees.
    blind = np.linalg.svd(rows)[2][3:]
    for direction in np.random.default_rng(3).normal(size=(20, 3, len(blind))):
        other = scores + 0.1 * direction @ blind
        assert other @ rows.T == pytest.approx(np.eye(3), abs=1e-12)
        assert (uniform @ rows @ (other**2).T >= best - 1e-12).all()


def test_scores_of_a_two_probability_channel_are_its_inversion() -> None:
    p, q = float(GRR.p_true), float(GRR.p_false)
    expected = (np.eye(3) - q) / (p - q)
    assert unbiased_scores(channel_rows(GRR)) == pytest.approx(expected, rel=1e-12)


def test_many_collections_are_estimated_as_each_would_be() -> None:
    counts = np.random.default_rng(2).integers(0, 90, (2, 5, 4))
    n = counts.sum(axis=-1)
    together = block_estimate(counts, ONE_BLOCK, n)
    for place in np.ndindex(2, 5):
        alone = block_estimate(counts[place], ONE_BLOCK, n[place])
        for name in ("shares", "population", "reporters", "skewness"):
            assert getattr(together, name)[place] == pytest.approx(getattr(alone, name))


@pytest.mark.parametrize("utility", [LOPSIDED, [[0, 1, 1], [1, 0, 1], [1, 1, 0]]])
def test_fakes_shift_a_share_by_their_best_score_and_no_more(utility: list[list[int]]) -> None:
    """Of the second utility that is downwards: a holder seldom sends the own cell."""
    rows = channel_rows(build("exponential", domain=3, epsilon=2, utility=utility))
    scores = unbiased_scores(rows)
    shift = worst_shift_of(scores, 0.05)
    largest = 0.0
    for value in range(3):
        honest = rows[value] * 950
        moved = []
        for cell in range(3):
            counts = honest + 50 * np.eye(3)[cell]
            moved.append(linear_estimate(counts, scores, rows, 1000).shares - np.eye(3)[value])
        largest = max(largest, np.abs(moved).max())
    assert largest == pytest.approx(shift, rel=1e-9)


def test_intervals_hold_the_truth_and_absent_values_are_seldom_called_present() -> None:
    """20,000 collections of 2,000 reports: 95 % within half a point, six standard errors each
    way (1e-8); at most 5 % of collections call an absent value present, plus six errors."""
    shares = np.array([0.6, 0.4, 0.0])
    chance = np.random.default_rng(11)
    for mechanism in (EXPONENTIAL, TABLE, TWO_BLOCKS):
        law = shares @ channel_rows(mechanism)
        counts = chance.multinomial(2000, law / law.sum(), size=20_000)
        found = estimator_of(mechanism)(counts, np.full(20_000, 2000))
        low, high = found.interval(0.95)
        covered = ((low <= shares) & (shares <= high)).mean(axis=0)
        assert np.abs(covered - 0.95).max() < 0.01
        low, high = found.interval(0.95, 3)
        assert ((low <= shares) & (shares <= high)).all(axis=1).mean() > 0.94
        calls = found.significant(0.95, 3).mean(axis=0)
        bound = 0.05 / 3 + 6 * np.sqrt(0.05 / 3 / 20_000)
        assert calls[0] > 0.9 and calls[2] < bound


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize(
    "mechanism",
    [BlockHadamardResponse.from_epsilon(16, 8), build("exponential", domain=16, epsilon=8)],
    ids=ids,
)
def test_intervals_of_rare_values_hold_where_few_report_at_a_large_epsilon(
    mechanism: Mechanism, n: int
) -> None:
    """20,000 collections; at least 90 %, less six standard errors (1e-8). With the normal law
    alone rare values of one collection in two were missed."""
    shares = np.array([0.6, 0.03, 0.02, *[0.05] * 7, *[0.0] * 6])
    law = shares @ channel_rows(mechanism)
    counts = np.random.default_rng(13).multinomial(n, law / law.sum(), size=20_000)
    low, high = estimator_of(mechanism)(counts, np.full(20_000, n)).interval(0.95)
    covered = ((low <= shares) & (shares <= high)).mean(axis=0)
    assert covered.min() > 0.9 - 6 * np.sqrt(0.9 * 0.1 / 20_000), covered


def test_skewness_is_corrected_for_where_support_is_rare() -> None:
    """Epsilon 6, 300 reports: one reply in a thousand is a fake support. The normal law alone
    would call absent values present twice as often as allowed."""
    mechanism = build("exponential", domain=3, epsilon=6)
    law = channel_rows(mechanism)[0]
    counts = np.random.default_rng(12).multinomial(300, law / law.sum(), size=40_000)
    found = estimator_of(mechanism)(counts, np.full(40_000, 300))
    plain = found.shares > stats.norm.isf(0.05 / 3) * found.population
    corrected = found.significant(0.95, 3)
    assert corrected[:, 1:].mean() < plain[:, 1:].mean()
    assert corrected[:, 1:].mean() < 0.03

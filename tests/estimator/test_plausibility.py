"""The monitor of honest reports: its law is the mechanism's, and crude fakes show."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import Mechanism, Rappor, build
from estimator.debias import Channel, shares
from estimator.decode import decode, design_for
from estimator.plausibility import Plausibility, judge, popcount_law, worst_shift

OUE = build("optimized_unary", domain=16, epsilon=1)
SUE = build("symmetric_unary", domain=12, epsilon=2)
RAPPOR = Rappor(64, 2, 16, f="0.5", p="0.25", q="0.75")
STRINGS = Rappor(16, 2, 4, f="0.5", p="0.25", q="0.75")
CANDIDATES = ("example.org", "example.com", "example.net")
GRR = build("generalized_randomized_response", domain=5, epsilon=1)
COIN = build("randomized_response", domain=2, epsilon=1)


def response_probability(mechanism: Mechanism, value: int | str, bits: tuple[int, ...]) -> float:
    channel = mechanism.channel(value, 0)
    parts = [p if bit else 1 - p for p, bit in zip(channel, bits, strict=True)]
    return float(np.prod([float(Fraction(part)) for part in parts]))


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (build("optimized_unary", domain=7, epsilon=1), 3),
        (build("symmetric_unary", domain=7, epsilon=1), 0),
        (Rappor(8, 3, 2, f="0.5", p="0.25", q="0.75"), "example.org"),
    ],
)
def test_the_law_of_popcounts_is_that_of_all_responses(
    mechanism: Mechanism, value: int | str
) -> None:
    expected = np.zeros(mechanism.cells + 1)
    for bits in itertools.product((0, 1), repeat=mechanism.cells):
        expected[sum(bits)] += response_probability(mechanism, value, bits)
    assert popcount_law(mechanism) == pytest.approx(expected, abs=1e-15)


def crowd(
    mechanism: Mechanism, n: int, chance: np.random.Generator, fake: NDArray[np.int64] | None = None
) -> tuple[Tally, list[int]]:
    """The tally and popcounts of n reports, without counts."""
    popcounts = chance.multinomial(n, popcount_law(mechanism))
    sizes = chance.multinomial(n, np.full(mechanism.cohorts, 1 / mechanism.cohorts))
    if fake is not None:
        popcounts = popcounts + fake
        sizes[0] += fake.sum()
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    return Tally(sizes.astype(np.int64), counts), popcounts.tolist()


@pytest.mark.parametrize("mechanism", [OUE, SUE, RAPPOR])
def test_honest_crowds_raise_less_than_one_alarm_in_a_thousand_epochs(mechanism: Mechanism) -> None:
    """4,000 epochs: at 1 in 1,000 more than 20 alarms have a chance below 1e-7."""
    chance = np.random.default_rng(31)
    sizes = chance.integers(50, 20_000, 4000)
    alarms = sum(judge(mechanism, *crowd(mechanism, int(n), chance)).alarm for n in sizes)
    assert alarms <= 20


@pytest.mark.parametrize("mechanism", [OUE, SUE, RAPPOR])
@pytest.mark.parametrize("sent", ["ones", "nothing", "one bit"])
def test_two_percent_of_crude_fakes_raise_the_alarm(mechanism: Mechanism, sent: str) -> None:
    """Of 10,000. The chance that honest reports hide them is far below 1e-6 each time."""
    fake = np.zeros(mechanism.cells + 1, np.int64)
    fake[{"ones": mechanism.cells, "nothing": 0, "one bit": 1}[sent]] = 200
    found = judge(mechanism, *crowd(mechanism, 9800, np.random.default_rng(7), fake))
    assert found.alarm
    if sent == "ones":
        assert found.popcount_z is not None and found.popcount_z > 6


def test_fakes_that_crowd_into_one_cohort_raise_the_alarm() -> None:
    law = popcount_law(RAPPOR)
    fake = np.random.default_rng(3).multinomial(400, law)
    found = judge(RAPPOR, *crowd(RAPPOR, 10_000, np.random.default_rng(4), fake))
    assert found.alarm and found.cohort_p is not None and found.cohort_p < 1e-9


def test_metrics_without_bits_or_reports_have_no_popcount() -> None:
    none = Plausibility(None, None, None)
    assert judge(GRR, Tally.zero(GRR), ()) == none and not none.alarm
    assert judge(OUE, Tally.zero(OUE), [0] * 17) == none
    few = judge(OUE, Tally(np.array([3]), np.zeros((1, 16), np.int64)), [0, 0, 3] + [0] * 14)
    assert few.popcount_p is None and not few.alarm


@pytest.mark.parametrize("mechanism", [COIN, GRR, OUE, SUE])
def test_no_response_shifts_a_share_by_more_than_stated(mechanism: Mechanism) -> None:
    """Exact: every true share, every support that fakes can give one cell, 1 % of them."""
    channel = Channel.of(mechanism)
    shifts = []
    for share in np.linspace(0, 1, 21):
        honest = float(channel.support(share))
        for fakes_support in (0.0, 1.0):
            mixed = 0.99 * honest + 0.01 * fakes_support
            shifts.append(abs(float(channel.invert(mixed)) - share))
    assert max(shifts) == pytest.approx(worst_shift(mechanism), rel=1e-9)


@pytest.mark.parametrize("mechanism", [OUE, SUE])
def test_one_percent_that_mimic_popcounts_stay_unseen_and_within_the_bound(
    mechanism: Mechanism,
) -> None:
    """Maximal gain under disguise (Cao, Jia, Gong 2021): the target's bit, and as many others as
    an honest report has. Deviation of honest noise: 8 standard errors have a chance below 1e-14."""
    chance = np.random.default_rng(11)
    n, fakes, target = 100_000, 1000, 2
    p, q = float(mechanism.p_true), float(mechanism.p_false)
    truth = np.zeros(mechanism.cells)
    truth[0] = 1.0
    bits = chance.random((n - fakes, mechanism.cells)) < np.where(truth, p, q)
    honest_counts, honest_popcounts = bits.sum(axis=0), bits.sum(axis=1)
    faked = chance.choice(honest_popcounts, fakes).clip(1)
    vectors = np.zeros((fakes, mechanism.cells), bool)
    vectors[:, target] = True
    others = np.delete(np.arange(mechanism.cells), target)
    for row, popcount in zip(vectors, faked, strict=True):
        row[chance.choice(others, popcount - 1, replace=False)] = True
    counts = (honest_counts + vectors.sum(axis=0)).astype(np.int64)
    popcounts = np.bincount(
        np.concatenate([honest_popcounts, faked]), minlength=mechanism.cells + 1
    )
    tally = Tally(np.array([n], np.int64), counts[None, :])
    assert not judge(mechanism, tally, popcounts.tolist()).alarm
    shift = float(shares(tally, mechanism)[target])
    noise = 8 * np.sqrt(q * (1 - q) / n) / Channel.of(mechanism).gap
    assert shift <= worst_shift(mechanism) + noise
    assert shift >= 0.5 * worst_shift(mechanism) - noise


def decoded_share(tally: Tally, target: int) -> tuple[float, float]:
    found = decode(tally, STRINGS, design_for(STRINGS, CANDIDATES))
    return float(found.shares[target]), found.worst_shift


@pytest.mark.parametrize("spread", ["one cohort", "all cohorts"])
def test_fakes_shift_no_string_by_more_than_stated(spread: str) -> None:
    """Expected counts, no chance: one percent of reports become, for one candidate, the vector that
    raises or lowers its share most. Weights are fitted anew, which the bound leaves out: 5 %."""
    n, p, q = 4000, float(STRINGS.p_true), float(STRINGS.p_false)
    held = dict(zip(CANDIDATES, (0.4, 0.2, 0.1), strict=True))
    counts = np.full((STRINGS.cohorts, STRINGS.cells), 0.0)
    for cohort in range(STRINGS.cohorts):
        density = np.full(STRINGS.cells, 0.3 * STRINGS.hashes / STRINGS.cells)
        for candidate, share in held.items():
            density[list(STRINGS.cells_for(candidate, cohort))] += share
        counts[cohort] = n * (q + (p - q) * density)
    reports = np.full(STRINGS.cohorts, n)
    honest = Tally(reports, np.rint(counts).astype(np.int64))
    largest = 0.0
    for target, candidate in enumerate(CANDIDATES):
        share, stated = decoded_share(honest, target)
        for own, other in ((1, 0), (0, 1)):
            sizes = np.zeros(STRINGS.cohorts, np.int64)
            sizes[: 1 if spread == "one cohort" else None] = 1
            sizes *= n * STRINGS.cohorts // 100 // sizes.sum()
            faked = counts * (1 - sizes / n)[:, None]
            for cohort, size in enumerate(sizes):
                vector = np.full(STRINGS.cells, other)
                vector[list(STRINGS.cells_for(candidate, cohort))] = own
                faked[cohort] += size * vector
            moved, _ = decoded_share(Tally(reports, np.rint(faked).astype(np.int64)), target)
            assert abs(moved - share) <= 1.05 * stated
            largest = max(largest, abs(moved - share) / stated)
    # Of one candidate; what is stated is for the worst share, which is that of unlisted strings.
    assert largest > 0.3


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_yes_no_question_raises_no_alarm_whatever_is_answered(share: float) -> None:
    """Its popcount is the answer itself."""
    yes = round(15_000 * float(Channel.of(COIN).support(share)))
    tally = Tally.of([yes], [15_000])
    assert judge(COIN, tally, [15_000 - yes, yes]) == Plausibility(None, None, None)

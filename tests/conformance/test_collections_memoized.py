"""Remembered values: predicted errors against 10,000 simulated collections, and real devices."""

from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import DBitFlip, Loloha, Mechanism, build
from client_sdk.recorder import permanent_response
from estimator import uncertainty
from estimator.debias import Channel, Floats
from estimator.estimate import estimate
from estimator.inversion import asked_by_cohort, hashed
from estimator.releases.release import Privacy
from tests.conformance.real import report_of, tally_of
from tests.conformance.simulated import COLLECTIONS, WITHIN, channel_table, tallies

Counts = NDArray[np.int64]

SHARES = (0.45, 0.25, 0.15, 0.1, 0.05, 0.0, 0.0)
N = 2000

STAGED = [
    "memoized_symmetric_unary",
    "memoized_optimized_unary",
    "memoized_generalized_randomized_response",
    "loloha",
]


def staged(name: str) -> Mechanism:
    return build(name, domain=len(SHARES), epsilon=1, epsilon_permanent="2.5")


def supports(mechanism: Mechanism, counts: Counts) -> Counts:
    if isinstance(mechanism, Loloha):
        return hashed.supports(mechanism, counts.reshape(*counts.shape[:-2], -1))
    return np.asarray(counts.sum(axis=-2))


@pytest.mark.parametrize("name", STAGED)
def test_the_error_about_the_population_is_the_predicted_one(name: str) -> None:
    mechanism = staged(name)
    chance = np.random.default_rng(31)
    _, counts = tallies(mechanism, range(len(SHARES)), SHARES, N, COLLECTIONS, chance)
    channel = Channel.of_values(mechanism)
    found = channel.invert(supports(mechanism, counts) / N)
    compare(found, np.sqrt(uncertainty.variance_population(SHARES, N, channel)))


@pytest.mark.parametrize("name", STAGED)
def test_the_error_about_the_reporters_is_the_predicted_one(name: str) -> None:
    mechanism = staged(name)
    _, counts = of_reporters(mechanism, np.random.default_rng(32))
    channel = Channel.of_values(mechanism)
    found = channel.invert(supports(mechanism, counts) / N)
    compare(found, np.sqrt(uncertainty.variance_reporters(SHARES, N, channel)))


FLIPS = [(7, 1), (7, 3), (7, 7)]


@pytest.mark.parametrize(("domain", "bits"), FLIPS)
def test_the_population_error_of_d_bit_flip_is_the_predicted_one(domain: int, bits: int) -> None:
    mechanism = DBitFlip.from_epsilon(domain, bits, 1)
    chance = np.random.default_rng(33)
    drawn = tallies(mechanism, range(domain), SHARES, N, COLLECTIONS, chance)
    asked, found = asked_by_cohort.asked_and_supports(mechanism, *drawn)
    channel = Channel.of(mechanism)
    predicted = np.sqrt(uncertainty.variance_population(SHARES, 1, channel) * (1 / asked).mean())
    compare(channel.invert(found / asked), predicted)
    # About n d/k are asked; planning takes that for the number.
    rare = (mechanism.rare_variance / N) ** 0.5
    assert predicted[-1] == pytest.approx(rare, rel=0.005)


@pytest.mark.parametrize(("domain", "bits"), FLIPS)
def test_the_reporters_error_of_d_bit_flip_is_the_predicted_one(domain: int, bits: int) -> None:
    mechanism = DBitFlip.from_epsilon(domain, bits, 1)
    drawn = of_reporters(mechanism, np.random.default_rng(34))
    asked, found = asked_by_cohort.asked_and_supports(mechanism, *drawn)
    channel, held = Channel.of(mechanism), np.array(SHARES)
    variance = asked_by_cohort.variance_reporters(held, asked, N, channel).mean(axis=0)
    compare(channel.invert(found / asked), np.sqrt(variance))


def compare(found: Floats, predicted: Floats) -> None:
    assert np.abs(found.std(axis=0) / predicted - 1).max() < WITHIN
    # The mean of 10,000 is within 5.5 of its standard errors but for 3e-7 per case.
    assert (np.abs(found.mean(axis=0) - SHARES) < 5.5 * predicted / COLLECTIONS**0.5).all()


def of_reporters(mechanism: Mechanism, chance: np.random.Generator) -> tuple[Counts, Counts]:
    """Collections of the same reporters: who holds what is fixed, cohorts and noise are not."""
    table = channel_table(mechanism, range(len(SHARES)))
    even = np.full(mechanism.cohorts, 1 / mechanism.cohorts)
    reports = np.zeros((COLLECTIONS, mechanism.cohorts), np.int64)
    counts = np.zeros((*reports.shape, mechanism.cells), np.int64)
    for share, laws in zip(SHARES, table, strict=True):
        members = chance.multinomial(round(N * share), even, size=COLLECTIONS)
        reports += members
        for cohort, law in enumerate(laws):
            if mechanism.kind == "cell":
                counts[:, cohort] += chance.multinomial(members[:, cohort], law / law.sum())
            else:
                counts[:, cohort] += chance.binomial(members[:, cohort, None], law)
    return reports, counts


def test_values_that_nobody_was_asked_for_have_no_estimate() -> None:
    metric = loads(declared('{ name = "d_bit_flip", bits = 2 }', 1, 2)).metrics["colour"]
    mechanism = metric.mechanism
    assert isinstance(mechanism, DBitFlip) and mechanism.domain == 6
    tally = Tally.zero(mechanism)
    assert [e.share for e in estimate(metric, tally).entries] == [None] * 6
    tally.reports[2], tally.counts[2] = 100, (60, 40)
    found = estimate(metric, tally)
    channel = Channel.of(mechanism)
    shares = [entry.share for entry in found.entries]
    assert shares == [None, None, *map(float, channel.invert(np.array([0.6, 0.4]))), None, None]
    assert found.entries[2].consistent is None  # two of six do not add up to one
    assert found.entries[0].interval is None and found.entries[2].interval is not None
    assert found.half_width is not None and found.to_dict()["estimates"][0]["share"] is None


def test_fakes_join_the_cohorts_that_are_asked_for_a_value() -> None:
    mechanism = DBitFlip.from_epsilon(10, 2, 1)
    channel = Channel.of(mechanism)
    reports, counts = np.full(10, 99_000), np.zeros((10, 2))
    counts += reports[:, None] * np.array([channel.p_false, channel.p_false])  # nobody holds it
    honest = asked_by_cohort.asked_and_supports(mechanism, reports, counts.astype(np.int64))
    before = channel.invert(honest[1][0] / honest[0][0])
    reports[0] += 10_000  # one percent of all
    counts[0, 0] += 10_000
    forged = asked_by_cohort.asked_and_supports(mechanism, reports, counts.astype(np.int64))
    after = channel.invert(forged[1][0] / forged[0][0])
    assert after - before == pytest.approx(asked_by_cohort.worst_shift(mechanism), rel=1e-3)


# From a file to estimates

HELD = {"red": 1400, "blue": 900, "green": 500, "grey": 200}


def declared(mechanism: str, epsilon: float, permanent: float, memories: int = 2) -> str:
    if "d_bit_flip" in mechanism:
        permanent = epsilon
    return (
        'schema = 1\n[project]\nname = "a"\nlifetime_epsilon = 50\ncontact = "a@example.org"\n'
        '[metrics.colour]\nquestion = "Which colour is the theme?"\ntype = "category"\n'
        'values = ["red", "blue", "green", "grey", "white", "other"]\ncatch_all = "other"\n'
        f'sensitivity = "product"\nepsilon = {epsilon}\nepoch = "day"\nwhen_absent = "other"\n'
        + (f"mechanism = {mechanism}\n" if mechanism else "")
        + f"memoize = {{ epsilon_permanent = {permanent}, distinct_values = {memories} }}\n"
    )


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        ("", "memoized_generalized_randomized_response"),
        ('"symmetric_unary"', "memoized_symmetric_unary"),
        ('"optimized_unary"', "memoized_optimized_unary"),
        ('"loloha"', "loloha"),
        ('{ name = "loloha", cells = 2 }', "loloha"),
        ('{ name = "d_bit_flip", bits = 3 }', "d_bit_flip"),
        ('{ name = "d_bit_flip", bits = 1 }', "d_bit_flip"),
        ('{ name = "d_bit_flip", bits = 6 }', "d_bit_flip"),
    ],
)
def test_real_reports_of_many_devices_come_back_as_the_truth(mechanism: str, name: str) -> None:
    """3,000 devices with secrets of their own. Each of 8 times 6 shares is off by more than 6
    standard errors once in 5e8: together 1e-7."""
    registry = loads(declared(mechanism, 2, 4))
    metric = registry.metrics["colour"]
    assert metric.mechanism.name == name
    answers = [answer for answer, n in HELD.items() for _ in range(n)]
    tally = tally_of(registry, metric, [report_of(metric, each) for each in answers])
    found = estimate(metric, tally)
    assert found.n == 3000 and [entry.value for entry in found.entries] == list(metric.labels)
    for entry in found.entries:
        assert entry.share is not None and entry.standard_error is not None
        truth = HELD.get(str(entry.value), 0) / 3000
        assert abs(entry.share - truth) < 6 * entry.standard_error
    assert found.entries[0].significant
    stated = Privacy.of(metric)
    assert stated.epsilon_permanent is not None and stated.distinct_values == 2
    assert (stated.epsilon_instantaneous is None) == (name == "d_bit_flip")


def test_memoized_yes_and_no_come_back_as_the_truth() -> None:
    """2,000 devices; a share is off by more than 6 standard errors once in 5e8."""
    text = declared("", 1, 3).replace('type = "category"', 'type = "boolean"')
    lines = [
        line
        for line in text.splitlines()
        if not line.startswith(("values", "catch_all", "when_absent"))
    ]
    registry = loads("\n".join(lines))
    metric = registry.metrics["colour"]
    reports = [report_of(metric, answer) for answer in [True] * 700 + [False] * 1300]
    found = estimate(metric, tally_of(registry, metric, reports))
    no, yes = found.entries
    assert yes.share is not None and no.share is not None and yes.standard_error is not None
    assert yes.share + no.share == pytest.approx(1)
    assert abs(yes.share - 0.35) < 6 * yes.standard_error
    assert metric.mechanism.epsilon <= Decimal(1)


def test_a_fixed_device_sends_one_cohort_and_few_memories() -> None:
    registry = loads(declared('{ name = "loloha", cells = 2 }', 1, 2))
    metric = registry.metrics["colour"]
    by_cell: dict[int, set[int]] = {}
    secret = b"s" * 32
    for value in range(6):
        (cell,) = metric.mechanism.cells_for(value, 1)
        by_cell.setdefault(cell, set()).add(permanent_response(secret, metric, value, 1))
    assert len(by_cell) == 2 and all(len(memories) == 1 for memories in by_cell.values())

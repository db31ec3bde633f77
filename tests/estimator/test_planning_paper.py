"""Planning a survey on paper, against enumeration, simulation and the R package rr's formula."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from estimator.designs import (
    Crosswise,
    Design,
    DesignError,
    Direct,
    ForcedResponse,
    ItemCount,
    Kuk,
    Mangat,
    SeveralAnswers,
    StochasticLieDetector,
    TwoCoins,
    UnrelatedQuestion,
    UnrelatedUnknown,
    Warner,
    YesNo,
)
from estimator.planning.paper import (
    answers_for_margin,
    answers_for_power,
    outlook,
    power,
    variance_of_one,
    worth,
)

ONE_SAMPLE: list[Design] = [
    Direct(),
    Warner(Fraction("0.7")),
    TwoCoins(),
    ForcedResponse("1/6", "1/12"),
    UnrelatedQuestion("0.7", "1/4"),
    Mangat("2/3"),
    Kuk("0.8", "0.2"),
    Crosswise("1/4"),
]


@pytest.mark.parametrize("design", ONE_SAMPLE, ids=lambda design: design.name)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_the_variance_is_that_of_all_outcomes_of_four_answers(design: YesNo, share: float) -> None:
    n = 4
    mean = square = 0.0
    # Every combination of truths and reports of four people, with its probability.
    for truths in itertools.product((0, 1), repeat=n):
        for reports in itertools.product((0, 1), repeat=n):
            chance = math.prod(
                (share if truth else 1 - share) * float(design.matrix()[truth][report])
                for truth, report in zip(truths, reports, strict=True)
            )
            estimate = design.share(sum(reports), n)
            mean += chance * estimate
            square += chance * estimate**2
    assert mean == pytest.approx(share, abs=1e-12)
    assert variance_of_one(design, share) / n == pytest.approx(square - mean**2, abs=1e-12)


def drawn(design: Design, share: float, harmless: Fraction, n: int, times: int) -> np.ndarray:
    """Return estimates from simulated respondents who keep to the instructions."""
    chance = np.random.default_rng(11)
    total = np.zeros(times)
    count = len(design.samples)
    for sample in range(count):
        scores = np.array([float(score) for score in design.scores(design.figures[0])[sample]])
        each = n // count
        holds = chance.random((times, each)) < share
        if isinstance(design, ItemCount):
            of_list = chance.binomial(design.items, float(harmless), (times, each))
            reports = of_list + (holds if sample else 0)
        elif isinstance(design, UnrelatedUnknown):
            p = float((design.p1, design.p2)[sample])
            asked = chance.random((times, each)) < p
            other = chance.random((times, each)) < float(harmless)
            reports = np.where(asked, holds, other)
        else:
            honest = chance.random((times, each)) < float((design.p1, design.p2)[sample])
            reports = np.where(holds, 1, np.where(honest, 0, 1))
        total += scores[reports.astype(int)].mean(axis=1)
    return total


@pytest.mark.parametrize(
    "design",
    [StochasticLieDetector("1/6", "5/6"), UnrelatedUnknown("0.7", "0.3"), ItemCount(3)],
    ids=lambda design: design.name,
)
def test_the_variance_of_two_samples_is_that_of_simulated_people(design: Design) -> None:
    """False alarms: the variance of 4,000 normal draws errs by 2.2 %; 12 % is over 5 sigma."""
    n, harmless = 200, Fraction(1, 3)
    found = drawn(design, 0.3, harmless, n, 4000)
    planned = variance_of_one(design, 0.3, harmless) / n
    assert found.var() == pytest.approx(planned, rel=0.12)
    assert found.mean() == pytest.approx(0.3, abs=6 * math.sqrt(planned / 4000))


def test_one_of_several_answers_has_the_variance_of_the_multinomial_law() -> None:
    design = SeveralAnswers.telling_truth("abc", "0.4")
    matrix = np.array(design.response, float)
    truths = np.array([0.5, 0.25, 0.25])
    law = truths @ matrix
    inverse = np.linalg.inv(matrix)
    covariance = inverse.T @ (np.diag(law) - np.outer(law, law)) @ inverse
    assert variance_of_one(design, 0.5) == pytest.approx(covariance[0, 0])


def test_the_price_of_protection_is_the_ratio_of_variances() -> None:
    # Warner, JASA 60 (1965): Var = (share (1 - share) + p (1 - p) / (2p - 1)^2) / n.
    share, p, n = 0.1, 0.75, 1000
    direct = share * (1 - share)
    warner = direct + p * (1 - p) / (2 * p - 1) ** 2
    assert worth(Warner("0.75"), share, n) == pytest.approx(n * direct / warner)
    assert worth(Direct(), share, n) == pytest.approx(n)
    assert worth(Warner("0.75"), 0.0, n) == 0
    # So many direct answers have the same standard error.
    found = outlook(Warner("0.75"), share, n)
    assert math.sqrt(direct / found.worth) == pytest.approx(found.standard_error)


@pytest.mark.parametrize("design", ONE_SAMPLE, ids=lambda design: design.name)
def test_the_answers_for_a_margin_are_the_fewest(design: Design) -> None:
    for share, margin in ((0.05, 0.02), (0.5, 0.1)):
        n = answers_for_margin(design, share, margin)
        assert outlook(design, share, n).margin <= margin * (1 + 1e-9)
        assert n == 1 or outlook(design, share, n - 1).margin > margin


def test_the_worst_margin_is_the_worst_of_all_shares() -> None:
    for design in (*ONE_SAMPLE, StochasticLieDetector("1/6", "5/6"), ItemCount(3)):
        found = outlook(design, 0.2, 100)
        every = [outlook(design, share / 200, 100).margin for share in range(201)]
        assert found.worst_margin == pytest.approx(max(every), rel=1e-4)
        assert found.worst_margin >= max(every) * (1 - 1e-12)


def rr_standard_error(p: float, p1: float, share: float, n: int) -> float:
    """By the information that power.rr.test of rr 1.4 takes for "forced-known".

    With c = p and d = p1 it is c^2 (1 / (c share + d) + 1 / (1 - c share - d)).
    """
    chance = p * share + p1
    return 1 / math.sqrt(n * p**2 * (1 / chance + 1 / (1 - chance)))


@pytest.mark.parametrize(
    ("one", "other", "n"), [(0.0, 0.2, 200), (0.1, 0.15, 2500), (0.3, 0.1, 90)]
)
def test_power_is_that_of_the_r_package_rr(one: float, other: float, n: int) -> None:
    """The design of its documented example: 2/3 truth, 1/6 forced yes, 1/6 forced no."""
    null = rr_standard_error(2 / 3, 1 / 6, one, n)
    error = math.hypot(null, rr_standard_error(2 / 3, 1 / 6, other, n))
    threshold = stats.norm.ppf(0.975) * math.sqrt(2) * null
    expected = stats.norm.cdf(-threshold, other - one, error) + stats.norm.sf(
        threshold, other - one, error
    )
    assert power(ForcedResponse("1/6", "1/6"), (one, other), n) == pytest.approx(expected)


def test_simulated_groups_are_called_different_as_often_as_planned() -> None:
    """False alarms: 40,000 tests err by at most 0.25 %; 1.5 % leaves over 5 sigma for the law."""
    design, shares, n = TwoCoins(), (0.2, 0.3), 1000
    chance = np.random.default_rng(7)
    estimates = [
        (chance.binomial(n, design.a + design.c * share, 40_000) / n - design.a) / design.c
        for share in shares
    ]
    null = math.sqrt(2 * variance_of_one(design, 0.2) / n)
    called = np.abs(estimates[1] - estimates[0]) > stats.norm.ppf(0.975) * null
    assert called.mean() == pytest.approx(power(design, shares, n), abs=0.015)


def test_the_answers_for_a_power_are_the_fewest() -> None:
    design = Warner("0.7")
    n = answers_for_power(design, (0.2, 0.3), 0.8)
    assert power(design, (0.2, 0.3), n) >= 0.8 > power(design, (0.2, 0.3), n - 1)
    assert answers_for_power(design, (0.3, 0.2), 0.8) > 1
    assert answers_for_power(Direct(), (0.2, 0.3), 0.8) < n


def test_equal_shares_have_the_power_of_the_level() -> None:
    assert power(Warner("0.7"), (0.2, 0.2), 500) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: variance_of_one(Direct(), 1.2), "share"),
        (lambda: outlook(Direct(), 0.2, 0), "answers"),
        (lambda: answers_for_margin(Direct(), 0.2, 0.0), "margin"),
        (lambda: answers_for_power(Direct(), (0.2, 0.2), 0.8), "difference"),
        (lambda: answers_for_power(Direct(), (0.2, 0.3), 0.01), "power"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(call, rule: str) -> None:
    with pytest.raises(DesignError, match=rule):
        call()

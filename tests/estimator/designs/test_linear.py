"""Estimates from samples: intervals, weights, strata and finite populations."""

from itertools import combinations, product
from math import comb, sqrt

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from estimator.designs import (
    Crosswise,
    DesignError,
    Direct,
    ForcedResponse,
    Kuk,
    Mangat,
    Sample,
    SeveralAnswers,
    StochasticLieDetector,
    Stratum,
    Triangular,
    TwoCoins,
    UnrelatedQuestion,
    UnrelatedUnknown,
    Warner,
    estimate,
)
from estimator.errors import NoReports

WARNER = Warner("3/4")


def one(design, counts, size=None, **options):
    (figure,) = estimate(design, [Stratum((Sample.of_counts(counts),), size)], **options)
    return figure


@pytest.mark.parametrize("design", [Direct(), WARNER, Warner("1/6"), Crosswise("1/4")], ids=str)
@pytest.mark.parametrize(("method", "oracle"), [("wilson", "wilson"), ("clopper_pearson", "beta")])
@pytest.mark.parametrize("yes", [0, 3, 50, 120])
def test_intervals_are_those_of_the_reports_mapped_through_the_design(design, method, oracle, yes):
    figure = one(design, [120 - yes, yes], level=0.9, method=method)
    low, high = proportion_confint(yes, 120, alpha=0.1, method=oracle)
    ends = sorted([(low - design.a) / design.c, (high - design.a) / design.c])
    assert figure.interval == pytest.approx(ends, abs=1e-12)


@pytest.mark.parametrize(
    "design",
    [
        Direct(),
        Warner("0.7"),
        TwoCoins(),
        ForcedResponse("1/6", "1/6"),
        UnrelatedQuestion("0.7", "0.3"),
        Mangat("0.6"),
        Kuk("0.8", "0.2"),
        Crosswise("1/4"),
        Triangular("1/4"),
    ],
    ids=lambda each: each.name,
)
def test_few_answers_have_intervals_that_cover(design):
    # Of 30 answers, all outcomes: exact. Wilson's covers 95 % on average over the truth and never
    # much less; estimate -+ z errors covers less than 92 % somewhere, of mangat but 30 %.
    ends = [one(design, [30 - yes, yes]) for yes in range(31)]
    covered = {"interval": [], "normal": []}
    for share in np.linspace(0.02, 0.98, 25):
        chances = stats.binom.pmf(range(31), 30, design.a + design.c * share)
        for kind, found in covered.items():
            held = [low <= share <= high for low, high in (getattr(end, kind) for end in ends)]
            found.append(float(chances @ held))
    assert 0.94 < np.mean(covered["interval"]) < 0.96
    assert min(covered["interval"]) > 0.92 > min(covered["normal"])
    if isinstance(design, Mangat):
        assert round(min(covered["normal"]), 2) == 0.30


def test_two_samples_join_their_intervals_as_newcombe_does():
    # Of p1 = 0 and p2 = 1 the lie detector's share is 1 - (l1 - l2): a difference of two shares.
    samples = (Sample.of_counts([30, 70]), Sample.of_counts([90, 60]))
    share = estimate(StochasticLieDetector(0, 1), [Stratum(samples)])[0]
    low, high = confint_proportions_2indep(70, 100, 60, 150, method="newcomb", compare="diff")
    assert share.estimate == pytest.approx(1 - 0.3)
    assert share.interval == pytest.approx([1 - high, 1 - low])


def test_symmetric_designs_of_several_answers_have_wilson_intervals():
    design = SeveralAnswers.telling_truth(("a", "b", "c"), "1/2")
    figures = estimate(design, [Stratum((Sample.of_counts([50, 30, 20]),))])
    low, high = proportion_confint(30, 100, method="wilson")
    assert figures[1].interval == pytest.approx([2 * low - 1 / 3, 2 * high - 1 / 3])


def test_equal_weights_change_nothing():
    rows = [1] * 30 + [0] * 70
    plain = one(WARNER, [70, 30])
    sample = Sample.of_rows(rows, [2.5] * 100, 2)
    (weighted,) = estimate(WARNER, [Stratum((sample,))])
    assert weighted.estimate == pytest.approx(plain.estimate)
    assert weighted.standard_error == pytest.approx(plain.standard_error)
    assert weighted.interval == pytest.approx(plain.interval)
    assert sample.kish == pytest.approx(100)


def test_weighted_errors_are_those_of_a_linearized_ratio():
    # n / (n - 1) * sum of w^2 (r - mean)^2 / (sum of w)^2, what R's survey package calls svymean.
    random = np.random.default_rng(3)
    reports, weights = random.integers(0, 2, 60), random.uniform(0.3, 4, 60)
    (figure,) = estimate(WARNER, [Stratum((Sample.of_rows(reports, weights, 2),))])
    scores = np.where(reports == 1, 1.5, -0.5)
    mean = DescrStatsW(scores, weights).mean
    assert figure.estimate == pytest.approx(mean)
    squares = (weights**2 * (scores - mean) ** 2).sum() / weights.sum() ** 2
    assert figure.standard_error == pytest.approx(sqrt(60 / 59 * squares))


def test_weights_that_vary_widen_wilsons_interval_as_fewer_answers_would():
    reports = [1, 0] * 50
    even = Sample.of_rows(reports, [1.0] * 100, 2)
    odd = Sample.of_rows(reports, [1.0, 1.0, 5.0, 5.0] * 25, 2)
    assert odd.kish < 75 and odd.effective(np.array([False, True])) == pytest.approx(odd.kish)
    (narrow,), (wide,) = (estimate(WARNER, [Stratum((each,))]) for each in (even, odd))
    low, high = proportion_confint(odd.kish / 2, odd.kish, method="wilson")
    assert wide.interval == pytest.approx([2 * low - 0.5, 2 * high - 0.5])
    assert wide.interval[0] < narrow.interval[0]


def test_one_heavy_respondent_is_not_worth_hundreds():
    # Eight answers, of which one outweighs all others: the linearized variance is near 0.
    rows = Sample.of_rows([1, 0, 1, 0, 0, 1, 0, 1], [1e6, 1, 1, 1, 1, 1, 1, 1], 2)
    low, high = estimate(Direct(), [Stratum((rows,))])[0].interval
    assert rows.kish == pytest.approx(1, abs=1e-4)
    assert (low, high) == pytest.approx(proportion_confint(1, 1, method="wilson"), abs=1e-4)


@pytest.mark.slow
def test_intervals_of_weighted_answers_cover():
    # 95 % of 2,000, less 5 standard errors (false alarm below 1e-6); 68 % before Kish's number
    # was the most that answers may be worth.
    random = np.random.default_rng(12)
    held = 0
    for _ in range(2000):
        rows = (random.random(50) < 0.3).astype(int)
        sample = Sample.of_rows(rows, random.lognormal(0, 2, 50), 2)
        low, high = estimate(Direct(), [Stratum((sample,))])[0].interval
        held += low <= 0.3 <= high
    assert held / 2000 > 0.95 - 5 * sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_unit_of_weights_changes_nothing(scale):
    weights = [1.0, 2.0, 0.5]
    plain, scaled = (
        estimate(WARNER, [Stratum((Sample.of_rows([1, 0, 1], [f * w for w in weights], 2),))])[0]
        for f in (1, scale)
    )
    assert scaled.estimate == pytest.approx(plain.estimate)
    assert scaled.standard_error == pytest.approx(plain.standard_error)


def test_an_entry_may_stand_for_several_respondents():
    counted = Sample.of_rows([1, 0, 1], [2.0, 1.0, 3.0], 2, [3, 4, 1])
    written = Sample.of_rows([1] * 3 + [0] * 4 + [1], [2.0] * 3 + [1.0] * 4 + [3.0], 2)
    assert (counted.n, counted.kish) == (written.n, pytest.approx(written.kish))
    assert np.allclose(counted.shares, written.shares)
    assert np.allclose(counted.covariance, written.covariance)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_weights_that_weigh_nothing_are_refused(weight):
    with pytest.raises(ValueError, match="above 0"):
        Sample.of_rows([1, 0], [1, weight], 2)


def test_strata_are_weighted_by_their_sizes():
    first, second = Sample.of_counts([60, 40]), Sample.of_counts([30, 20])
    strata = [Stratum((first,), 3000, "north"), Stratum((second,), 1000, "south")]
    (both,) = estimate(WARNER, strata)
    north, south = one(WARNER, [60, 40]), one(WARNER, [30, 20])
    assert both.estimate == pytest.approx(0.75 * north.estimate + 0.25 * south.estimate)
    error = sqrt(0.75**2 * north.standard_error**2 + 0.25**2 * south.standard_error**2)
    assert both.standard_error == pytest.approx(error)
    below = sqrt(
        (0.75 * (north.estimate - north.interval[0])) ** 2
        + (0.25 * (south.estimate - south.interval[0])) ** 2
    )
    assert both.interval[0] == pytest.approx(both.estimate - below)


def test_strata_may_be_asked_with_parameters_of_their_own():
    paper, browser = (
        SeveralAnswers.telling_truth("abc", "4/11"),
        SeveralAnswers.telling_truth("abc", "0.36"),
    )
    counts = {paper: [120, 60, 20], browser: [200, 60, 40]}
    strata = [
        Stratum((Sample.of_counts(own),), size, name, design)
        for (design, own), size, name in zip(
            counts.items(), (3000, 1000), ("paper", "browser"), strict=True
        )
    ]
    alone = [
        estimate(design, [Stratum((Sample.of_counts(own),))]) for design, own in counts.items()
    ]
    for figure, on_paper, in_browser in zip(estimate(paper, strata), *alone, strict=True):
        assert figure.estimate == pytest.approx(
            0.75 * on_paper.estimate + 0.25 * in_browser.estimate
        )
        error = sqrt(0.75**2 * on_paper.standard_error**2 + 0.25**2 * in_browser.standard_error**2)
        assert figure.standard_error == pytest.approx(error)


def test_errors_in_a_finite_population_are_those_of_all_samples_and_all_noise():
    # 6 people, 2 of whom hold it; every sample of 3, every outcome of their dice: the mean
    # estimated variance is the variance of the estimates.
    holds, n = [1, 1, 0, 0, 0, 0], 3
    design = ForcedResponse("1/6", "1/4")
    holder, other = (float(p) for p in design.p_yes)
    mean = square = claimed = 0.0
    for drawn in combinations(holds, n):
        for said in product((0, 1), repeat=n):
            chances = [holder if held else other for held in drawn]
            chance = np.prod([p if yes else 1 - p for p, yes in zip(chances, said, strict=True)])
            chance /= comb(6, n)
            figure = one(design, [n - sum(said), sum(said)], 6, finite=True)
            mean += chance * figure.estimate
            square += chance * figure.estimate**2
            claimed += chance * figure.standard_error**2
    assert mean == pytest.approx(2 / 6)
    assert claimed == pytest.approx(square - mean**2)


@pytest.mark.parametrize("design", [UnrelatedUnknown(0.9, 0.2), StochasticLieDetector(0.1, 0.9)])
def test_two_samples_of_a_finite_population_have_errors_no_smaller_than_the_true_ones(design):
    # 5 people who hold it or not and have the harmless trait or not (liars: they lie, each time);
    # every division into two samples of 2, every outcome of their dice.
    people = [(1, 0), (1, 1), (0, 1), (0, 0), (1, 1)]
    mean = square = claimed = plain = 0.0
    for one_out in range(5):
        rest = [person for place, person in enumerate(people) if place != one_out]
        for first in combinations(range(4), 2):
            order = sorted(range(4), key=lambda place, first=first: place not in first)
            for said in product((0, 1), repeat=4):
                chance = 1 / 30
                for turn, place in enumerate(order):
                    yes = _yes(design, float((design.p1, design.p2)[turn // 2]), *rest[place])
                    chance *= yes if said[turn] else 1 - yes
                counts = [[2 - sum(both), sum(both)] for both in (said[:2], said[2:])]
                stratum = Stratum(tuple(map(Sample.of_counts, counts)), 5)
                share = estimate(design, [stratum], finite=True)[0]
                mean += chance * share.estimate
                square += chance * share.estimate**2
                claimed += chance * share.standard_error**2
                plain += chance * estimate(design, [stratum])[0].standard_error ** 2
    assert mean == pytest.approx(3 / 5)
    assert plain - (square - mean**2) == pytest.approx(0.6 * 0.4 / 4)
    assert square - mean**2 < claimed < plain
    samples = tuple(map(Sample.of_counts, ([40, 60], [60, 40])))
    finite, plain = (estimate(design, [Stratum(samples, 300)], finite=own) for own in (1, 0))
    less = plain[0].standard_error ** 2 - finite[0].standard_error ** 2
    assert less == pytest.approx(plain[0].estimate * (1 - plain[0].estimate) / 300)
    assert finite[1:] == plain[1:]  # other figures are not corrected


def _yes(design, p, holds, harmless):
    if isinstance(design, UnrelatedUnknown):
        return p * holds + (1 - p) * harmless
    return float(harmless) if holds else 1 - p


def test_answers_that_are_all_alike_are_no_proof_of_a_misfit():
    # Three weighted yes answers, where Warner's device gives that to 3 of 10 holders' triples:
    # the error at the estimate is 0, the one at the border is not.
    rows = Sample.of_rows([1, 1, 1], [1, 2, 3], 2)
    figure = estimate(Warner("0.7"), [Stratum((rows,))])[0]
    assert figure.standard_error == 0 and figure.verdict.kind == "noise"
    z = 0.75 / (sqrt(0.21 / 0.16) * sqrt(14 / 36))
    assert figure.verdict.probability == pytest.approx(stats.norm.sf(z))
    forced = ForcedResponse("1/6", "1/2")  # P(yes) is 1/6 of others, 1/2 of holders
    none = Sample.of_rows([0] * 9, [1.0] * 9, 2)
    below = estimate(forced, [Stratum((none,))])[0].verdict
    assert below.probability == pytest.approx(stats.norm.sf(1 / 6 / sqrt(1 / 6 * 5 / 6 / 9)))
    strata = [Stratum((Sample.of_counts([0, 2]),), size) for size in (300, 200)]
    assert estimate(Warner("0.7"), strata)[0].verdict.kind == "noise"
    two = (Sample.of_counts([0, 2]), Sample.of_counts([2, 0]))
    assert estimate(UnrelatedUnknown(0.7, 0.3), [Stratum(two)])[0].verdict.kind == "noise"
    many = (Sample.of_counts([0, 50]), Sample.of_counts([50, 0]))
    assert estimate(UnrelatedUnknown(0.7, 0.3), [Stratum(many)])[0].verdict.kind == "misfit"


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 100])
def test_honest_answers_without_an_exact_law_are_called_a_misfit_as_seldom_as_stated(n):
    # 2.5 % of 4,000, and 5 standard errors more (false alarm below 1e-6), and half a point for
    # the normal law being a limit.
    random = np.random.default_rng(11)
    matrix = SeveralAnswers.telling_truth(["a", "b", "c"], "1/2")
    laws = np.array(matrix.matrix(), float)
    found = np.zeros(2)
    for _ in range(4000):
        sample = Sample.of_counts([int(k) for k in random.multinomial(n, laws[1:].mean(axis=0))])
        found[0] += estimate(matrix, [Stratum((sample,))])[0].verdict.kind == "misfit"
        rows = (random.random(n) < 0.3).astype(int)
        weighted = Sample.of_rows(rows, random.lognormal(0, 0.7, n), 2)
        found[1] += estimate(Warner("0.7"), [Stratum((weighted,))])[0].verdict.kind == "misfit"
    assert np.all(found / 4000 < 0.025 + 5 * sqrt(0.025 * 0.975 / 4000) + 0.005), found


def test_a_ratio_to_what_may_be_0_is_not_told():
    def names(first, second):
        samples = (Sample.of_counts(first), Sample.of_counts(second))
        return [each.name for each in estimate(StochasticLieDetector(0.2, 0.8), [Stratum(samples)])]

    assert names([20, 80], [80, 20]) == ["share", "admitted"]  # a share of 0
    assert names([10, 90], [85, 15]) == ["share", "admitted"]  # and below
    assert names([50, 50], [60, 40]) == ["share", "admitted", "honesty"]


def test_a_census_by_direct_questions_has_no_error_and_one_with_noise_has():
    assert one(Direct(), [60, 40], 100, finite=True).standard_error == 0
    noise = one(WARNER, [60, 40], 100, finite=True).standard_error
    assert noise == pytest.approx(sqrt(0.75 * 0.25 / 100 / 0.25))


def test_what_cannot_be_corrected_or_combined_is_refused():
    two = (Sample.of_counts([5, 5]), Sample.of_counts([5, 5]))
    with pytest.raises(DesignError, match="20 answers, more than its 19 people"):
        estimate(UnrelatedUnknown(0.7, 0.3), [Stratum(two, 19)], finite=True)
    with pytest.raises(DesignError, match="'north' needs its size"):
        estimate(WARNER, [Stratum(two[:1], None, "north"), Stratum(two[1:], 50, "south")])
    with pytest.raises(DesignError, match="10 answers, more than its 9 people"):
        one(WARNER, [5, 5], 9, finite=True)
    with pytest.raises(DesignError, match="needs two answers in each"):
        one(WARNER, [0, 1])
    with pytest.raises(NoReports):
        Sample.of_counts([0, 0])


def test_the_chance_of_an_estimate_outside_is_counted_exactly():
    design = ForcedResponse.by_truth("3/4", "2/3")
    figure = one(design, [1326, 200])
    assert figure.verdict.kind == "misfit"
    assert figure.verdict.probability == pytest.approx(stats.binom.cdf(200, 1526, 1 / 6))
    above = one(design, [50, 950])
    assert above.verdict.border == 1
    assert above.verdict.probability == pytest.approx(stats.binom.sf(949, 1000, 11 / 12))
    falling = one(Warner("1/4"), [200, 800])  # p below 1/2: many a yes means a low estimate
    assert falling.estimate < 0 and falling.verdict.border == 0
    assert falling.verdict.probability == pytest.approx(stats.binom.sf(799, 1000, 3 / 4))


def test_verdicts_are_in_words():
    design = ForcedResponse.by_truth("3/4", "2/3")
    noise = one(design, [1526 - 248, 248]).verdict
    assert noise.kind == "noise" and "That is noise" in noise.words and "35% of" in noise.words
    misfit = one(design, [1526 - 200, 200]).verdict
    assert "do not fit the design" in misfit.words and "once in 14,000 surveys" in misfit.words
    assert one(design, [500, 500]).verdict.words == ""

"""Regression of randomized answers, and differences between groups."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, special, stats
from statsmodels.base.model import GenericLikelihoodModel

from estimator.designs import (
    DesignError,
    Sample,
    StochasticLieDetector,
    Stratum,
    UnrelatedQuestion,
    Warner,
    estimate,
)
from estimator.designs.difference import difference, homogeneity
from estimator.designs.logistic import category, fit, number

WARNER = Warner("0.8")


def survey(random, n, beta, design=WARNER):
    """Return answers, age and sex of honest respondents."""
    age, sex = random.uniform(-2, 2, n), random.integers(0, 2, n)
    share = special.expit(beta[0] + beta[1] * age + beta[2] * sex)
    chance = design.a + design.c * (random.random(n) < share)
    return (random.random(n) < chance).astype(float), age, sex


def fitted(yes, age, sex, design=WARNER):
    n = len(yes)
    terms = [number("age", age), category("sex", ["fm"[each] for each in sex])]
    return fit(yes, np.full(n, design.a), np.full(n, design.c), terms)


class Randomized(GenericLikelihoodModel):
    """The same likelihood, maximized and differentiated by statsmodels."""

    def nloglikeobs(self, params):
        chance = WARNER.a + WARNER.c * special.expit(self.exog @ params)
        return -np.log(np.where(self.endog == 1, chance, 1 - chance))


def test_direct_answers_are_fitted_as_by_ordinary_logistic_regression():
    random = np.random.default_rng(1)
    yes, age, sex = survey(random, 500, (-0.5, 0.6, 0.4))
    ours = fit(yes, np.zeros(500), np.ones(500), [number("age", age), number("sex", sex)])
    oracle = sm.Logit(yes, np.column_stack([np.ones(500), age, sex])).fit(disp=0)
    assert [c.estimate for c in ours.coefficients] == pytest.approx(oracle.params, abs=1e-6)
    assert [c.standard_error for c in ours.coefficients] == pytest.approx(oracle.bse, rel=1e-6)
    assert ours.log_likelihood == pytest.approx(oracle.llf)
    assert ours.tests[-1].chi_square == pytest.approx(oracle.llr)
    assert ours.tests[-1].p_value == pytest.approx(oracle.llr_pvalue)


def test_randomized_answers_are_fitted_as_by_another_optimizer():
    yes, age, sex = survey(np.random.default_rng(2), 1500, (-0.5, 0.6, 0.4))
    ours = fitted(yes, age, sex)
    model = Randomized(yes, np.column_stack([np.ones(1500), age, sex]))
    oracle = model.fit(start_params=np.zeros(3), method="bfgs", disp=0, gtol=1e-8, maxiter=500)
    assert [c.estimate for c in ours.coefficients] == pytest.approx(oracle.params, abs=1e-5)
    assert [c.standard_error for c in ours.coefficients] == pytest.approx(oracle.bse, rel=1e-4)
    null = Randomized(yes, np.column_stack([np.ones(1500), sex]))
    without = null.fit(start_params=np.zeros(2), method="bfgs", disp=0, gtol=1e-8, maxiter=500)
    gain = 2 * (oracle.llf - without.llf)
    assert ours.tests[0].name == "age"
    assert ours.tests[0].chi_square == pytest.approx(gain, abs=1e-6)
    assert ours.tests[0].p_value == pytest.approx(stats.chi2.sf(gain, 1), rel=1e-5)


def test_a_model_of_groups_alone_gives_the_groups_own_estimates():
    yes, _, sex = survey(np.random.default_rng(3), 2000, (-0.2, 0.0, 0.8))
    ours = fit(yes, np.full(2000, 0.2), np.full(2000, 0.6), [number("sex", sex)])
    first, second = (c.estimate for c in ours.coefficients)
    shares = [WARNER.share(yes[sex == group].sum(), (sex == group).sum()) for group in (0, 1)]
    assert special.expit([first, first + second]) == pytest.approx(shares, abs=1e-6)


def test_each_respondent_may_have_been_asked_with_other_parameters():
    random = np.random.default_rng(4)
    n = 4000
    q = np.where(random.random(n) < 0.5, 0.3, 0.6)
    designs = {rate: UnrelatedQuestion("0.8", rate) for rate in (0.3, 0.6)}
    a = np.array([designs[rate].a for rate in q])
    c = np.array([designs[rate].c for rate in q])
    x = random.normal(size=n)
    held = random.random(n) < special.expit(-0.4 + 0.7 * x)
    yes = (random.random(n) < a + c * held).astype(float)
    slope = fit(yes, a, c, [number("x", x)]).coefficients[1]
    assert abs(slope.estimate - 0.7) < 5 * slope.standard_error  # false alarm below 1e-6


def test_the_scale_of_a_covariate_changes_its_coefficient_and_nothing_else():
    yes, age, sex = survey(np.random.default_rng(5), 800, (-0.5, 0.6, 0.4))
    near, far = fitted(yes, age, sex), fitted(yes, 1980 + 1000 * age, sex)
    assert far.log_likelihood == pytest.approx(near.log_likelihood)
    assert far.coefficients[1].estimate == pytest.approx(near.coefficients[1].estimate / 1000)
    assert far.tests[0].chi_square == pytest.approx(near.tests[0].chi_square, abs=1e-5)


def test_the_lie_detectors_share_and_honesty_are_those_without_covariates():
    yes = np.repeat([0.0, 1.0, 0.0, 1.0], [191, 373, 294, 398])
    no = np.repeat([1 / 6, 1 / 6, 5 / 6, 5 / 6], [191, 373, 294, 398])
    ours = fit(yes, 1 - no, no - 1, [], lying=np.ones(len(yes)))
    design = StochasticLieDetector("1/6", "5/6")
    samples = (Sample.of_counts([191, 373]), Sample.of_counts([294, 398]))
    share, _, honesty = estimate(design, [Stratum(samples)], divisor="n")
    assert special.expit(ours.coefficients[0].estimate) == pytest.approx(share.estimate, abs=1e-6)
    assert ours.honesty.estimate == pytest.approx(honesty.estimate, abs=1e-6)
    assert ours.honesty.standard_error == pytest.approx(honesty.standard_error, rel=1e-4)


def test_a_likelihood_without_a_top_is_refused_in_words():
    # A share estimated below 0: the intercept runs away.
    yes = np.repeat([0.0, 1.0], [870, 130])
    x = np.tile([0.0, 1.0], 500)
    with pytest.raises(DesignError, match="no top"):
        fit(yes, np.full(1000, 0.2), np.full(1000, 0.6), [number("x", x)])
    separated = np.repeat([0.0, 1.0], 50)  # x says it all
    with pytest.raises(DesignError, match="no top"):
        fit(separated, np.zeros(100), np.ones(100), [number("x", separated)])


def test_a_likelihood_without_a_top_names_the_covariate_that_runs_away():
    yes = np.repeat([1.0, 0.0, 1.0, 0.0], [60, 40, 20, 80])
    group = category("sex", ["f"] * 100 + ["m"] * 100)  # of the men less than 0 hold it
    age = number("age", np.tile([20.0, 30.0], 100))
    with pytest.raises(DesignError, match="'sex: m' goes farthest"):
        fit(yes, np.full(200, 0.3), np.full(200, 0.4), [age, group])


def test_honesty_at_its_border_is_no_top():
    # All of sample 1 say yes: the likelihood is highest where P(yes) is 1, with a slope there.
    yes = np.repeat([1.0, 1.0, 0.0], [40, 15, 25])
    no = np.repeat([0.2, 0.8, 0.8], [40, 15, 25])
    with pytest.raises(DesignError, match=r"no top.*'honesty' goes farthest"):
        fit(yes, 1 - no, no - 1, [], lying=np.ones(80))


def test_the_highest_of_several_tops_is_found():
    # Of 150 honest respondents: the likelihood has two tops, with slopes of opposite sign.
    random = np.random.default_rng(107)
    x, sex = random.normal(size=150), random.integers(0, 2, 150).astype(float)
    held = random.random(150) < special.expit(1 + x + sex)
    yes = (random.random(150) < 0.3 + 0.4 * held).astype(float)
    ours = fit(yes, np.full(150, 0.3), np.full(150, 0.4), [number("x", x), number("sex", sex)])
    columns = np.column_stack([np.ones(150), x, sex])

    def lost(beta):
        chance = 0.3 + 0.4 * special.expit(columns @ beta)
        return -np.where(yes == 1, np.log(chance), np.log(1 - chance)).sum()

    found = [optimize.minimize(lost, 2 * random.normal(size=3), method="BFGS") for _ in range(40)]
    best = min((each for each in found if np.abs(each.x).max() < 12), key=lambda each: each.fun)
    assert ours.log_likelihood > -best.fun - 1e-4


def test_weighted_answers_are_fitted_as_by_a_generalized_linear_model():
    random = np.random.default_rng(13)
    yes, age, sex = survey(random, 500, (-0.5, 0.6, 0.4))
    weights = random.lognormal(0, 0.6, 500)
    terms = [number("age", age), number("sex", sex)]
    ours = fit(yes, np.zeros(500), np.ones(500), terms, weights=1000 * weights)
    columns = np.column_stack([np.ones(500), age, sex])
    model = sm.GLM(yes, columns, sm.families.Binomial(), var_weights=weights / weights.mean())
    oracle = model.fit(cov_type="HC0")
    errors = oracle.bse * np.sqrt(500 / 499)
    assert [c.estimate for c in ours.coefficients] == pytest.approx(oracle.params, abs=1e-6)
    assert [c.standard_error for c in ours.coefficients] == pytest.approx(errors, rel=1e-5)
    wald = (oracle.params[1] / errors[1]) ** 2
    assert ours.weighted and ours.tests[0].chi_square == pytest.approx(wald, rel=1e-4)
    both = oracle.wald_test(np.eye(3)[1:], scalar=True).statistic
    assert ours.tests[-1].chi_square == pytest.approx(both * 499 / 500, rel=1e-4)


def test_dates_in_seconds_are_no_repetition():
    yes = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 20, 30, 30])
    near, far = (
        fit(
            yes,
            np.full(110, 0.3),
            np.full(110, 0.4),
            [number("t", start + np.repeat([0, 1], [50, 60]))],
        )
        for start in (0, 1_700_000_000)
    )
    assert far.coefficients[1].estimate == pytest.approx(near.coefficients[1].estimate, abs=1e-6)


def test_covariates_that_say_nothing_or_the_same_twice_are_refused():
    with pytest.raises(DesignError, match="'x' is the same for all"):
        number("x", [1, 1, 1])
    with pytest.raises(DesignError, match="'x' is the same for all"):
        category("x", ["a", "a"])
    x = np.arange(50.0)
    terms = [number("x", x), number("twice", 2 * x)]
    with pytest.raises(DesignError, match="repeat each other"):
        fit(np.tile([0.0, 1.0], 25), np.zeros(50), np.ones(50), terms)


def test_a_difference_joins_both_groups_errors():
    def figure(counts):
        return estimate(WARNER, [Stratum((Sample.of_counts(counts),))])[0]

    women, men = figure([300, 200]), figure([200, 250])
    found = difference(men, women)
    assert found.estimate == pytest.approx(men.estimate - women.estimate)
    error = np.hypot(men.standard_error, women.standard_error)
    assert found.standard_error == pytest.approx(error)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(found.estimate / error))
    below = np.hypot(men.estimate - men.interval[0], women.interval[1] - women.estimate)
    assert found.interval[0] == pytest.approx(found.estimate - below)
    both = homogeneity([women, men])
    assert both.p_value == pytest.approx(found.p_value)  # of two groups they are one test
    none = difference(figure([5, 0]), figure([0, 5]))
    assert none.p_value is None  # five against five, and an error of 0: nothing to test by
    assert difference(women, men).estimate == pytest.approx(-found.estimate)


@pytest.mark.slow
def test_intervals_cover_and_tests_keep_their_level():
    # 250 surveys of 1,000 with a slope and no effect of sex: 95 % of intervals hold the truth,
    # 5 % of tests are below 0.05. Within 5 standard errors of 250 binomial draws (false alarm
    # below 1e-6 each), and 1 point for the chi-square and normal laws being limits.
    random = np.random.default_rng(9)
    beta, surveys = (-0.4, 0.7, 0.0), 250
    covered, false, true = np.zeros(3), 0, 0
    for _ in range(surveys):
        found = fitted(*survey(random, 1000, beta))
        for place, (own, truth) in enumerate(zip(found.coefficients, beta, strict=True)):
            covered[place] += own.interval[0] <= truth <= own.interval[1]
        true += found.tests[0].p_value < 0.05
        false += found.tests[1].p_value < 0.05
    margin = 5 * np.sqrt(0.05 * 0.95 / surveys) + 0.01
    assert np.all(np.abs(covered / surveys - 0.95) < margin), covered / surveys
    assert abs(false / surveys - 0.05) < margin
    assert true / surveys > 0.99


@pytest.mark.slow
def test_weighted_intervals_cover_where_weights_depend_on_the_answer():
    # 95 % of 150, within 5 binomial standard errors and 1 point (false alarm below 1e-6). Holders
    # are drawn three times as often: without weights the intercept is off by ln 3.
    random = np.random.default_rng(14)
    beta, held = (-0.4, 0.7), np.zeros(2)
    for _ in range(150):
        x = random.normal(size=1500)
        holds = random.random(1500) < special.expit(beta[0] + beta[1] * x)
        drawn = random.random(1500) < np.where(holds, 0.9, 0.3)
        yes = (random.random(1500) < WARNER.a + WARNER.c * holds).astype(float)[drawn]
        n = len(yes)
        weights = np.where(holds, 1 / 0.9, 1 / 0.3)[drawn]
        terms = [number("x", x[drawn])]
        own = fit(yes, np.full(n, WARNER.a), np.full(n, WARNER.c), terms, weights=weights)
        for place, truth in enumerate(beta):
            low, high = own.coefficients[place].interval
            held[place] += low <= truth <= high
    assert np.all(np.abs(held / 150 - 0.95) < 5 * np.sqrt(0.05 * 0.95 / 150) + 0.01), held


@pytest.mark.slow
def test_differences_between_equal_groups_are_found_as_seldom_as_stated():
    # 5 % of 2,000, within 5 binomial standard errors and 1 point (false alarm below 1e-6).
    random = np.random.default_rng(10)
    found, held = 0, 0
    for _ in range(2000):
        counts = [int(random.binomial(400, WARNER.a + WARNER.c * 0.3)) for _ in "fm"]
        women, men = (
            estimate(WARNER, [Stratum((Sample.of_counts([400 - yes, yes]),))])[0] for yes in counts
        )
        own = difference(men, women)
        found += own.p_value < 0.05
        held += own.interval[0] <= 0 <= own.interval[1]
    margin = 5 * np.sqrt(0.05 * 0.95 / 2000) + 0.01
    assert abs(found / 2000 - 0.05) < margin
    assert abs(held / 2000 - 0.95) < margin

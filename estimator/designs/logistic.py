"""Logistic regression of a randomized answer on covariates, by maximum likelihood.

P(yes report) = a_i + c_i * 1 / (1 + exp(-x_i beta)), with a_i and c_i of the design that
respondent i was asked by (Scheers and Dayton, "Covariate Randomized Response Models", JASA 83,
1988; Blair, Imai and Zhou, JASA 110, 2015). Standard errors are by the observed information. A
covariate is tested by the likelihood ratio: twice what the log-likelihood loses without it.

With the stochastic lie detector holders say yes with probability t, the same for all: then P(yes
report) = a_i + (c_i + t) * share_i with a_i = 1 - p_i and c_i = -a_i, and t is fitted, too.
Answers to a direct question, for which a_i = 0 and c_i = 1, may stand beside: they have no t.

With weights the likelihood is that of the population, as the sample shows it: the pseudo-likelihood
(Binder, "On the Variances of Asymptotically Normal Estimators from Complex Surveys", 1983; Skinner
1989). Its curvature tells no error and its ratio has no chi-square law. Errors are by the sandwich
H^-1 (sum of w^2 s s') n / (n - 1) H^-1, and a covariate is tested by Wald's statistic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from estimator.debias import Floats
from estimator.designs.base import DesignError
from estimator.designs.likelihood import Likelihood, farthest, repeats
from estimator.designs.linear import Ends
from estimator.uncertainty import normal_quantile

MOST_CATEGORIES = 20


@dataclass(frozen=True, eq=False)
class Term:
    """One covariate.

    Attributes:
        name: Of the covariate.
        labels: Of its coefficients: one, or one for each category but the first.
        columns: Of shape (respondents, labels).
    """

    name: str
    labels: tuple[str, ...]
    columns: Floats


@dataclass(frozen=True)
class Coefficient:
    """What one unit of a column adds to the logit of holding it.

    Attributes:
        label: Of the column.
        estimate: In logits; its exponential is an odds ratio.
        standard_error: By the observed information; with weights by the sandwich.
        interval: estimate -+ z standard errors.
        p_value: Two-sided, of z = estimate / standard error (Wald; honesty less 1); the
            likelihood-ratio tests of `Fit.tests` are the better ones.
    """

    label: str
    estimate: float
    standard_error: float
    interval: Ends
    p_value: float


@dataclass(frozen=True)
class Test:
    """A likelihood-ratio test (with weights: Wald's) of one covariate, or of all together.

    Attributes:
        name: Of the covariate; "all covariates".
        chi_square: Twice the log-likelihood lost without it; or b' V^-1 b of its coefficients.
        degrees: Coefficients that it has.
        p_value: Of so much or more if it has no effect.
    """

    name: str
    chi_square: float
    degrees: int
    p_value: float


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        n: Respondents.
        log_likelihood: At the top.
        coefficients: The intercept first.
        honesty: P(yes | holds it) where that is fitted, with its interval; tested against 1.
        tests: One for each covariate; if there are several, one of all together as well.
        weighted: Whether weights made it a pseudo-likelihood.
        higher: Whether the likelihood is higher still where coefficients have no end: then there
            are too few answers for so many covariates and so much noise.
    """

    n: int
    log_likelihood: float
    coefficients: tuple[Coefficient, ...]
    honesty: Coefficient | None
    tests: tuple[Test, ...]
    weighted: bool = False
    higher: bool = False


def category(name: str, values: Sequence[str]) -> Term:
    """Return a covariate of categories: a column for each but the first by alphabet."""
    levels = sorted(set(values))
    if len(levels) < 2:
        raise DesignError(f"covariate {name!r} is the same for all respondents")
    if len(levels) > MOST_CATEGORIES:
        raise DesignError(
            f"covariate {name!r} has {len(levels)} categories, more than {MOST_CATEGORIES}: "
            "join some"
        )
    own = np.array(values)
    columns = np.stack([own == level for level in levels[1:]], axis=1).astype(np.float64)
    return Term(name, tuple(f"{name}: {level}" for level in levels[1:]), columns)


def number(name: str, values: Sequence[float]) -> Term:
    """Return a covariate that is a number."""
    column = np.asarray(values, np.float64)
    if np.ptp(column) == 0:
        raise DesignError(f"covariate {name!r} is the same for all respondents")
    return Term(name, (name,), column[:, None])


def fit(
    yes: Sequence[float] | Floats,
    a: Sequence[float] | Floats,
    c: Sequence[float] | Floats,
    terms: Sequence[Term],
    *,
    level: float = 0.95,
    lying: Sequence[bool] | Floats | None = None,
    times: Sequence[int] | Floats | None = None,
    weights: Sequence[float] | Floats | None = None,
) -> Fit:
    """Fit the model with an intercept and these covariates.

    Args:
        yes: 1 for the design's second report, 0 for the first; one for each respondent.
        a: P(second report | does not hold it), of each respondent's design.
        c: P(second report | holds it) - a, of each.
        terms: Covariates; none for the intercept alone.
        level: Of the intervals.
        lying: Of which respondents the design allows for lies (1) and of which not (0); None
            where honesty is no part of the model.
        times: How many respondents each entry stands for; one each, if None.
        weights: People of the population for whom each such respondent stands; None if alike.

    Raises:
        DesignError: Covariates repeat each other, or the likelihood has no top.
    """
    own = np.zeros(len(yes)) if lying is None else np.asarray(lying, np.float64)
    often = np.ones(len(yes)) if times is None else np.asarray(times, np.float64)
    weight = _relative(weights, often)
    model = Likelihood(
        np.asarray(yes, np.float64),
        np.asarray(a, np.float64),
        np.asarray(c, np.float64),
        own,
        often * weight,
    )
    columns = np.column_stack([np.ones(len(yes)), *(term.columns for term in terms)])
    size = columns.shape[1]
    if repeats(columns):
        raise DesignError("covariates repeat each other: one follows from the others")
    without = [_without(columns, terms, [term]) for term in terms]
    if len(terms) > 1:
        without.append(_without(columns, terms, terms))
    reduced = [model.top(kept) for kept, _ in without]
    starts = []
    for (_, places), low in zip(without, reduced, strict=True):
        start = np.zeros(size + model.extra)
        start[places + list(range(size, size + model.extra))] = low.place
        starts.append(start)
    found = model.top(columns, starts)
    top = found.place
    labels = ["(intercept)", *(label for term in terms for label in term.labels)]
    if not found.exists:
        outside = bool(model.extra) and not 0 < top[size] < 1
        raise DesignError(_no_top("honesty" if outside else labels[farthest(top, columns)]))
    covariance = model.covariance(top, columns)
    if weights is not None:
        scores = (np.sqrt(often) * weight)[:, None] * model.scores(top, columns)
        spread = often.sum() / (often.sum() - 1)
        covariance = spread * covariance @ (scores.T @ scores) @ covariance
    names = [*(term.name for term in terms), "all covariates"]
    tests = tuple(
        _test(name, found.log_likelihood - low.log_likelihood, size - kept.shape[1])
        for name, (kept, _), low in zip(names, without, reduced, strict=False)
    )
    if weights is not None:
        tests = tuple(
            _wald(name, top, covariance, sorted(set(range(size)) - set(places)))
            for name, (_, places) in zip(names, without, strict=False)
        )
    errors = np.sqrt(np.diag(covariance))
    coefficients = tuple(
        map(_coefficient, labels, top[:size], errors, [level] * size, [0.0] * size)
    )
    honesty = None
    if model.extra:
        honesty = _coefficient("honesty", top[size], errors[size], level, 1.0)
    return Fit(
        int(often.sum()),
        found.log_likelihood,
        coefficients,
        honesty,
        tests,
        weights is not None,
        found.higher,
    )


def _relative(weights: Sequence[float] | Floats | None, often: Floats) -> Floats:
    """Return weights that add up to the number of respondents."""
    if weights is None:
        return np.ones(len(often))
    weight = np.asarray(weights, np.float64)
    weight = weight / weight.max()
    return np.asarray(weight * (often.sum() / (often @ weight)))


def _no_top(label: str) -> str:
    return (
        "the likelihood has no top: shares are 0 or 1 for some covariates (as where a group's "
        "estimate is below 0 or above 1), or there are too few answers for so much noise; the "
        f"coefficient {label!r} goes farthest. Use fewer covariates, or join small groups"
    )


def _without(
    columns: Floats, terms: Sequence[Term], left_out: Sequence[Term]
) -> tuple[Floats, list[int]]:
    """Return the columns but those of some terms, and their places."""
    places, position = [0], 1
    for term in terms:
        if not any(term is each for each in left_out):
            places += range(position, position + len(term.labels))
        position += len(term.labels)
    return columns[:, places], places


def _test(name: str, gain: float, degrees: int) -> Test:
    chi_square = 2 * max(0.0, gain)
    return Test(name, chi_square, degrees, float(stats.chi2.sf(chi_square, degrees)))


def _wald(name: str, top: Floats, covariance: Floats, places: list[int]) -> Test:
    own = top[places]
    chi_square = float(own @ np.linalg.solve(covariance[np.ix_(places, places)], own))
    return Test(name, chi_square, len(own), float(stats.chi2.sf(chi_square, len(own))))


def _coefficient(
    label: str, estimate: float, error: float, level: float, null: float
) -> Coefficient:
    half = normal_quantile(level) * error
    p_value = float(2 * stats.norm.sf(abs(estimate - null) / error))
    ends = (float(estimate - half), float(estimate + half))
    return Coefficient(label, float(estimate), float(error), ends, p_value)

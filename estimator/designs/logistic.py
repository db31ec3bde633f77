"""Logistic regression of a randomized answer on covariates, by maximum likelihood.

P(yes report) = a_i + c_i * 1 / (1 + exp(-x_i beta)), with a_i and c_i of the design that
respondent i was asked by (Scheers and Dayton, "Covariate Randomized Response Models", JASA 83,
1988; Blair, Imai and Zhou, JASA 110, 2015). Standard errors are by the observed information. A
covariate is tested by the likelihood ratio: twice what the log-likelihood loses without it.

With the stochastic lie detector holders say yes with probability t, the same for all: then P(yes
report) = a_i + (c_i + t) * share_i with a_i = 1 - p_i and c_i = -a_i, and t is fitted, too.
Answers to a direct question, for which a_i = 0 and c_i = 1, may stand beside: they have no t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from estimator.debias import Floats
from estimator.designs.base import DesignError
from estimator.designs.likelihood import Likelihood
from estimator.designs.linear import Ends
from estimator.uncertainty import normal_quantile


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
        standard_error: By the observed information.
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
    """A likelihood-ratio test of one covariate, or of all together.

    Attributes:
        name: Of the covariate; "all covariates".
        chi_square: Twice the log-likelihood lost without it.
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
    """

    n: int
    log_likelihood: float
    coefficients: tuple[Coefficient, ...]
    honesty: Coefficient | None
    tests: tuple[Test, ...]


def category(name: str, values: Sequence[str]) -> Term:
    """Return a covariate of categories: a column for each but the first by alphabet."""
    levels = sorted(set(values))
    if len(levels) < 2:
        raise DesignError(f"covariate {name!r} is the same for all respondents")
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

    Raises:
        DesignError: Covariates repeat each other, or the likelihood has no top.
    """
    own = np.zeros(len(yes)) if lying is None else np.asarray(lying, np.float64)
    often = np.ones(len(yes)) if times is None else np.asarray(times, np.float64)
    model = Likelihood(
        np.asarray(yes, np.float64),
        np.asarray(a, np.float64),
        np.asarray(c, np.float64),
        own,
        often,
    )
    columns = np.column_stack([np.ones(len(yes)), *(term.columns for term in terms)])
    size = columns.shape[1]
    if np.linalg.matrix_rank(columns) < size:
        raise DesignError("covariates repeat each other: one follows from the others")
    without = [_without(columns, terms, [term]) for term in terms]
    if len(terms) > 1:
        without.append(_without(columns, terms, terms))
    reduced = [model.top(kept) for kept, _ in without]
    starts = []
    for (_, places), (top, _) in zip(without, reduced, strict=True):
        start = np.zeros(size + model.extra)
        start[places + list(range(size, size + model.extra))] = top
        starts.append(start)
    top, best = model.top(columns, starts)
    covariance = model.covariance(top, columns)
    names = [*(term.name for term in terms), "all covariates"]
    tests = tuple(
        _test(name, best - low, size - kept.shape[1])
        for name, (kept, _), (_, low) in zip(names, without, reduced, strict=False)
    )
    labels = ["(intercept)", *(label for term in terms for label in term.labels)]
    errors = np.sqrt(np.diag(covariance))
    found = tuple(map(_coefficient, labels, top[:size], errors, [level] * size, [0.0] * size))
    honesty = None
    if model.extra:
        honesty = _coefficient("honesty", top[size], errors[size], level, 1.0)
    return Fit(int(often.sum()), best, found, honesty, tests)


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


def _coefficient(
    label: str, estimate: float, error: float, level: float, null: float
) -> Coefficient:
    half = normal_quantile(level) * error
    p_value = float(2 * stats.norm.sf(abs(estimate - null) / error))
    ends = (float(estimate - half), float(estimate + half))
    return Coefficient(label, float(estimate), float(error), ends, p_value)

"""Logistic regression of a randomized answer on covariates, by maximum likelihood.

P(yes report) = a_i + c_i * 1 / (1 + exp(-x_i beta)), with a_i and c_i of the design that
respondent i was asked by (Scheers and Dayton, "Covariate Randomized Response Models", JASA 83,
1988; Blair, Imai and Zhou, JASA 110, 2015). Standard errors are by the observed information. A
covariate is tested by the likelihood ratio: twice what the log-likelihood loses without it.

With the stochastic lie detector holders say yes with probability t, the same for all: then P(yes
report) = a_i + (c_i + t) * share_i with a_i = 1 - p_i and c_i = -a_i, and t is fitted, too.
Answers to a direct question, for which a_i = 0 and c_i = 1, may stand beside: they have no t.

The likelihood need not be concave, so it is climbed from several places, with the gradient and
the curvature written out; the climbing is scipy's (`trust-exact`). Where it has no top (a share
of 0 or less everywhere, a covariate that splits yes from no), that is said instead of a large
number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special, stats

from estimator.debias import Floats
from estimator.designs.base import DesignError
from estimator.designs.linear import Ends
from estimator.uncertainty import normal_quantile

_FLAT = 1e-6
"""Curvature for each respondent below which there is no top."""
_FAR = 15.0
"""A logit beyond this, for standardised covariates, is on its way to infinity."""


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
    yes: Sequence[int] | Floats,
    a: Sequence[float] | Floats,
    c: Sequence[float] | Floats,
    terms: Sequence[Term],
    *,
    level: float = 0.95,
    lying: Sequence[bool] | Floats | None = None,
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

    Raises:
        DesignError: Covariates repeat each other, or the likelihood has no top.
    """
    own = np.zeros(len(yes)) if lying is None else np.asarray(lying, np.float64)
    model = _Model(
        np.asarray(yes, np.float64), np.asarray(a, np.float64), np.asarray(c, np.float64), own
    )
    n = len(model.yes)
    columns = np.column_stack([np.ones(n), *(term.columns for term in terms)])
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
    return Fit(n, best, found, honesty, tests)


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


@dataclass(frozen=True, eq=False)
class _Model:
    """The likelihood of reports `yes` with chances a + (c + honesty * lying) * expit(columns beta).

    Parameters are beta and, if anybody may lie, honesty.
    """

    yes: Floats
    a: Floats
    c: Floats
    lying: Floats

    @property
    def extra(self) -> int:
        """How many parameters stand behind beta: 1 if honesty is one."""
        return int(self.lying.any())

    def top(self, columns: Floats, starts: Sequence[Floats] = ()) -> tuple[Floats, float]:
        """Return the best parameters found, and their log-likelihood.

        Columns are standardised for the climb: a year of birth and a 0/1 then curve alike.
        """
        unscale = _unscaling(columns, self.extra)
        size = columns.shape[1]
        scaled = columns @ unscale[:size, :size]
        places = [*self._guesses(scaled), *(linalg.solve(unscale, start) for start in starts)]
        climbs = [self._climb(scaled, place) for place in places]
        found, lost = min(climbs, key=lambda climb: climb[1])
        return unscale @ found, -lost

    def _guesses(self, columns: Floats) -> list[Floats]:
        """Return where to begin: at one share for all, and near the best straight line.

        Of lies nothing is known beforehand: begin at one holder in ten and at four in ten.
        """
        guesses = []
        for honesty in (0.9, 0.6)[: 1 + self.extra]:
            gap = self.c + honesty * self.lying
            above = self.yes - self.a
            share = np.clip((gap * above).sum() / (gap**2).sum(), 0.1, 0.9)
            line = linalg.lstsq(gap[:, None] * columns, above)[0] / (share * (1 - share))
            level = np.zeros(columns.shape[1])
            level[0] = special.logit(share)
            sloped = np.clip(line, -3, 3)
            sloped[0] = level[0]
            own = [honesty] * self.extra
            guesses += [np.append(level, own), np.append(sloped, own)]
        return guesses

    def _climb(self, columns: Floats, start: Floats) -> tuple[Floats, float]:
        def lost(place: Floats) -> float:
            return self._parts(place, columns)[0]

        def gradient(place: Floats) -> Floats:
            return self._parts(place, columns)[1]

        def curvature(place: Floats) -> Floats:
            return self._parts(place, columns)[2]

        found = optimize.minimize(
            lost,
            np.ravel(start),
            jac=gradient,
            hess=curvature,
            method="trust-exact",
            options={"gtol": 1e-8 * len(self.yes), "maxiter": 200},
        )
        return np.asarray(found.x), float(found.fun)

    def _parts(self, place: Floats, columns: Floats) -> tuple[float, Floats, Floats]:
        """Return the negative log-likelihood, its gradient and its curvature."""
        size = columns.shape[1]
        share = special.expit(columns @ place[:size])
        gap = self.c + (place[size] * self.lying if self.extra else 0.0)
        chance = np.clip(self.a + gap * share, 1e-12, 1 - 1e-12)
        first = (self.yes - chance) / (chance * (1 - chance))
        second = self.yes / chance**2 + (1 - self.yes) / (1 - chance) ** 2
        rise = share * (1 - share)
        value = special.xlogy(self.yes, chance) + special.xlog1py(1 - self.yes, -chance)
        slopes = (gap * rise)[:, None] * columns
        bend = -first * gap * rise * (1 - 2 * share)
        curvature = columns.T @ (bend[:, None] * columns)
        if self.extra:
            slopes = np.column_stack([slopes, self.lying * share])
            joint = -columns.T @ (first * self.lying * rise)
            curvature = np.block([[curvature, joint[:, None]], [joint[None, :], np.zeros((1, 1))]])
        curvature += slopes.T @ (second[:, None] * slopes)
        return -float(value.sum()), -slopes.T @ first, curvature

    def covariance(self, place: Floats, columns: Floats) -> Floats:
        """Return the inverse of the observed information."""
        unscale = _unscaling(columns, self.extra)
        size = columns.shape[1]
        scaled = linalg.solve(unscale, place)
        _, _, curvature = self._parts(scaled, columns @ unscale[:size, :size])
        flattest = float(linalg.eigvalsh(curvature)[0]) / len(self.yes)
        if flattest < _FLAT or np.abs(scaled).max() > _FAR:
            raise DesignError(
                "the likelihood has no top: shares are 0 or 1 for some covariates (as where an "
                "estimate is below 0), or there are too few answers for so much noise; use fewer "
                "covariates"
            )
        return np.asarray(unscale @ linalg.inv(curvature) @ unscale.T)


def _unscaling(columns: Floats, extra: int) -> Floats:
    """Return the matrix that standardises all columns but the first, which is 1."""
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    mean[0], spread[0] = 0.0, 1.0
    matrix = np.diag(np.append(1 / spread, [1.0] * extra))
    matrix[0, : len(mean)] -= mean / spread
    return matrix

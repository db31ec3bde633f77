"""The likelihood of randomized answers given covariates: its top, and its curvature there.

It need not be concave, so it is climbed from several places, with the gradient and the curvature
written out; the climbing is scipy's (`trust-exact`). Where it has no top (a share of 0 or less
everywhere, a covariate that splits yes from no), that is said instead of a large number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special

from estimator.debias import Floats
from estimator.designs.base import DesignError

_FLAT = 1e-6
"""Curvature for each respondent below which there is no top."""
_FAR = 15.0
"""A logit beyond this, for standardised covariates, is on its way to infinity."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of reports `yes` with chances a + (c + honesty * lying) * expit(columns beta).

    Parameters are beta and, if anybody may lie, honesty.

    Attributes:
        yes: 1 or 0.
        a: P(yes report | does not hold it).
        c: P(yes report | holds it and is honest by 0) - a.
        lying: By how much honesty raises it: 1 or 0.
        times: How many respondents each entry stands for.
    """

    yes: Floats
    a: Floats
    c: Floats
    lying: Floats
    times: Floats

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
            weight = np.sqrt(self.times)
            mean = (self.times * gap * above).sum() / (self.times * gap**2).sum()
            share = np.clip(mean, 0.1, 0.9)
            line = linalg.lstsq((weight * gap)[:, None] * columns, weight * above)[0]
            line /= share * (1 - share)
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
            options={"gtol": 1e-8 * float(self.times.sum()), "maxiter": 200},
        )
        return np.asarray(found.x), float(found.fun)

    def _parts(self, place: Floats, columns: Floats) -> tuple[float, Floats, Floats]:
        """Return the negative log-likelihood, its gradient and its curvature."""
        size = columns.shape[1]
        share = special.expit(columns @ place[:size])
        gap = self.c + (place[size] * self.lying if self.extra else 0.0)
        chance = np.clip(self.a + gap * share, 1e-12, 1 - 1e-12)
        first = self.times * (self.yes - chance) / (chance * (1 - chance))
        second = self.times * (self.yes / chance**2 + (1 - self.yes) / (1 - chance) ** 2)
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
        return -float(self.times @ value), -slopes.T @ first, curvature

    def covariance(self, place: Floats, columns: Floats) -> Floats:
        """Return the inverse of the observed information."""
        unscale = _unscaling(columns, self.extra)
        size = columns.shape[1]
        scaled = linalg.solve(unscale, place)
        _, _, curvature = self._parts(scaled, columns @ unscale[:size, :size])
        flattest = float(linalg.eigvalsh(curvature)[0]) / float(self.times.sum())
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

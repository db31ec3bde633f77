"""The likelihood of randomized answers given covariates: its top, and its curvature there.

It need not be concave, so it is climbed from several places, with the gradient and the curvature
written out; the climbing is scipy's (`trust-exact`). The highest top is taken. Where there is none
(a share of 0 or less everywhere, a covariate that splits yes from no), that is said instead of a
large number. With few answers it may be higher than any top where coefficients have no end, and
the share jumps from 0 to 1: an artefact of the sample, which is said, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, special, stats

from estimator.debias import Floats

_FLAT = 1e-6
"""Curvature for each respondent below which there is no top."""
_STEEP = 1e-5
"""Slope for each respondent above which a place is no top but a border."""
_HIGHER = 1e-3
"""By how much a log-likelihood must be higher to be called so."""
_MORE, _BEST = 64, 3
"""Further places looked at, spread evenly over the normal law, and of how many it is climbed."""
_FAR = 15.0
"""A logit beyond this, for standardised covariates, is on its way to infinity."""


@dataclass(frozen=True, eq=False)
class Top:
    """Where the likelihood is highest.

    Attributes:
        place: The parameters.
        log_likelihood: There.
        exists: Whether it is a top: if not, parameters have no end, or meet a border.
        higher: Whether the likelihood is higher still where there is no top.
    """

    place: Floats
    log_likelihood: float
    exists: bool
    higher: bool


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of reports `yes` with chances a + (c + honesty * lying) * expit(columns beta).

    Parameters are beta and, if anybody may lie, honesty.

    Attributes:
        yes: 1 or 0.
        a: P(yes report | does not hold it).
        c: P(yes report | holds it and is honest by 0) - a.
        lying: By how much honesty raises it: 1 or 0.
        times: How much each entry counts: respondents, or their weights.
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

    def top(self, columns: Floats, starts: Sequence[Floats] = ()) -> "Top":
        """Return the highest top found; if there is none, the highest place.

        Columns are standardised for the climb: a year of birth and a 0/1 then curve alike.
        """
        scale, unscale = _scaling(columns, self.extra)
        scaled = _scaled(columns)
        places = [*self._guesses(scaled), *(scale @ start for start in starts)]
        climbs = [self._climb(scaled, place) for place in places]
        highest = min(lost for _, lost in climbs)
        tops = [climb for climb in climbs if self._is_top(climb[0], scaled)]
        found, lost = min(tops or climbs, key=lambda climb: climb[1])
        return Top(unscale @ found, -lost, bool(tops), lost - highest > _HIGHER)

    def _is_top(self, place: Floats, columns: Floats) -> bool:
        """Return whether the likelihood falls to all sides of a place, and does so soon."""
        gradient, curvature = self._parts(place, columns)
        each = float(self.times.sum())
        return bool(
            np.abs(gradient).max() / each < _STEEP
            and linalg.eigvalsh(curvature)[0] / each > _FLAT
            and np.abs(place[: columns.shape[1]]).max() <= _FAR
        )

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
        places = stats.norm.ppf(
            stats.qmc.Halton(columns.shape[1], scramble=False).random(_MORE)[1:]
        )
        further = [np.append(2 * place, own) for place in places]
        further.sort(key=lambda place: self._lost(place, columns))
        return [*guesses, *further[:_BEST]]

    def _climb(self, columns: Floats, start: Floats) -> tuple[Floats, float]:
        def lost(place: Floats) -> float:
            return self._lost(place, columns)

        def gradient(place: Floats) -> Floats:
            return self._parts(place, columns)[0]

        def curvature(place: Floats) -> Floats:
            return self._parts(place, columns)[1]

        found = optimize.minimize(
            lost,
            np.ravel(start),
            jac=gradient,
            hess=curvature,
            method="trust-exact",
            options={"gtol": 1e-8 * float(self.times.sum()), "maxiter": 200},
        )
        return np.asarray(found.x), float(found.fun)

    def _chances(self, place: Floats, columns: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return shares, by how much they raise P(yes), that, and its derivatives."""
        size = columns.shape[1]
        share = special.expit(columns @ place[:size])
        gap = self.c + (place[size] * self.lying if self.extra else 0.0)
        chance = np.clip(self.a + gap * share, 1e-12, 1 - 1e-12)
        slopes = (gap * share * (1 - share))[:, None] * columns
        if self.extra:
            slopes = np.column_stack([slopes, self.lying * share])
        return share, gap, chance, slopes

    def _lost(self, place: Floats, columns: Floats) -> float:
        """Return the negative log-likelihood."""
        chance = self._chances(place, columns)[2]
        value = special.xlogy(self.yes, chance) + special.xlog1py(1 - self.yes, -chance)
        return -float(self.times @ value)

    def _parts(self, place: Floats, columns: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the curvature of the negative log-likelihood."""
        share, gap, chance, slopes = self._chances(place, columns)
        first = self.times * (self.yes - chance) / (chance * (1 - chance))
        second = self.times * (self.yes / chance**2 + (1 - self.yes) / (1 - chance) ** 2)
        rise = share * (1 - share)
        bend = -first * gap * rise * (1 - 2 * share)
        curvature = columns.T @ (bend[:, None] * columns)
        if self.extra:
            joint = -columns.T @ (first * self.lying * rise)
            curvature = np.block([[curvature, joint[:, None]], [joint[None, :], np.zeros((1, 1))]])
        curvature += slopes.T @ (second[:, None] * slopes)
        return -slopes.T @ first, curvature

    def covariance(self, place: Floats, columns: Floats) -> Floats:
        """Return the inverse of the observed information at a top."""
        scale, unscale = _scaling(columns, self.extra)
        _, curvature = self._parts(scale @ place, _scaled(columns))
        return np.asarray(unscale @ linalg.inv(curvature) @ unscale.T)

    def scores(self, place: Floats, columns: Floats) -> Floats:
        """Return the derivative of each entry's log-likelihood, once: a row for each entry."""
        _, _, chance, slopes = self._chances(place, columns)
        return np.asarray(((self.yes - chance) / (chance * (1 - chance)))[:, None] * slopes)


def farthest(place: Floats, columns: Floats) -> int:
    """Return which coefficient, but the intercept, is largest for standardised columns."""
    size = columns.shape[1]
    return 1 + int(np.abs(place[1:size] * columns[:, 1:].std(axis=0)).argmax()) if size > 1 else 0


def repeats(columns: Floats) -> bool:
    """Return whether one of the columns, of which the first is 1, follows from the others."""
    return bool(np.linalg.matrix_rank(_scaled(columns)) < columns.shape[1])


def _scaled(columns: Floats) -> Floats:
    """Return columns standardised, but for the first; dates far from 0 keep their digits."""
    own = columns.copy()
    own[:, 1:] -= own[:, 1:].mean(axis=0)
    own[:, 1:] /= own[:, 1:].std(axis=0)
    return own


def _scaling(columns: Floats, extra: int) -> tuple[Floats, Floats]:
    """Return the matrix that makes coefficients of columns those of `_scaled` ones; its inverse."""
    mean, spread = columns[:, 1:].mean(axis=0), columns[:, 1:].std(axis=0)
    scale = np.diag([1.0, *spread, *[1.0] * extra])
    unscale = np.diag([1.0, *(1 / spread), *[1.0] * extra])
    scale[0, 1 : len(mean) + 1] = mean
    unscale[0, 1 : len(mean) + 1] = -mean / spread
    return scale, unscale

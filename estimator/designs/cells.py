"""One question, asked with several sets of parameters in one survey: maximum likelihood over cells.

Cell i has n_i answers, of which y_i are second reports, with chance l_i = a_i + c_i * share. They
are likeliest where the score, the sum of c_i (y_i - n_i l_i) / (l_i (1 - l_i)), is 0. That is
sought wherever all chances stay within 0..1, so a share may be below 0 or above 1. Its error is
by the expected information. The interval holds every share that a score test would not refuse;
with one cell that is Wilson's, mapped. Cells must agree: with k cells the deviance has k - 1
degrees of freedom.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from estimator.debias import Floats
from estimator.designs.agreement import Agreement, deviance
from estimator.designs.base import DesignError, YesNo
from estimator.designs.linear import Ends, Figure
from estimator.designs.verdict import binomial_tail, judge
from estimator.errors import NoReports
from estimator.uncertainty import normal_quantile

_STEPS = 500
"""In which the end of an interval is looked for."""


@dataclass(frozen=True)
class Cell:
    """Answers that were asked for with the same parameters."""

    design: YesNo
    n: int
    yes: int


def estimate_cells(
    cells: Sequence[Cell], *, level: float = 0.95
) -> tuple[Figure, Agreement | None]:
    """Return the share that all cells together make likeliest, and whether they agree.

    Raises:
        DesignError: The cells' designs differ in more than parameters.
        NoReports: No cell has an answer.
    """
    cells = [cell for cell in cells if cell.n]
    if not cells:
        raise NoReports("nobody answered: there is no estimate, which is not one of zero")
    if len({cell.design.name for cell in cells}) > 1:
        raise DesignError("cells must be of one design that differs in its parameters only")
    likelihood = _Likelihood(
        np.array([cell.design.a for cell in cells]),
        np.array([cell.design.c for cell in cells]),
        np.array([cell.n for cell in cells], np.float64),
        np.array([cell.yes for cell in cells], np.float64),
    )
    share = likelihood.best()
    error = likelihood.error(share)
    z = normal_quantile(level)
    figure = Figure(
        "share",
        share,
        error,
        (share - z * error, share + z * error),
        (likelihood.allowed(share, -1, z), likelihood.allowed(share, 1, z)),
        judge(share, error, _tail(cells, likelihood, share)),
    )
    return figure, likelihood.agreement(share) if len(cells) > 1 else None


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Of one share, given second reports `y` of `n` with chances a + c * share in each cell."""

    a: Floats
    c: Floats
    n: Floats
    y: Floats

    def score(self, share: float) -> float:
        """Return the derivative of the log-likelihood; it falls with the share."""
        chance = self.a + self.c * share
        return float((self.c * (self.y - self.n * chance) / (chance * (1 - chance))).sum())

    def expected(self, share: float) -> float:
        """Return the expected information."""
        chance = self.a + self.c * share
        return float((self.c**2 * self.n / (chance * (1 - chance))).sum())

    @property
    def ends(self) -> Ends:
        """Between which shares every cell's chance is within 0..1."""
        ends = np.sort(np.stack([-self.a / self.c, (1 - self.a) / self.c]), axis=0)
        return float(ends[0].max()), float(ends[1].min())

    def best(self) -> float:
        """Return the likeliest share."""
        low, high = self.ends
        near = (high - low) * 1e-12
        if self.score(low + near) <= 0:
            return low
        if self.score(high - near) >= 0:
            return high
        return float(optimize.brentq(self.score, low + near, high - near, xtol=1e-15, rtol=1e-13))

    def error(self, share: float) -> float:
        """Return the standard error by the expected information; 0 at an end, as of 0 of n."""
        return 0.0 if share in self.ends else 1 / math.sqrt(self.expected(share))

    def allowed(self, share: float, side: int, z: float) -> float:
        """Return how far below (-1) or above (1) a score test refuses no share.

        Beyond the first share that is refused others may not be: where a cell's answers are all
        alike and its chance goes to 0 or 1, the test loses its force. They are not counted.
        """
        end = self.ends[0 if side < 0 else 1]
        if share == end:
            return share

        def excess(value: float) -> float:
            return -side * self.score(value) / math.sqrt(self.expected(value)) - z

        places = share + (end - share) * np.linspace(1e-12, 1 - 1e-12, _STEPS)
        for near, far in itertools.pairwise(places):
            if excess(far) > 0:
                return float(optimize.brentq(excess, near, far, xtol=1e-14, rtol=1e-13))
        return end

    def agreement(self, share: float) -> Agreement:
        """Compare with a share of its own for each cell."""
        chance = self.a + self.c * share
        seen = np.concatenate([self.y, self.n - self.y])
        told = np.concatenate([self.n * chance, self.n * (1 - chance)])
        return deviance("cells", seen, told, len(self.n) - 1)


def _tail(cells: Sequence[Cell], likelihood: _Likelihood, share: float) -> float | None:
    """Return the chance of such answers at the border that was passed, by the score test there."""
    if 0 <= share <= 1:
        return None
    if len(cells) == 1:
        return binomial_tail(cells[0].design, cells[0].n, cells[0].yes)
    border = 0.0 if share < 0 else 1.0
    z = likelihood.score(border) / math.sqrt(likelihood.expected(border))
    return float(stats.norm.sf(abs(z)))

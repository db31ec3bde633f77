"""Sketches: from tallies to the shares of candidate strings, and of all that is unlisted.

Weighted least squares (reference 4.3), deterministic. Everything is linear in the counts, so
estimates are unbiased and may be negative. Weights are fitted: a first pass with the variance
of a cell that belongs to no frequent string, a second with the variances its shares imply. An
observed cell is never its own weight, which would pull estimates towards low counts.

Collisions among candidates are known and solved for. Those with other strings are an error of the
hash functions, the same on every day: `misfit` measures it, `predicted_standard_error` foresees
it where the shares of such strings are supposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aggregator.tally import Tally
from client_sdk.mechanisms import Mechanism
from estimator.consistency import simplex_projection
from estimator.debias import Channel, Floats
from estimator.errors import DecodeError, NoReports
from estimator.least_squares import Design, moments, solve
from estimator.misfit import Misfit, judge
from estimator.plausibility import worst_move
from estimator.sketch_noise import sketch_of
from estimator.uncertainty import collision_variance, normal_quantile, significant_by_normal


@dataclass(frozen=True, eq=False)
class Decoded:
    """Estimates in candidate order; the last entry of every array is for unlisted strings.

    Attributes:
        shares: Unbiased, unclipped, adding up to one.
        population: Standard errors about the population.
        reporters: Standard errors about these reporters.
        skewness: Of the estimates' noise.
        condition: Condition number of the design.
        misfit: The model's alarm.
        worst_shift: Most by which one percent of fake reports can move a candidate's share. Of
            Hadamard rows a bound: no report moves all of a row's cells in the worst direction.
    """

    shares: Floats
    population: Floats
    reporters: Floats
    skewness: Floats
    condition: float
    misfit: Misfit
    worst_shift: float

    def interval(self, level: float, cells: int = 1) -> tuple[Floats, Floats]:
        """Return normal intervals about the population; `cells` hold together (Bonferroni)."""
        half = normal_quantile(level, cells) * self.population
        return self.shares - half, self.shares + half

    def significant(self, level: float, cells: int) -> NDArray[np.bool_]:
        """Return which entries are present."""
        return significant_by_normal(
            self.shares, self.population, self.skewness, level=level, cells=cells
        )


def design_for(mechanism: Mechanism, candidates: tuple[str, ...]) -> Design:
    """Return the cells of every candidate in every cohort, with a column for unlisted strings."""
    if not candidates:
        raise DecodeError("candidates must name at least one string to look for")
    if len(set(candidates)) != len(candidates):
        raise DecodeError("candidates must not repeat a string")
    sketch = sketch_of(mechanism)
    cells = [
        cohort * sketch.cells + cell
        for candidate in candidates
        for cohort in range(sketch.rows)
        for cell in sketch.cells_of(candidate, cohort)
    ]
    ends = np.arange(len(candidates) + 1) * sketch.own * sketch.rows
    shape = (sketch.rows * sketch.cells, len(candidates))
    columns = sparse.csc_array((np.ones(len(cells)), cells, ends), shape=shape)
    return Design(
        sparse.csr_array(columns),
        candidates,
        sketch.cells,
        sketch.own,
        sketch.own / sketch.cells,
    )


def decode(tally: Tally, mechanism: Mechanism, design: Design) -> Decoded:
    """Estimate the share of every candidate.

    Args:
        tally: Of the mechanism; cohorts without reports are left out.
        mechanism: Of strings.
        design: From `design_for` with this mechanism.

    Raises:
        NoReports: No cohort has a report.
        DecodeError: The candidates cannot be told apart.
    """
    if not tally.n:
        raise NoReports("the tally holds no reports")
    sketch = sketch_of(mechanism)
    cohorts = np.flatnonzero(tally.reports).astype(np.int64)
    reports, channel = tally.reports[cohorts], sketch.channel
    fractions = sketch.supports(tally.counts[cohorts]) / reports[:, None]
    kept, y = design.rows_of(cohorts), channel.invert(fractions).ravel()
    per_row = np.repeat(reports, sketch.cells)

    variance = _row_variance(np.full(len(y), design.density), per_row, channel)
    first = solve(kept, y, variance)
    variance = _row_variance(kept.fitted(_plausible(first.shares)), per_row, channel)
    solution = solve(kept, y, variance)

    plausible = _plausible(solution.shares)
    exact = moments(
        kept,
        solution.inverse,
        variance,
        reports=reports,
        shares=plausible,
        channel=channel,
    )
    residual = y - kept.fitted(solution.shares)
    pairs = sketch.pairs(reports)
    misfit = judge(residual, variance, exact.leverage, per_row, channel, cohorts, pairs)
    complete = np.append(solution.shares, 1 - solution.shares.sum())
    # A missing frequent string hits bits at random, the same ones on every day: an error of
    # its own that no number of reports averages out. Its size shows in the residuals.
    unexplained = misfit.excess**2 * exact.spread
    return Decoded(
        complete,
        np.sqrt(exact.population + unexplained),
        np.sqrt(exact.reporters + unexplained),
        exact.skewness,
        solution.condition,
        misfit,
        float(exact.leaning[:-1].max()) * worst_move(channel),
    )


def predicted_standard_error(
    mechanism: Mechanism, candidates: tuple[str, ...], n: int, unlisted: Sequence[float] = ()
) -> float:
    """Return the population standard error to expect for a rare candidate at n reports.

    The largest over candidates, when reports spread evenly over cohorts and hold no candidate.

    Args:
        mechanism: Of strings.
        candidates: What is looked for.
        n: Reports.
        unlisted: Shares of strings that are held and not looked for; what they leave of 1 is
            scattered over rare ones. With few hash functions frequent ones rule the error.

    Raises:
        DecodeError: The candidates cannot be told apart.
    """
    design, sketch = design_for(mechanism, candidates), sketch_of(mechanism)
    channel, rows = sketch.channel, design.matrix.shape[0]
    # One report per cohort; all errors are proportional to 1/sqrt(n).
    one = np.ones(sketch.rows, np.int64)
    variance = _row_variance(np.full(rows, design.density), np.ones(rows, np.int64), channel)
    inverse = solve(design, np.zeros(rows), variance).inverse
    none = np.zeros(len(candidates))
    exact = moments(design, inverse, variance, reports=one, shares=none, channel=channel)
    # Of the errors of cells that a candidate alone would have; further candidates raise it.
    alone = 1 / (sketch.rows * sketch.own * max(1 - design.density, np.finfo(float).tiny))
    collisions = collision_variance(unlisted, n, sketch.cells, sketch.rows) * exact.spread / alone
    return float(np.sqrt((exact.population * sketch.rows / n + collisions)[:-1].max()))


def _plausible(shares: Floats) -> Floats:
    """Return shares that some population could have, for use inside variances only."""
    return simplex_projection(np.append(shares, 1 - shares.sum()))[:-1]


def _row_variance(truth: Floats, per_row: NDArray[np.int64], channel: Channel) -> Floats:
    lam = channel.support(np.clip(truth, 0, 1))
    return lam * (1 - lam) / (per_row * channel.gap**2)

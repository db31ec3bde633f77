"""Hierarchical histograms: all levels of the tree agree by weighted least squares.

Each level is inverted by itself; then leaves that add up to one are fitted to all nodes of all
levels, so that a parent is the sum of its children (Hay, Rastogi, Miklau, Suciu, "Boosting the
Accuracy of Differentially Private Histograms Through Consistency", PVLDB 2010). Weights are the
levels' numbers of reports, since all nodes that nobody is in have one variance: responses have no
part in them, and the fit stays linear and unbiased. Errors are exact for every sum of leaves.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import HierarchicalHistogram
from estimator.consistency import simplex_projection
from estimator.debias import Channel, Floats
from estimator.estimates import Estimate, Estimates, Quantile
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.plausibility import FAKES
from estimator.quantiles import quantiles, toward_ends
from estimator.uncertainty import normal_quantile, significant_by_normal

METHOD = "weighted least squares over a tree's levels; outer ends of normal and Wilson interval"


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of leaves, as linear functions of the shares that each level has by itself.

    Arrays may have leading axes, one place for each of many collections.

    Attributes:
        mechanism: The tree and its channel.
        reports: Of each level, shape (..., levels).
        parts: How often each leaf is in each sum, shape (sums, leaves).
        pulls: Per level, by how much each sum follows each node, shape (..., sums, nodes).
        constant: What is added to each sum, shape (..., sums): the total is known to be one.
    """

    mechanism: HierarchicalHistogram
    reports: NDArray[np.int64]
    parts: Floats
    pulls: tuple[Floats, ...]
    constant: Floats

    def cumulative(self) -> "Sums":
        """Return the sums of the first, the first two, ... and all sums but the last."""
        return Sums(
            self.mechanism,
            self.reports,
            np.cumsum(self.parts, axis=-2)[:-1],
            tuple(np.cumsum(pull, axis=-2)[..., :-1, :] for pull in self.pulls),
            np.cumsum(self.constant, axis=-1)[..., :-1],
        )

    def between(self, low: int, high: int) -> "Sums":
        """Return one sum, of the sums `low` to `high` inclusive."""
        span = slice(low, high + 1)
        return Sums(
            self.mechanism,
            self.reports,
            self.parts[span].sum(axis=-2, keepdims=True),
            tuple(pull[..., span, :].sum(axis=-2, keepdims=True) for pull in self.pulls),
            self.constant[..., span].sum(axis=-1, keepdims=True),
        )

    def shares(self, counts: NDArray[np.int64]) -> Floats:
        """Return unbiased shares, shape (..., sums).

        Args:
            counts: Supports, shape (..., levels, cells).
        """
        channel = Channel.of(self.mechanism)
        found = self.constant.copy()
        for level, pull in enumerate(self.pulls):
            supports = counts[..., level, : pull.shape[-1]]
            found += _times(pull, channel.invert(supports / self._level(level)[..., None]))
        return found

    def errors(self, truth: Floats) -> tuple[Floats, Floats]:
        """Return standard errors about the population and about these reporters, (..., sums).

        Of the population every level draws its reporters anew. Given all reporters, levels share
        them out: what varies between all of them together no longer counts.

        Args:
            truth: Shares of the leaves, shape (..., leaves), at least 0 and adding up to one.
        """
        channel = Channel.of(self.mechanism)
        own, other = (p * (1 - p) / channel.gap**2 for p in (channel.p_true, channel.p_false))
        variance: Floats = np.zeros(self.constant.shape)
        for level, pull in enumerate(self.pulls):
            held = nodes_of(truth, self.mechanism, level)
            noise = held * own + (1 - held) * other
            of_one = _times(pull**2, noise + held) - _times(pull, held) ** 2
            variance += of_one / self._level(level)[..., None]
        of_all = _times(self.parts**2, truth) - _times(self.parts, truth) ** 2
        fixed = variance - of_all / self.reports.sum(axis=-1)[..., None]
        return np.sqrt(np.maximum(variance, 0)), np.sqrt(np.maximum(fixed, 0))

    def skewness(self, truth: Floats) -> Floats:
        """Return the skewness of the shares, as if the bits of a report were independent."""
        channel = Channel.of(self.mechanism)
        third: Floats = np.zeros(self.constant.shape)
        for level, pull in enumerate(self.pulls):
            lam = channel.support(nodes_of(truth, self.mechanism, level))
            of_one = lam * (1 - lam) * (1 - 2 * lam) / channel.gap**3
            third += _times(pull**3, of_one) / self._level(level)[..., None] ** 2
        return third / self.errors(truth)[0] ** 3

    def worst_shift(self) -> float:
        """Return the most by which FAKES of the reports can move a sum, up or down.

        They choose their level, and there every bit: those nodes that pull a sum up get a bit
        where honest reports have one with p_false at least, the others none.
        """
        channel = Channel.of(self.mechanism)
        up, down = (1 - channel.p_false) / channel.gap, channel.p_true / channel.gap
        worst = 0.0
        for level, pull in enumerate(self.pulls):
            for_it, against = (np.maximum(side, 0).sum(axis=-1) for side in (pull, -pull))
            most = np.maximum(for_it * up + against * down, for_it * down + against * up)
            part = min(1.0, FAKES * float(self.reports.sum()) / float(self._level(level)))
            worst = max(worst, part * float(most.max()))
        return worst

    def _level(self, level: int) -> NDArray[np.int64]:
        # A level without reports pulls at nothing; one report stands in for the division.
        return np.maximum(self.reports[..., level], 1)


def fit(mechanism: HierarchicalHistogram, reports: NDArray[np.int64]) -> Sums:
    """Return the leaves by least squares.

    Args:
        mechanism: The tree.
        reports: Of each level, shape (..., levels); at least one of the leaves' level.
    """
    leaves = mechanism.cells
    weights = reports / reports.sum(axis=-1, keepdims=True)
    above = [_nodes(mechanism, level) for level in range(mechanism.cohorts)]
    normal = np.zeros((*reports.shape[:-1], leaves, leaves))
    for level, node in enumerate(above):
        normal += weights[..., level, None, None] * (node[:, None] == node)
    inverse = np.linalg.inv(normal)
    free = inverse.sum(axis=-1)
    constant = free / free.sum(axis=-1, keepdims=True)
    pulls = []
    for level, node in enumerate(above):
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        pull = np.add.reduceat(inverse, starts, axis=-1) * weights[..., level, None, None]
        pulls.append(pull - constant[..., :, None] * pull.sum(axis=-2, keepdims=True))
    return Sums(mechanism, reports, np.eye(leaves), tuple(pulls), constant)


def nodes_of(shares: Floats, mechanism: HierarchicalHistogram, level: int) -> Floats:
    """Return the shares of a level's nodes, (..., nodes), from those of the leaves."""
    starts = np.flatnonzero(np.diff(_nodes(mechanism, level), prepend=-1))
    return np.asarray(np.add.reduceat(shares, starts, axis=-1))


def _nodes(mechanism: HierarchicalHistogram, level: int) -> NDArray[np.int64]:
    return np.array([mechanism.node(leaf, level) for leaf in range(mechanism.cells)])


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray((matrix @ vector[..., None])[..., 0])


@dataclass(frozen=True, eq=False)
class Histogram:
    """The shares of leaves and ranges of one tally.

    Attributes:
        sums: The fit.
        counts: The tally's supports.
        leaves: Unbiased shares.
        plausible: Shares near them that some population could have, for use inside variances.
    """

    sums: Sums
    counts: NDArray[np.int64]
    leaves: Floats
    plausible: Floats

    @classmethod
    def of(cls, mechanism: HierarchicalHistogram, tally: Tally) -> "Histogram":
        """Fit a tally that has reports at the leaves."""
        sums = fit(mechanism, tally.reports)
        leaves = sums.shares(tally.counts)
        return cls(sums, tally.counts, leaves, simplex_projection(leaves))

    def range_share(self, low_bucket: int, high_bucket: int) -> tuple[float, float]:
        """Return the share of buckets `low_bucket` to `high_bucket` inclusive, and its error.

        Unbiased, with its standard error about the population. Sums of leaves are what a tree is
        for: the error is that of the sum, not of as many independent leaves.
        """
        if not 0 <= low_bucket <= high_bucket < len(self.leaves):
            raise ValueError(
                f"buckets must satisfy 0 <= low <= high < {len(self.leaves)}, "
                f"got {low_bucket} and {high_bucket}"
            )
        one = self.sums.between(low_bucket, high_bucket)
        return float(one.shares(self.counts)[0]), float(one.errors(self.plausible)[0][0])

    def quantiles(self, edges: tuple[Decimal, ...], level: float) -> tuple[Quantile, ...]:
        """Return the quantiles of a number with these bucket edges."""
        cdf = self.sums.cumulative()
        per_level = int(self.sums.reports.sum()) // self.sums.mechanism.cohorts
        error, _ = cdf.errors(toward_ends(self.plausible, per_level))
        return quantiles(edges, cdf.shares(self.counts), error, level)


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate the shares of a metric's buckets, and its quantiles if it is a number."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, HierarchicalHistogram)
    epsilon, n = float(mechanism.epsilon), tally.n
    if tally.reports[-1] == 0:
        # Levels above the leaves cannot tell leaves apart.
        empty = tuple(Estimate(label) for label in metric.labels)
        return Estimates(n, epsilon, level, METHOD, empty)
    found = Histogram.of(mechanism, tally)
    population, reporters = found.sums.errors(found.plausible)
    skewness, cells = found.sums.skewness(found.plausible), len(found.leaves)
    columns = Columns(
        found.leaves,
        population,
        reporters,
        _interval(found, population, normal_quantile(level)),
        _interval(found, population, normal_quantile(level, cells)),
        significant_by_normal(found.leaves, population, skewness, level=level, cells=cells),
    )
    return Estimates(
        n,
        epsilon,
        level,
        METHOD,
        entries_of(metric.labels, columns, n),
        worst_shift=found.sums.worst_shift(),
        quantiles=found.quantiles(metric.edges, level) if metric.edges else (),
    )


def _interval(found: Histogram, population: Floats, z: float) -> tuple[Floats, Floats]:
    """Return the ends of z standard errors, or of Wilson's interval where that reaches further.

    A leaf's own level counts few supports where reports are few and epsilon is large; then the
    normal law is too narrow, on the side of more. Wilson's is that of so many direct reports of
    the leaf as would have its error; where other leaves make most of the error, it is too narrow
    on the side of less.
    """
    channel = Channel.of(found.sums.mechanism)
    lam, raw = channel.support(found.plausible), channel.support(found.leaves)
    direct = lam * (1 - lam) / (channel.gap * population) ** 2
    stretch = 1 + z**2 / direct
    centre = (raw + z**2 / (2 * direct)) / stretch
    half = z * np.sqrt(lam * (1 - lam) / direct + (z / (2 * direct)) ** 2) / stretch
    low, high = channel.invert(centre - half), channel.invert(centre + half)
    normal = z * population
    return np.minimum(low, found.leaves - normal), np.maximum(high, found.leaves + normal)

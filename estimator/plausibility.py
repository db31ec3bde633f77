"""Whether reports look like the work of honest devices: a monitor, never a filter.

Honest bit vectors have a known number of bits set, whatever the values: `ones` bits belong to the
value and pass through p_true, all others through p_false, independently. So the popcount is the
sum of two binomials, and a crowd that sends all ones, none, or one fixed vector shows. Cohorts are
drawn evenly, so their sizes show the same, and so are the seeds and columns that reports of hashed
values name. Nobody's report is dropped for it: honest devices have tails too, and dropping them
would bias every share. (A subset of another size than agreed has no honest sender at all, and is
counted like any other.) Fakes that mimic an honest popcount are not
seen at all; what they can do is bounded by `worst_shift`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from aggregator.tally import Tally
from client_sdk.mechanisms import HierarchicalHistogram, Mechanism, SubsetSelection
from estimator.debias import Channel, Floats

ALARM = 0.0002
"""Probability with which honest reports raise one of the alarms all the same."""
FAKES = 0.01
"""Part of the reports for which releases and plans say what fakes can do."""
_LEAST_EXPECTED = 10.0
"""Bins are joined until each expects so many reports: the chi-square law needs that."""


@dataclass(frozen=True)
class Plausibility:
    """What the reports of one metric version and epoch look like.

    Attributes:
        popcount_z: How many standard errors the mean popcount is from what honest devices have;
            None for metrics whose popcount says nothing, or without reports.
        popcount_p: Probability of popcounts as odd as these, or odder, from honest devices.
        cohort_p: The same of the sizes of cohorts, or of what else honest devices draw evenly;
            None for metrics without.
    """

    popcount_z: float | None
    popcount_p: float | None
    cohort_p: float | None

    @property
    def alarm(self) -> bool:
        """Whether somebody should look."""
        return any(p is not None and p < ALARM for p in (self.popcount_p, self.cohort_p))

    def to_dict(self) -> dict[str, float | bool | None]:
        """Return the fields, and the alarm."""
        return asdict(self) | {"alarm": self.alarm}


def judge(mechanism: Mechanism, tally: Tally, popcounts: Sequence[int]) -> Plausibility:
    """Compare reports with what honest devices send.

    Args:
        mechanism: Their channel.
        tally: Of one metric version and epoch.
        popcounts: How many reports set 0, 1, ... bits; empty for metrics without bit vectors.
    """
    sizes = tally.reports
    if mechanism.even_parts > 1:
        sizes = tally.counts.reshape(mechanism.cohorts * mechanism.even_parts, -1).sum(axis=1)
    cohort_p = None
    if len(sizes) > 1 and tally.n:
        cohort_p = _chi_square_p(sizes, np.full(len(sizes), 1 / len(sizes)))
    observed = np.array(popcounts, np.int64)
    if isinstance(mechanism, SubsetSelection) and observed.sum():
        # Every honest subset has the same size.
        strange = observed.sum() != observed[mechanism.size]
        return Plausibility(None, 0.0 if strange else 1.0, cohort_p)
    law = popcount_law(mechanism)
    if law is None or not observed.sum():
        return Plausibility(None, None, cohort_p)
    values = np.arange(len(law))
    mean = float(law @ values)
    deviation = float(np.sqrt(law @ (values - mean) ** 2))
    n = int(observed.sum())
    z = (float(observed @ values) / n - mean) / (deviation / np.sqrt(n))
    return Plausibility(float(z), _chi_square_p(observed, law), cohort_p)


def popcount_law(mechanism: Mechanism) -> Floats | None:
    """Return the probability that an honest report sets 0, 1, ..., cells bits.

    None where that depends on the value: of a yes/no answer the one bit is what was asked, of
    several options it is how many apply. None for subsets too, whose bits depend on each other.

    Args:
        mechanism: Any; None for responses that are one cell.
    """
    if mechanism.kind == "cell" or mechanism.encodes in ("several", "number"):
        return None
    if isinstance(mechanism, HierarchicalHistogram):
        laws = np.zeros((mechanism.cohorts, mechanism.cells + 1))
        for level, width in enumerate(mechanism.widths):
            laws[level, : width + 1] = _bits_set(mechanism, 1, width - 1)
        return np.asarray(laws.mean(axis=0))
    if isinstance(mechanism, SubsetSelection):
        return None
    values = [""] if mechanism.domain is None else range(mechanism.domain)
    own_bits = {len(mechanism.cells_for(value, 0)) for value in values}
    if len(own_bits) > 1:
        return None
    (ones,) = own_bits
    return _bits_set(mechanism, ones, mechanism.cells - ones)


def _bits_set(mechanism: Mechanism, ones: int, others: int) -> Floats:
    """Return the law of how many are set of `ones` bits of the value and `others` that are not."""
    own = stats.binom.pmf(np.arange(ones + 1), ones, float(mechanism.p_true))
    noise = stats.binom.pmf(np.arange(others + 1), others, float(mechanism.p_false))
    return np.asarray(np.convolve(own, noise), np.float64)


def worst_shift(mechanism: Mechanism, fakes: float = FAKES) -> float:
    """Return the most by which fakes can move one share, up or down.

    Each of them supports a cell or leaves it alone at will, where an honest device would have
    moved the count by p_true or p_false (reference 17; Cao, Jia, Gong, USENIX Security 2021).

    Args:
        mechanism: The channel.
        fakes: Part of the reports that are fakes, in [0, 1].
    """
    return worst_move(Channel.of_values(mechanism), fakes)


def worst_move(channel: Channel, fakes: float = FAKES) -> float:
    """Return the same of whatever a channel's supports are inverted to."""
    up = (1 - min(channel.p_true, channel.p_false)) / abs(channel.gap)
    down = max(channel.p_true, channel.p_false) / abs(channel.gap)
    return fakes * max(up, down)


def _chi_square_p(observed: NDArray[np.int64], law: Floats) -> float | None:
    """Return the p-value of Pearson's test; None if the reports are too few for two bins."""
    expected = law * observed.sum()
    groups = _joined(expected)
    if groups[-1] == 0:
        return None
    found = np.bincount(groups, weights=observed)
    return float(stats.chisquare(found, np.bincount(groups, weights=expected)).pvalue)


def _joined(expected: Floats) -> NDArray[np.intp]:
    """Number the bins, neighbours together until each expects enough; the last take the rest."""
    groups = np.zeros(len(expected), np.intp)
    current, held = 0, 0.0
    left = float(expected.sum())
    for place, part in enumerate(expected):
        groups[place] = current
        held += float(part)
        left -= float(part)
        if held >= _LEAST_EXPECTED and left >= _LEAST_EXPECTED:
            current, held = current + 1, 0.0
    return groups

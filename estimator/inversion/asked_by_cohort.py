"""d-bit flip: each value's share from the reports of those cohorts that were asked for it.

A cohort is drawn whatever the value, so those who were asked for one are a random part of all
devices, and their number is divided by as it is: the nominal one, n d/k, would be unbiased too, and
add f (1 - pi) / (pi n) to the variance, pi = d/k (reference 10.2).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aggregator.tally import Tally
from client_sdk.mechanisms import DBitFlip
from estimator import uncertainty
from estimator.debias import Channel, Floats
from estimator.estimates import Estimate, Estimates
from estimator.inversion.described import Described
from estimator.inversion.entries import Columns, entries_of
from estimator.plausibility import FAKES, worst_move

METHOD = (
    "inverted channel over the cohorts asked for a value; Wilson interval of the support count, "
    "of all together Clopper-Pearson, mapped through the inverse"
)


def estimates(metric: Described, tally: Tally, level: float) -> Estimates:
    """Estimate shares; those that nobody was asked for have no estimate."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, DBitFlip)
    epsilon, n = float(mechanism.epsilon), tally.n
    entries = [Estimate(label) for label in metric.labels]
    asked, supports = asked_and_supports(mechanism, tally.reports, tally.counts)
    there = np.flatnonzero(asked)
    if not there.size:
        return Estimates(n, epsilon, level, METHOD, tuple(entries))
    columns = _columns(mechanism, supports[there], asked[there], n, level, len(entries))
    complete = there.size == len(entries)
    found = entries_of([metric.labels[i] for i in there], columns, n)
    for i, entry in zip(there, found, strict=True):
        # Shares of some values only are not made to add up to one.
        entries[i] = entry if complete else replace(entry, consistent=None, design_effect=None)
    shift = worst_shift(mechanism)
    return Estimates(n, epsilon, level, METHOD, tuple(entries), worst_shift=shift)


def asked_and_supports(
    mechanism: DBitFlip, reports: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many reports were asked for each value, and how many of those support it.

    Args:
        mechanism: Says which cohort was asked for what.
        reports: Shape (..., cohorts).
        counts: Shape (..., cohorts, cells).

    Returns:
        Two arrays of shape (..., domain).
    """
    if mechanism.cohorts == 1:
        supports = counts[..., 0, :]
        return np.broadcast_to(reports, supports.shape), supports
    asked, supports = np.zeros_like(reports), np.zeros_like(reports)
    for place in range(mechanism.cells):  # cohort c has value c + place there
        asked += np.roll(reports, place, axis=-1)
        supports += np.roll(counts[..., place], place, axis=-1)
    return asked, supports


def _columns(
    mechanism: DBitFlip,
    supports: NDArray[np.int64],
    asked: NDArray[np.int64],
    n: int,
    level: float,
    cells: int,
) -> Columns:
    channel = Channel.of(mechanism)
    shares = channel.invert(supports / asked)
    return Columns(
        shares,
        uncertainty.standard_error_population(supports, asked, channel),
        np.sqrt(variance_reporters(np.clip(shares, 0, 1), asked, n, channel)),
        uncertainty.interval(supports, asked, channel, level=level),
        uncertainty.simultaneous_interval(supports, asked, channel, level=level, cells=cells),
        uncertainty.significant(supports, asked, channel, level=level, cells=cells),
    )


def variance_reporters(share: Floats, asked: NDArray[np.int64], n: int, channel: Channel) -> Floats:
    """Return the variance about the n reporters: of the noise, and of who was asked.

    The share of those asked, drawn without putting back, is not that of all:
    f (1 - f) (1/asked - 1/n).
    """
    drawn = share * (1 - share) * (1 / asked - 1 / n)
    return uncertainty.variance_reporters(share, asked, channel) + drawn


def worst_shift(mechanism: DBitFlip, fakes: float = FAKES) -> float:
    """Return the most by which fakes can move one share, up or down.

    All of them join cohorts that are asked for it, where honest devices are only d/k of theirs.
    """
    part = fakes / (fakes + (1 - fakes) * float(mechanism.asked))
    return worst_move(Channel.of(mechanism), part)

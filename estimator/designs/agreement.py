"""Misfit where answers say more than is estimated: cells, numbers of red cards, lists of counts.

One share and two reports always fit: then only an estimate outside 0..1 can show a misfit
(`verdict`). With more to go by, honest answers follow a law that can be tested.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from estimator.debias import Floats
from estimator.designs.base import Design
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import KukDraws
from estimator.designs.sample import Sample
from estimator.designs.verdict import LIMIT


@dataclass(frozen=True)
class Agreement:
    """Whether answers agree with each other, if all keep to the instructions.

    Attributes:
        what: Which ones: "cells", "numbers of red cards", "counts of both lists".
        chi_square: How far they are from what fits best.
        degrees: Of freedom of its law.
        p_value: Probability of so much or more from honest answers.
    """

    what: str
    chi_square: float
    degrees: int
    p_value: float

    @property
    def misfit(self) -> bool:
        """Whether they contradict each other; honest answers do so 2.5 % of the time."""
        return self.p_value < LIMIT


def deviance(what: str, seen: Floats, told: Floats, degrees: int) -> Agreement:
    """Compare counts with what a fitted law tells: twice the log-likelihood that it loses."""
    some = seen > 0
    lost = max(0.0, 2 * float((seen[some] * np.log(seen[some] / told[some])).sum()))
    return Agreement(what, lost, degrees, float(stats.chi2.sf(lost, degrees)))


def agreement(design: Design, samples: tuple[Sample, ...]) -> Agreement | None:
    """Test one design's answers where they can be tested; None elsewhere, and with weights."""
    if not all(sample.whole for sample in samples):
        return None
    if isinstance(design, KukDraws) and design.draws > 1:
        return _red_cards(design, samples[0])
    if isinstance(design, ItemCount):
        return _lists(*samples)
    return None


def _red_cards(design: KukDraws, sample: Sample) -> Agreement | None:
    """Compare numbers of red cards with the best mixture of both decks' binomial laws."""
    no, yes = np.array([[float(p) for p in row] for row in design.matrix()])
    counts = sample.shares * sample.n

    def lost(share: float) -> float:
        law = np.maximum((1 - share) * no + share * yes, 1e-300)
        return -float((counts * np.log(law)).sum())

    share = float(optimize.minimize_scalar(lost, bounds=(0, 1), method="bounded").x)
    law = np.maximum((1 - share) * no + share * yes, 1e-300)
    return deviance("numbers of red cards", counts, sample.n * law, design.draws - 1)


def _lists(short: Sample, long: Sample) -> Agreement:
    """Test whether a further statement only ever adds 0 or 1 to a count.

    Then for each count y, P(short <= y) >= P(long <= y) >= P(short <= y - 1). The worst of these
    differences is judged by the normal law, for the number of them (Bonferroni): a design effect in
    the sense of Blair and Imai, "Statistical Analysis of List Experiments" (2012).
    """
    below_short = np.append(np.cumsum(short.shares), 1.0)
    below_long = np.cumsum(long.shares)
    shifted = np.insert(below_short[:-1], 0, 0.0)
    worst, pieces = 0.0, 0
    for upper, lower, m, n in (
        (below_short, below_long, short.n, long.n),
        (below_long, shifted, long.n, short.n),
    ):
        variance = upper * (1 - upper) / m + lower * (1 - lower) / n
        judged = variance > 1e-12
        pieces += int(judged.sum())
        worst = min(worst, *(((upper - lower)[judged]) / np.sqrt(variance[judged])), 0.0)
    p_value = min(1.0, pieces * float(stats.norm.cdf(worst)))
    return Agreement("counts of both lists", worst**2, 1, p_value)

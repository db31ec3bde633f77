"""Hierarchical histogram: each report speaks of one level of a tree over ordered buckets.

Channel: the buckets are the leaves of a tree in which up to `branching` neighbours share a
parent. A report draws one level below the root, uniformly and whatever its value, and sends the
nodes of that level as optimized unary encoding: the node above the value is 1 with probability
p = 1/2, every other one with q = 1/(1 + e^eps). All of epsilon is spent on that one level, so a
node's share has variance L V(eps)/n for L levels, where splitting epsilon among all levels would
leave V(eps/L)/n: 14.7/n against 63.7/n at epsilon 1 and 4 levels. A range of buckets is a sum of
few nodes instead of many leaves, so ranges and quantiles are more exact than those of a flat
histogram; single buckets are less exact.
Cormode, Kulkarni, Srivastava, "Answering Range Queries Under Local Differential Privacy"
(PVLDB 2019), section 4, there called HHB with TreeOUE.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    ceil_threshold,
    checked_epsilon,
    exponential,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin

MOST_LEAVES = 1024
BRANCHING = 4


class HierarchicalHistogram(Mechanism):
    """Unary encoding of one level, drawn per report, of a tree over 0..domain-1.

    The cohort of a report is its level, 0 for the one right below the root, which needs no report
    because all devices are in it. Cells are the nodes of the widest level, the leaves; a report
    of level l uses the first `widths[l]`, and the others stay 0. Loss: two values differ in two
    bits of a level, or in none, so epsilon = ln[p(1-q) / ((1-p) q)] at each level.

    Args:
        domain: Number of leaves, 2 to 1024.
        branching: Most children of a node, at least 2; the last node of a level may have fewer.
        one_if_one: Threshold of P(1|1), in (0, 2**64).
        one_if_zero: Threshold of P(1|0), in (0, one_if_one).

    Attributes:
        branching: As given.
        widths: Nodes of each level, from below the root to the leaves.
    """

    name = "hierarchical_histogram"
    kind = "bits"
    ordered = True

    def __init__(self, domain: int, branching: int, one_if_one: int, one_if_zero: int) -> None:
        self.domain: int = require_domain(domain)
        if domain > MOST_LEAVES:
            raise ParameterError(
                f"domain must have at most {MOST_LEAVES} values or buckets, got domain={domain}"
            )
        if branching < 2:
            raise ParameterError(f"branching must be at least 2, got branching={branching}")
        if not 0 < one_if_zero < one_if_one < ONE:
            raise ParameterError(
                "thresholds must satisfy 0 < one_if_zero < one_if_one < 2**64, got "
                f"{one_if_zero} and {one_if_one}"
            )
        widths = [domain]
        while widths[0] > branching:
            widths.insert(0, -(-widths[0] // branching))
        self.widths: Sequence[int] = tuple(widths)
        self.branching = branching
        self.cohorts = len(widths)
        self.cells = domain
        self.one_if_one = one_if_one
        self.one_if_zero = one_if_zero
        self.p_true = p = probability(one_if_one)
        self.p_false = q = probability(one_if_zero)
        self.epsilon = log_ratio(p * (1 - q), (1 - p) * q)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("branching")
        branching = declared.integer("branching", 2, MOST_LEAVES, BRANCHING)
        return cls.from_epsilon(declared.closed(), declared.once(), branching)

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real, branching: int = BRANCHING) -> Self:
        """The channel with a loss of at most `epsilon`."""
        power = Fraction(exponential(checked_epsilon(epsilon)))
        return cls(domain, branching, ONE // 2, ceil_threshold(1 / (1 + power)))

    @property
    def node_variance(self) -> float:
        """Variance of the share of a node that nobody is in, times n, from its own level alone.

        L q(1-q)/(p-q)^2: each of the L levels has one report in L.
        """
        p, q = self.p_true, self.p_false
        return float(self.cohorts * q * (1 - q) / (p - q) ** 2)

    @cached_property
    def rare_variance(self) -> float:
        """The same of a leaf, once all levels agree; the largest over leaves."""
        return self.node_variance * _largest_part_left(self.widths, self.branching)

    def node(self, value: int, level: int) -> int:
        """Return which node of a level a leaf lies below."""
        leaves: int = self.branching ** (self.cohorts - 1 - level)
        return value // leaves

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (self.node(int(value), cohort),)

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        # Above the cells stands the level, which `instantaneous` needs; it is sent as the cohort.
        return 1 << self.node(int(value), cohort) | 1 << self.cells + cohort

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        level = (permanent >> self.cells).bit_length() - 1
        nodes = permanent & ((1 << self.cells) - 1)
        return coin.flip_bits(nodes, self.widths[level], self.one_if_one, self.one_if_zero)

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        own, width = self.node(int(value), cohort), self.widths[cohort]
        chances = [self.p_false] * width + [Fraction(0)] * (self.cells - width)
        chances[own] = self.p_true
        return chances

    def parameters(self) -> Mapping[str, int]:
        return {
            "domain": self.cells,
            "branching": self.branching,
            "one_if_one": self.one_if_one,
            "one_if_zero": self.one_if_zero,
        }


def _largest_part_left(widths: Sequence[int], branching: int) -> float:
    """Return a leaf's variance after weighted least squares, as a part of that of one node.

    Exact for nodes of equal variance below a root that is known. First each node learns from
    its subtree, then from the rest of the tree (Hay et al., "Boosting the Accuracy of
    Differentially Private Histograms Through Consistency", PVLDB 2010, section 4).
    """
    below = [[1.0] * widths[-1]]
    for width in reversed(widths[:-1]):
        sums = [sum(_children(below[0], node, branching)) for node in range(width)]
        below.insert(0, [_joined(1.0, each) for each in sums])
    above = [0.0]  # of the parent, from all but its subtree
    for level, own in enumerate(below):
        # A parent's own report counts among what its children learn from above.
        known = above if level == 0 else [_joined(1.0, each) for each in above]
        above = [
            known[node // branching if level else 0]
            + sum(_children(own, node // branching, branching) if level else own)
            - each
            for node, each in enumerate(own)
        ]
    return max(_joined(own, rest) for own, rest in zip(below[-1], above, strict=True))


def _children(level: Sequence[float], parent: int, branching: int) -> Sequence[float]:
    return level[parent * branching : (parent + 1) * branching]


def _joined(one: float, other: float) -> float:
    """Return the variance of two independent estimates, averaged in the best way."""
    return one * other / (one + other)

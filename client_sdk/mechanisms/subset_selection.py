"""Subset selection: send a set of w values that holds the truth more often than chance.

Channel: with probability p = w e^eps/(w e^eps + d - w) the set is the value and w-1 uniform others,
else w uniform others. Any set is e^eps times as probable for a value in it as for one outside:
P(Z|v in Z)/P(Z|v not in Z) = [p / C(d-1, w-1)] / [(1-p) / C(d-1, w)] = p (d-w) / ((1-p) w).
Ye and Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally Differential
Privacy" (IEEE Transactions on Information Theory, 2018). Least variance among the common oracles
for domains of middle size; w = 1 is generalized randomized response.

The set is sent as bits: a list could tell by its order which member is the value.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain, require_index
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import (
    Real,
    checked_epsilon,
    exponential,
    floor_threshold,
    log_ratio,
    probability,
)
from client_sdk.randomness import ONE, Coin


class SubsetSelection(Mechanism):
    """Subsets of one size, on the domain 0..domain-1.

    Args:
        domain: Number of values, at least 2.
        size: Members of a subset, in [1, domain - 1].
        keep: Threshold of sending the value among them, in (0, 2**64), above chance level.
    """

    name = "subset_selection"
    kind = "bits"

    def __init__(self, domain: int, size: int, keep: int) -> None:
        self.domain: int = require_domain(domain)
        if not 1 <= size < domain:
            raise ParameterError(f"size must lie in 1..{domain - 1}, got size={size}")
        if not ONE * size < keep * domain < ONE * domain:
            raise ParameterError(
                f"p_true must lie between size/domain = {size}/{domain} and 1, "
                f"got p_true={float(probability(keep))}"
            )
        self.cells = domain
        self.size = size
        self.keep = keep
        self.p_true = p = probability(keep)
        self.p_false = (p * (size - 1) + (1 - p) * size) / (domain - 1)
        self.epsilon = log_ratio(p * (domain - size), (1 - p) * size)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("size")
        domain = require_domain(declared.closed())
        size = None
        if "size" in declared.options:
            size = declared.integer("size", 1, domain - 1)
        return cls.from_epsilon(domain, declared.once(), size)

    @classmethod
    def from_epsilon(cls, domain: int, epsilon: Real, size: int | None = None) -> Self:
        """The channel with a loss of at most `epsilon`; by default of the size of least variance.

        That is the whole number above or below d/(e^eps + 1), whichever has the smaller variance.
        """
        power = Fraction(exponential(checked_epsilon(epsilon)))
        if size is not None:
            sizes = [size]
        else:
            below = int(require_domain(domain) / (power + 1))
            sizes = [each for each in (below, below + 1) if 1 <= each < domain]
        made = [
            cls(domain, each, floor_threshold(each * power / (each * power + domain - each)))
            for each in sizes
        ]
        return min(made, key=lambda mechanism: mechanism.rare_variance)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (require_index(value, self.domain),)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        # All draws are made whatever the first one says: w-1 others, and one more of the rest,
        # which takes the value's place where the value is left out. That is a uniform set of w
        # others, since each of its members is the last one equally often.
        keep = coin.bernoulli(self.keep)
        of = self.domain - 1
        others = coin.subset(self.size - 1, of)
        last = 1 << _nth_outside(others, coin.uniform(self.domain - self.size), of)
        others |= 0 if keep else last
        # Others are numbered without the value: from its place on they move up by one.
        below = others & (permanent - 1)
        return below | (permanent if keep else 0) | (others ^ below) << 1

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.cells, "size": self.size, "keep": self.keep}


def _nth_outside(members: int, n: int, of: int) -> int:
    """Return the n-th number (from 0) below `of` that is no member of a set, bit i for member i.

    It is the largest number below which there are at most n that are no members.
    """
    found = 0
    for power in reversed(range(of.bit_length())):
        tried = found | 1 << power
        if tried - (members & (1 << tried) - 1).bit_count() <= n:
            found = tried
    return found

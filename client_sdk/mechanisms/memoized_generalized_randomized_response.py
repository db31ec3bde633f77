"""Generalized randomized response with memory (L-GRR): one of d, kept or not, twice.

The first stage keeps the value with p1 = e^eps_perm / (e^eps_perm + d - 1), else remembers one of
the d-1 others; each report keeps what is remembered with p2 and sends one of the others otherwise.
Both together are a generalized randomized response at epsilon, and p2 is solved for that with the
real d, see `two_stage`.

Reports share what is remembered, so N of them lose neither epsilon nor N epsilon:

    epsilon_of(N) = ln[(p1 e^x + (d-1) q1) / (q1 e^x + p1 + (d-2) q1)],   x = N ln(p2/q2)

Basic composition fails: with d = 100, epsilon_permanent = 4, epsilon = 0.5, two reports lose 1.233,
more than 1.0, and three 2.075. All reports ever of one value lose at most epsilon_permanent, which
is why a device is charged that, once.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import Mechanism, Value, require_domain
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.thresholds import Real, log_ratio, probability
from client_sdk.mechanisms.two_stage import CellStages, both_epsilons, checked_epsilons
from client_sdk.randomness import ONE, Coin


class MemoizedCells(Mechanism):
    """One of `cells`, through two stages that keep it or send another one.

    Args:
        cells: At least 2.
        keep: Threshold of p1, above chance level 2**64 / cells and below 2**64.
        keep_again: Threshold of p2, the same.
    """

    kind = "cell"
    memoizes = True

    def __init__(self, cells: int, keep: int, keep_again: int) -> None:
        for name, threshold in (("p1", keep), ("p2", keep_again)):
            if not ONE < threshold * cells < ONE * cells:
                raise ParameterError(
                    f"{name} must lie between 1/cells = 1/{cells} and 1, "
                    f"got {name}={float(probability(threshold))}"
                )
        self.cells = cells
        self.keep = keep
        self.keep_again = keep_again
        self.stages = stages = CellStages(cells, probability(keep), probability(keep_again))
        self.p_true, self.p_false = stages.p_true, stages.p_false
        self.epsilon = self.epsilon_of(1)
        self.epsilon_permanent = log_ratio(stages.keep, stages.leave)

    @property
    def epsilon_instantaneous(self) -> Decimal:
        return log_ratio(self.stages.keep_again, self.stages.leave_again)

    def epsilon_of(self, reports: int) -> Decimal:
        return log_ratio(*self.stages.ratio_of(reports))

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        (cell,) = self.cells_for(value, cohort)
        return self._kept(cell, self.keep, coin)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return self._kept(permanent, self.keep_again, coin)

    def _kept(self, cell: int, threshold: int, coin: Coin) -> int:
        # Both draws are made whatever the first one says, so that both paths do the same work.
        keep = coin.bernoulli(threshold)
        shift = 1 + coin.uniform(self.cells - 1)
        return cell if keep else (cell + shift) % self.cells


class MemoizedGeneralizedRandomizedResponse(MemoizedCells):
    """L-GRR on the domain 0..domain-1; with two values, Warner's design twice.

    Args:
        domain: Number of values, at least 2.
        keep: Threshold of p1, above chance level.
        keep_again: Threshold of p2, above chance level.
    """

    name = "memoized_generalized_randomized_response"

    def __init__(self, domain: int, keep: int, keep_again: int) -> None:
        self.domain: int = require_domain(domain)
        super().__init__(domain, keep, keep_again)

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only()
        return cls.from_epsilons(declared.closed(), *both_epsilons(declared))

    @classmethod
    def from_epsilons(cls, domain: int, epsilon: Real, epsilon_permanent: Real) -> Self:
        """The channel with a loss of at most `epsilon` once and `epsilon_permanent` for ever.

        Raises:
            ParameterError: epsilon is not below epsilon_permanent.
        """
        one, permanent = checked_epsilons(epsilon, epsilon_permanent)
        return cls(domain, *CellStages.solved(require_domain(domain), one, permanent))

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        return (int(value),)

    def parameters(self) -> Mapping[str, int]:
        return {"domain": self.cells, "keep": self.keep, "keep_again": self.keep_again}

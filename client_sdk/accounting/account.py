"""One device's reports by every rule: the sum that is enforced, and the figures shown beside it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from client_sdk.accounting.advanced import advanced, kairouz_oh_viswanath
from client_sdk.accounting.concentrated import by_concentrated
from client_sdk.accounting.law import DELTA, Fresh, Law, checked_delta, enforced, merged, plain_sum
from client_sdk.accounting.loss_distribution import by_losses
from client_sdk.accounting.remembered import Remembered, covering_changes, same_changes
from client_sdk.accounting.renyi import by_renyi
from client_sdk.mechanisms.base import Mechanism
from client_sdk.mechanisms.thresholds import Real

SUM = "sum"
LOSSES = "loss distribution"


class Accounted(NamedTuple):
    """What a device's reports cost and tell.

    Attributes:
        enforced: The plain sum in micro-epsilon: the only figure that caps anything.
        epsilon: Bound on the loss with probability 1 - delta, for two histories whose memoized
            values change at the same times; at most `same_changes`. Never enforced.
        delta: Probability with which the loss may be larger.
        rule: Which rule gave the fresh reports' part of `epsilon`.
        figures: Epsilon of the fresh reports by each rule, at most their sum.
        same_changes: The bound with delta 0 and exact losses of what is remembered.
        covering_changes: The bound with delta 0 that also covers when values changed; None where
            there is none, since the remembered response itself is sent.
    """

    enforced: int
    epsilon: float
    delta: float
    rule: str
    figures: Mapping[str, float]
    same_changes: float
    covering_changes: float | None


def account(
    fresh: Iterable[tuple[Mechanism | Law | Real, int]],
    remembered: Iterable[Remembered] = (),
    delta: float = DELTA,
) -> Accounted:
    """Account for the reports of one device.

    Args:
        fresh: Mechanisms, laws or bare epsilons, and how many reports were sent of each.
        remembered: What was reported of memoized metrics. Their losses are added plainly.
        delta: Probability with which `epsilon` may be exceeded, in [1e-30, 1).

    Raises:
        ParameterError: An argument is out of range, or a mechanism is in the wrong one.
    """
    groups, kept = merged(fresh), tuple(remembered)
    charged = enforced(groups) + sum(each.enforced for each in kept)
    figures = rules(groups, checked_delta(delta))
    # The first of equals: a rule that says no more than the sum is not named for it.
    rule = min(figures, key=lambda name: figures[name])
    memories = sum(float(same_changes(each)) for each in kept)
    changes = covering_changes(kept)
    plain = figures[SUM]
    return Accounted(
        enforced=charged,
        epsilon=min(figures[rule] + memories, charged / 1e6),
        delta=delta,
        rule=rule,
        figures=figures,
        same_changes=min(plain + memories, charged / 1e6),
        covering_changes=None if changes is None else plain + float(changes),
    )


def rules(fresh: tuple[Fresh, ...], delta: float) -> dict[str, float]:
    """Return the epsilon of fresh reports by each rule; none is above their sum."""
    plain = plain_sum(fresh)
    found = {SUM: plain}
    if not fresh:
        return found
    found["advanced"] = advanced(fresh, delta)
    found["kairouz-oh-viswanath"] = kairouz_oh_viswanath(fresh, delta)
    found["concentrated"] = by_concentrated(fresh, delta)
    found["renyi"] = by_renyi(fresh, delta)
    exact = by_losses(fresh, delta)
    if exact is not None:
        found[LOSSES] = exact
    return {rule: min(plain, epsilon) for rule, epsilon in found.items()}

"""The audit of small channels: the whole law of every response, value by value."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from client_sdk.audit.finding import Audit
from client_sdk.audit.replay import Law, largest_loss, law
from client_sdk.mechanisms import Mechanism, Value

MOST_BRANCHES = 200_000
"""Branches of one cohort after which no further values are compared."""
_LEAST_VALUES = 3


def audit_branches(result: Audit, domain: Sequence[Value], cohort: int) -> int:
    """Replay every branch of both stages for one cohort; return how many values were compared."""
    fresh = _FreshStage(result.mechanism)
    laws: list[Law] = []
    permanents: list[Law] = []
    memories: dict[str, Law] = {}
    began = result.branches
    for value in domain:
        permanent, count = law(partial(result.mechanism.permanent, value, cohort))
        response = fresh.after(permanent)
        result.branches += count
        permanents.append(permanent)
        if result.mechanism.memoizes:
            result.share_memory(memories, value, cohort, permanent)
        laws.append(response)
        result.expect(sum(response.values()) == 1, f"the law of {value!r} does not sum to 1")
        _compare_supports(result, value, cohort, response)
        spent = result.branches + fresh.branches - began
        if spent > MOST_BRANCHES and len(laws) >= _LEAST_VALUES:
            break
    result.branches += fresh.branches
    result.raise_to(largest_loss(laws))
    if result.mechanism.memoizes:
        result.raise_permanent_to(largest_loss(permanents))
        result.raise_instantaneous_to(largest_loss(list(fresh.laws.values())))
    return len(laws)


class _FreshStage:
    """The laws of the second stage by what is remembered, each rebuilt once."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.laws: dict[int, Law] = {}
        self.branches = 0

    def after(self, permanent: Law) -> Law:
        """Return the law of a response when what is remembered has a law of its own."""
        response: Law = {}
        for remembered, weight in permanent.items():
            if remembered not in self.laws:
                draw = partial(self.mechanism.instantaneous, remembered)
                self.laws[remembered], count = law(draw)
                self.branches += count
            for outcome, chance in self.laws[remembered].items():
                response[outcome] = response.get(outcome, Fraction(0)) + weight * chance
        return response


def _compare_supports(result: Audit, value: Value, cohort: int, response: Law) -> None:
    mechanism = result.mechanism
    supports = [Fraction(0)] * mechanism.cells
    for outcome, chance in response.items():
        for cell in mechanism.support(outcome):
            supports[cell] += chance
    result.expect(
        supports == mechanism.channel(value, cohort),
        f"supports of {value!r} in cohort {cohort} are not those that channel() states",
    )

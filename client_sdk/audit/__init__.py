"""Exact audit: rebuild a mechanism's channel from the shipped code, compare it with what it states.

All chance goes through `Coin`, so a test coin can answer each decision and note its exact
probability: running the mechanism once per way of deciding gives its whole law as fractions, with
no sampling and no tolerance. Small channels are enumerated response by response (`branches`), long
bit vectors lane by lane (`lanes`), subsets of long lists by the one subset they draw (`subsets`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from client_sdk.audit.branches import audit_branches
from client_sdk.audit.finding import Audit
from client_sdk.audit.lanes import audit_lanes
from client_sdk.audit.replay import UnauditableError, law
from client_sdk.audit.subsets import audit_subsets, draws_a_subset
from client_sdk.mechanisms import Mechanism, Value

__all__ = ["Audit", "UnauditableError", "audit", "law"]

LONGEST_ENUMERATED = 10
"""Bits whose outcomes are enumerated, over all stages."""
MOST_VALUES = 64
MOST_COHORTS = 4


_Method = Callable[[Audit, Sequence[Value], int], int]
"""Audits values in one cohort, and returns how many of them it got to."""
_UNITS: dict[_Method, str] = {
    audit_branches: "branch",
    audit_lanes: "lane",
    audit_subsets: "kind of subset",
}


def audit(mechanism: Mechanism, strings: Iterable[str] = ()) -> Audit:
    """Audit a mechanism exactly.

    Args:
        mechanism: What to audit.
        strings: For open domains, values to compare pairwise; some are made up if none given.
    """
    domain: Sequence[Value]
    if mechanism.domain is not None:
        domain = mechanism.sample(MOST_VALUES)
    else:
        domain = list(dict.fromkeys(strings))[:16] or [f"value {i}" for i in range(12)]
    method = _method(mechanism, domain[0])
    result = Audit(mechanism, f"every {_UNITS[method]} of the code")
    # Both ends first: a large channel is done before all values are.
    domain = [*domain[:1], *domain[1:][-1:], *domain[1:-1]]
    compared, cohorts = len(domain), _cohorts(mechanism)
    before = dict(vars(mechanism))
    try:
        for cohort in cohorts:
            compared = min(compared, method(result, domain, cohort))
    except UnauditableError as error:
        result.problems.append(str(error))
    for name in _kept_since(before, mechanism):
        result.problems.append(f"its draws leave something behind in {name!r}, which may tell")
    values = mechanism.domain or len(domain)
    if compared < values:
        result.method += f", {compared} of {values} values"
    if len(cohorts) < mechanism.cohorts:
        result.method += f", {len(cohorts)} of {mechanism.cohorts} cohorts"
    stated = mechanism.epsilon
    result.expect(
        result.worst <= stated, f"loss {result.worst:.12f} exceeds the stated {stated:.12f}"
    )
    if result.worst_permanent is not None and mechanism.epsilon_permanent is not None:
        result.expect(
            result.worst_permanent <= mechanism.epsilon_permanent,
            f"permanent loss {result.worst_permanent:.12f} exceeds the stated "
            f"{mechanism.epsilon_permanent:.12f}",
        )
    if result.worst_instantaneous is not None:
        result.expect(
            result.worst_instantaneous <= mechanism.epsilon_instantaneous,
            f"loss of the fresh stage {result.worst_instantaneous:.12f} exceeds the stated "
            f"{mechanism.epsilon_instantaneous:.12f}",
        )
    return result


def _kept_since(before: Mapping[str, object], mechanism: Mechanism) -> Iterator[str]:
    """Yield attributes that draws have set: a law would depend on what was drawn before."""
    for name, value in vars(mechanism).items():
        computed = isinstance(getattr(type(mechanism), name, None), cached_property)
        if not computed and (name not in before or before[name] is not value):
            yield name


def _cohorts(mechanism: Mechanism) -> Sequence[int]:
    """Return at most MOST_COHORTS, the last among them: of a tree it is the widest level."""
    last = mechanism.cohorts - 1
    return [*range(min(last, MOST_COHORTS - 1)), last]


def _method(mechanism: Mechanism, value: Value) -> _Method:
    stages = 2 if mechanism.memoizes else 1
    if mechanism.kind == "cell" or mechanism.cells * stages <= LONGEST_ENUMERATED:
        return audit_branches
    return audit_subsets if draws_a_subset(mechanism, value) else audit_lanes

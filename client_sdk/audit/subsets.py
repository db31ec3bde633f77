"""The audit of uniform subsets of long lists, of which there are too many to enumerate.

Shown for each value v, for the sets that a chosen pattern of `Coin.subset` gives: a response is the
drawn members and one more, the drawn members being numbers without v; the one more is v with one
probability and any further value with another, the same for all. Since every pattern is equally
probable, that makes the whole law: a response of w members has probability k/C(d-1, w-1) if v is
among them, and w r/C(d-1, w-1) if not, for any of its members can have been the last. Code that
singles out a set beyond those patterns is not found out.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial

from client_sdk.audit.finding import Audit
from client_sdk.audit.replay import ReplayCoin, UnauditableError, law
from client_sdk.mechanisms import Mechanism, Value
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import Coin

PATTERNS = 8


class _Drawn(Exception):
    """A subset is drawn."""


class _Probe(Coin):
    def bernoulli(self, threshold: int) -> bool:
        return False

    def uniform(self, bound: int) -> int:
        return 0

    def subset(self, size: int, of: int) -> int:
        raise _Drawn

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        return 0


def draws_a_subset(mechanism: Mechanism, value: Value) -> bool:
    """Say whether the fresh stage draws by `Coin.subset`."""
    try:
        mechanism.instantaneous(mechanism.permanent(value, 0, _Probe()), _Probe())
    except _Drawn:
        return True
    return False


class _SubsetCoin(ReplayCoin):
    """Answers the one subset that is drawn by a pattern: the first members, the last, some."""

    def __init__(self, pattern: int, script: Sequence[int]) -> None:
        super().__init__(script)
        self.pattern = pattern
        self.drawn: list[tuple[int, int, int]] = []

    def subset(self, size: int, of: int) -> int:
        members = _chosen(self.pattern, size, of)
        self.drawn.append((size, of, members))
        return members


def audit_subsets(result: Audit, domain: Sequence[Value], cohort: int) -> int:
    """Show the structure above for every value, and compose the law; return how many values."""
    chances = {
        _chances(result, int(value), pattern, cohort)
        for value in domain
        for pattern in range(PATTERNS)
    }
    if len(chances) != 1:
        raise UnauditableError("the chances of the last member change with value or subset")
    own, other, members = chances.pop()
    cells = result.mechanism.cells
    size = members + 1
    # Both in units of 1/C(d-1, w-1), the probability of one subset of drawn members.
    if own == 0 or other == 0:
        result.raise_to(Decimal("Infinity"))
        return len(domain)
    loss = max(own / (size * other), size * other / own)
    result.raise_to(log_ratio(loss, Fraction(1)) if size < cells else Decimal(0))
    outside = Fraction(members, cells - 1)
    for value in domain:
        stated = result.mechanism.channel(value, cohort)
        rest = outside + (1 - outside) * other
        expected = [own if cell == value else rest for cell in range(cells)]
        result.expect(
            stated == expected, f"supports of {value!r} are not those that channel() states"
        )
    return len(domain)


def _chances(
    result: Audit, value: int, pattern: int, cohort: int
) -> tuple[Fraction, Fraction, int]:
    """Return P(last is the value), P(last is any one other) and the number of drawn members."""
    mechanism = result.mechanism
    permanents, _ = law(partial(mechanism.permanent, value, cohort))
    if len(permanents) != 1:
        raise UnauditableError("chance has a part in what a subset is drawn for")
    (encoded,) = permanents
    calls: set[tuple[int, int, int]] = set()

    def coin(script: Sequence[int]) -> ReplayCoin:
        made = _SubsetCoin(pattern, script)
        coins.append(made)
        return made

    coins: list[_SubsetCoin] = []
    found, branches = law(partial(mechanism.instantaneous, encoded), coin)
    result.branches += branches
    for each in coins:
        if len(each.drawn) != 1:
            raise UnauditableError(
                "a response does not draw exactly one subset, whatever else it draws"
            )
        calls.update(each.drawn)
    if len(calls) != 1:
        raise UnauditableError("what subset is drawn depends on other draws")
    size, of, members = calls.pop()
    if of != mechanism.cells - 1:
        raise UnauditableError("the subset is not of all other values")
    low = members & ((1 << value) - 1)
    drawn = low | (members ^ low) << 1
    result.expect(sum(found.values()) == 1, f"the law of {value!r} does not sum to 1")
    own = found.get(drawn | 1 << value, Fraction(0))
    free = [cell for cell in range(mechanism.cells) if not (drawn | 1 << value) >> cell & 1]
    others = {found.get(drawn | 1 << cell, Fraction(0)) for cell in free}
    if len(others) != 1 or len(found) != 1 + len(free):
        raise UnauditableError("a response is not the drawn members and one more, drawn uniformly")
    return own, others.pop(), size


def _chosen(pattern: int, size: int, of: int) -> int:
    """Return a subset: runs at both ends, and spread ones that begin at different places."""
    if pattern < 2:
        run = (1 << size) - 1
        return run << (of - size) * pattern
    return sum(1 << (index * of // size + pattern) % of for index in range(size))

"""The audit of long bit vectors: lane by lane, with independence shown.

A response must be exactly the outcome of one `flip_bits` call, whose lanes are independent; its
law is the product of theirs. Without memory a few decisions may come before it (which of several
options to tell, which node of a tree): each way of deciding is a product of lanes, and a response
is a mixture of those. No mixture loses more than the two of its products that are furthest
apart.

Outcomes are tried in a few patterns, so code that singles out another one is not found out.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations

from client_sdk.audit.finding import Audit
from client_sdk.audit.replay import UnauditableError, chance, law, no_bytes
from client_sdk.mechanisms import Value
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import Coin

Lanes = tuple[Fraction, ...]
"""Probability of a one, per lane."""


def audit_lanes(result: Audit, domain: Sequence[Value], cohort: int) -> int:
    """Rebuild the lanes of every value's response in one cohort; return how many values."""
    audit_cohort = _remembering if result.mechanism.memoizes else _forgetting
    audit_cohort(result, domain, cohort)
    return len(domain)


def _forgetting(result: Audit, domain: Sequence[Value], cohort: int) -> None:
    mechanism = result.mechanism
    products: dict[int, Lanes] = {}
    for value in domain:
        decided, count = law(partial(mechanism.permanent, value, cohort))
        result.branches += count
        for encoded in decided:
            if encoded not in products:
                products[encoded] = _fresh_lanes(result, encoded)
        lanes = [Fraction(0)] * mechanism.cells
        for encoded, weight in decided.items():
            lanes = [p + weight * q for p, q in zip(lanes, products[encoded], strict=True)]
        _compare(result, value, cohort, lanes)
    result.raise_to(_largest_lane_loss(list(products.values())))


def _remembering(result: Audit, domain: Sequence[Value], cohort: int) -> None:
    mechanism = result.mechanism
    if_one, if_zero = _fresh_chances(result)
    permanents = [_permanent_lanes(result, value, cohort) for value in domain]
    memories: dict[str, Lanes] = {}
    for value, remembered in zip(domain, permanents, strict=True):
        result.share_memory(memories, value, cohort, remembered)
    laws = [tuple(p * if_one + (1 - p) * if_zero for p in lanes) for lanes in permanents]
    for value, response in zip(domain, laws, strict=True):
        _compare(result, value, cohort, response)
    result.raise_to(_largest_lane_loss(laws))
    result.raise_permanent_to(_largest_lane_loss(permanents))
    any_two = [(if_one,) * mechanism.cells, (if_zero,) * mechanism.cells]
    result.raise_instantaneous_to(_largest_lane_loss(any_two))


def _compare(result: Audit, value: Value, cohort: int, lanes: Sequence[Fraction]) -> None:
    result.expect(
        list(lanes) == result.mechanism.channel(value, cohort),
        f"supports of {value!r} in cohort {cohort} are not those that channel() states",
    )


class _LaneCoin(Coin):
    """Notes each flip_bits call and answers it with a chosen pattern."""

    def __init__(self, pattern: int) -> None:
        super().__init__(no_bytes)
        self.pattern = pattern
        self.calls: list[tuple[int, int, int, int]] = []

    def word(self) -> int:
        raise UnauditableError("a bit mechanism draws other than through flip_bits")

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        self.calls.append((bits, width, if_one, if_zero))
        return self.pattern & ((1 << width) - 1)


def _patterns(cells: int) -> tuple[int, ...]:
    every = (1 << cells) - 1
    return 0, every, every // 3, every & ~(every // 3), 1, 1 << cells - 1


def _fresh_lanes(result: Audit, encoded: int) -> Lanes:
    """Return the lanes of the fresh stage, having shown that it is one flip_bits call."""
    mechanism = result.mechanism
    calls = set()
    for pattern in _patterns(mechanism.cells):
        coin = _LaneCoin(pattern)
        response = mechanism.instantaneous(encoded, coin)
        result.branches += 1
        if len(coin.calls) != 1:
            raise UnauditableError("the fresh stage is not one independent draw per bit")
        width = coin.calls[0][1]
        result.expect(
            width <= mechanism.cells and response == pattern & ((1 << width) - 1),
            "a response is not the outcome of its draw",
        )
        calls.update(coin.calls)
    if len(calls) != 1:
        raise UnauditableError("the fresh stage's draw depends on what was drawn")
    bits, width, if_one, if_zero = calls.pop()
    one = (chance(if_zero), chance(if_one))
    drawn = [one[bits >> lane & 1] for lane in range(width)]
    return (*drawn, *(Fraction(0) for _ in range(mechanism.cells - width)))


def _fresh_chances(result: Audit) -> tuple[Fraction, Fraction]:
    """Return P(1|1) and P(1|0) of a fresh stage that works on remembered bits as they are."""
    cells = result.mechanism.cells
    every = (1 << cells) - 1
    if _sends_what_it_remembers(result):
        return Fraction(1), Fraction(0)
    chances: set[tuple[Fraction, Fraction]] = set()
    for remembered in _patterns(cells):
        for pattern in _patterns(cells):
            coin = _LaneCoin(pattern)
            response = result.mechanism.instantaneous(remembered, coin)
            result.branches += 1
            result.expect(response == pattern & every, "a response is not the outcome of its draw")
            result.expect(
                [call[:2] for call in coin.calls] == [(remembered, cells)],
                "the fresh stage is not one independent draw per bit",
            )
            chances.update((chance(c[2]), chance(c[3])) for c in coin.calls)
    if len(chances) != 1:
        raise UnauditableError("the fresh stage's thresholds are missing or change between draws")
    return chances.pop()


def _sends_what_it_remembers(result: Audit) -> bool:
    answers = []
    for remembered in _patterns(result.mechanism.cells):
        coin = _LaneCoin(0)
        response = result.mechanism.instantaneous(remembered, coin)
        answers.append(response == remembered and not coin.calls)
    return all(answers)


def _permanent_lanes(result: Audit, value: Value, cohort: int) -> Lanes:
    """Return P(permanent bit is 1) per lane, having shown that lanes are independent."""
    mechanism = result.mechanism
    calls: set[tuple[int, int, int, int]] = set()
    for pattern in _patterns(mechanism.cells):
        coin = _LaneCoin(pattern)
        permanent = mechanism.permanent(value, cohort, coin)
        result.branches += 1
        result.expect(permanent == pattern, "a permanent response is not the outcome of its draw")
        calls.update(coin.calls)
    if len(calls) != 1:
        raise UnauditableError("the permanent stage is not one independent draw per bit")
    bits, width, if_one, if_zero = calls.pop()
    if width != mechanism.cells:
        raise UnauditableError("the permanent stage leaves bits without noise")
    one = (chance(if_zero), chance(if_one))
    return tuple(one[bits >> lane & 1] for lane in range(width))


def _largest_lane_loss(laws: Iterable[Lanes]) -> Decimal:
    """Return the largest loss between two products of independent bits."""
    worst = Fraction(1)
    for one, other in combinations(laws, 2):
        forth = back = Fraction(1)
        for p, q in zip(one, other, strict=True):
            if p != q:
                high, low = (p, q) if p > q else (q, p)
                # The response that maximises the ratio takes each lane's better bit.
                up, down = _ratio(high, low), _ratio(1 - low, 1 - high)
                if up is None or down is None:
                    return Decimal("Infinity")
                forth *= up if p > q else down
                back *= down if p > q else up
        worst = max(worst, forth, back)
    return log_ratio(worst, Fraction(1))


def _ratio(numerator: Fraction, denominator: Fraction) -> Fraction | None:
    return numerator / denominator if denominator else None

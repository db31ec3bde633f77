"""Exact audit: rebuild a mechanism's channel from the shipped code, compare it with what it states.

All chance goes through `Coin`. A `ReplayCoin` answers each decision from a script and notes its
exact probability, so running the mechanism once per script gives its whole law as fractions:
no sampling, no tolerance. Channels of a few bits are enumerated response by response. Longer
ones are audited lane by lane: the audit shows that a response is exactly the outcome of one
`flip_bits` call (whose lanes are independent), and composes the lanes' laws.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations

from client_sdk.mechanisms import Mechanism, Value
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import ONE, Coin

MOST_BRANCHES = 1 << 10
MOST_VALUES = 64

Law = dict[int, Fraction]
"""Exact probability of each outcome."""


class UnauditableError(Exception):
    """The code draws in a way whose law cannot be rebuilt; says which."""


class ReplayCoin(Coin):
    """Answers decisions from a script, takes the first possible branch after its end."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self.script = list(script)
        self.widths: list[int] = []
        self.weight = Fraction(1)

    def word(self) -> int:
        raise UnauditableError("it draws raw words, whose use cannot be followed")

    def bernoulli(self, threshold: int) -> bool:
        if threshold in (0, ONE):
            return threshold == ONE
        heads = self._branch(2) == 0
        self.weight *= Fraction(threshold if heads else ONE - threshold, ONE)
        return heads

    def uniform(self, bound: int) -> int:
        self.weight /= bound
        return self._branch(bound)

    def pick(self, cuts: Sequence[int]) -> int:
        possible = [i for i, cut in enumerate(cuts) if cut > (cuts[i - 1] if i else 0)]
        if cuts[-1] != ONE or (len(possible) > 1 and sorted(cuts) != list(cuts)):
            raise UnauditableError("cut points must ascend to 2**64")
        index = possible[self._branch(len(possible))]
        self.weight *= Fraction(cuts[index] - (cuts[index - 1] if index else 0), ONE)
        return index

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        return sum(
            self.bernoulli(if_one if bits >> lane & 1 else if_zero) << lane for lane in range(width)
        )

    def _branch(self, width: int) -> int:
        step = len(self.widths)
        self.widths.append(width)
        if step == len(self.script):
            self.script.append(0)
        return self.script[step]


def law(draw: Callable[[Coin], int]) -> tuple[Law, int]:
    """Return the exact law of `draw` and the number of branches that were replayed."""
    outcomes: Law = {}
    branches = 0
    script: list[int] = []
    while True:
        coin = ReplayCoin(script)
        outcome = draw(coin)
        outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + coin.weight
        branches += 1
        script = coin.script[: len(coin.widths)]
        while script and script[-1] + 1 == coin.widths[len(script) - 1]:
            script.pop()
        if not script:
            return outcomes, branches
        script[-1] += 1


@dataclass
class Audit:
    """What the audit of one mechanism found.

    Attributes:
        method: How the channel was rebuilt, in words.
        branches: Branches of the shipped code that were replayed.
        worst: Largest exact loss found over all pairs of values and all responses.
        worst_permanent: The same for the permanent stage, None without memoization.
        worst_instantaneous: The same for the fresh stage over any two remembered responses.
        problems: Every way in which the code departs from what it states; empty when sound.
    """

    mechanism: Mechanism
    method: str
    branches: int = 0
    worst: Decimal = Decimal(0)
    worst_permanent: Decimal | None = None
    worst_instantaneous: Decimal | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the code does what the mechanism states."""
        return not self.problems

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless `holds`."""
        if not holds:
            self.problems.append(problem)


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
    stages = 1 if mechanism.epsilon_permanent is None else 2
    small = mechanism.kind == "cell" or 1 << mechanism.cells * stages <= MOST_BRANCHES
    result = Audit(mechanism, f"every {'branch' if small else 'lane'} of the code")
    try:
        (_audit_branches if small else _audit_lanes)(result, domain)
    except UnauditableError as error:
        result.problems.append(str(error))
    if mechanism.domain is not None and mechanism.domain > MOST_VALUES:
        result.method += f", {MOST_VALUES} of {mechanism.domain} values"
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


def _audit_branches(result: Audit, domain: Sequence[Value]) -> None:
    mechanism = result.mechanism
    permanent_loss = Decimal(0)
    for cohort in _cohorts(mechanism):
        laws, permanents = [], []
        for value in domain:
            permanent, count = law(partial(mechanism.permanent, value, cohort))
            response, more = _through_second_stage(mechanism, permanent)
            result.branches += count + more
            permanents.append(permanent)
            laws.append(response)
            result.expect(sum(response.values()) == 1, f"the law of {value!r} does not sum to 1")
            _compare_supports(result, value, cohort, response)
        result.worst = max(result.worst, _largest_loss(laws))
        if mechanism.epsilon_permanent is not None:
            permanent_loss = max(permanent_loss, _largest_loss(permanents))
    if mechanism.epsilon_permanent is not None:
        result.worst_permanent = permanent_loss
        fresh = [
            law(partial(mechanism.instantaneous, remembered))[0] for remembered in permanents[0]
        ]
        result.worst_instantaneous = _largest_loss(fresh)


def _through_second_stage(mechanism: Mechanism, permanent: Law) -> tuple[Law, int]:
    response: Law = {}
    branches = 0
    for remembered, weight in permanent.items():
        fresh, count = law(partial(mechanism.instantaneous, remembered))
        branches += count
        for outcome, chance in fresh.items():
            response[outcome] = response.get(outcome, Fraction(0)) + weight * chance
    return response, branches


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


def _largest_loss(laws: Sequence[Law]) -> Decimal:
    """Return the largest log-ratio of one outcome's probabilities under any two laws."""
    worst = Fraction(1)
    for outcome in set().union(*laws):
        chances = {each.get(outcome, Fraction(0)) for each in laws}
        if len(chances) > 1:
            least = min(chances)
            if least == 0:
                return Decimal("Infinity")
            worst = max(worst, max(chances) / least)
    return log_ratio(worst, Fraction(1))


class _LaneCoin(Coin):
    """Notes each flip_bits call and answers it with a chosen pattern."""

    def __init__(self, pattern: int) -> None:
        super().__init__()
        self.pattern = pattern
        self.calls: list[tuple[int, int, int, int]] = []

    def word(self) -> int:
        raise UnauditableError("a bit mechanism draws other than through flip_bits")

    def flip_bits(self, bits: int, width: int, if_one: int, if_zero: int) -> int:
        self.calls.append((bits, width, if_one, if_zero))
        return self.pattern & ((1 << width) - 1)


def _audit_lanes(result: Audit, domain: Sequence[Value]) -> None:
    mechanism = result.mechanism
    if mechanism.epsilon_permanent is not None:
        result.worst_permanent = Decimal(0)
    every = (1 << mechanism.cells) - 1
    patterns = (0, every, every // 3, every & ~(every // 3), 1, 1 << mechanism.cells - 1)
    encoded = {mechanism.permanent(value, 0, _LaneCoin(0)) for value in domain}
    report_if_one, report_if_zero = _fresh_lanes(result, patterns, encoded.union(patterns))
    if mechanism.epsilon_permanent is not None:
        every_lane = [[chance] * mechanism.cells for chance in (report_if_one, report_if_zero)]
        result.worst_instantaneous = _largest_lane_loss(every_lane)
    for cohort in _cohorts(mechanism):
        permanents = [_permanent_lanes(result, value, cohort, patterns) for value in domain]
        laws = [
            [p * report_if_one + (1 - p) * report_if_zero for p in lanes] for lanes in permanents
        ]
        for value, lanes in zip(domain, laws, strict=True):
            result.expect(
                lanes == mechanism.channel(value, cohort),
                f"supports of {value!r} in cohort {cohort} are not those that channel() states",
            )
        result.worst = max(result.worst, _largest_lane_loss(laws))
        if result.worst_permanent is not None:
            result.worst_permanent = max(result.worst_permanent, _largest_lane_loss(permanents))


def _fresh_lanes(
    result: Audit, patterns: Sequence[int], permanents: Iterable[int]
) -> tuple[Fraction, Fraction]:
    """Return P(1|1) and P(1|0) of the fresh stage, having shown that it is one flip_bits call."""
    mechanism = result.mechanism
    chances: set[tuple[Fraction, Fraction]] = set()
    for permanent in permanents:
        for pattern in patterns:
            coin = _LaneCoin(pattern)
            response = mechanism.instantaneous(permanent, coin)
            result.branches += 1
            result.expect(response == pattern, "a response is not the outcome of its draw")
            result.expect(
                [call[:2] for call in coin.calls] == [(permanent, mechanism.cells)],
                "the fresh stage is not one independent draw per bit",
            )
            chances.update((Fraction(c[2], ONE), Fraction(c[3], ONE)) for c in coin.calls)
    if len(chances) != 1:
        raise UnauditableError("the fresh stage's thresholds are missing or change between draws")
    return chances.pop()


def _permanent_lanes(
    result: Audit, value: Value, cohort: int, patterns: Sequence[int]
) -> list[Fraction]:
    """Return P(permanent bit is 1) per lane, having shown that lanes are independent."""
    mechanism = result.mechanism
    if mechanism.epsilon_permanent is None:
        encoded = mechanism.permanent(value, cohort, _LaneCoin(0))
        return [Fraction(encoded >> lane & 1) for lane in range(mechanism.cells)]
    calls: set[tuple[int, int, int, int]] = set()
    for pattern in patterns:
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
    chance = (Fraction(if_zero, ONE), Fraction(if_one, ONE))
    return [chance[bits >> lane & 1] for lane in range(width)]


def _largest_lane_loss(laws: Sequence[Sequence[Fraction]]) -> Decimal:
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


def _cohorts(mechanism: Mechanism) -> Sequence[int]:
    return range(min(mechanism.cohorts, 4))

"""The law of a program that draws through a `Coin`: every branch, with its exact probability."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import ONE, Coin

Law = dict[int, Fraction]
"""Exact probability of each outcome."""


class UnauditableError(Exception):
    """The code draws in a way whose law cannot be rebuilt; says which."""


def no_bytes(count: int) -> bytes:
    """Stand in for the source of a test coin: whatever asks for bytes decides unseen."""
    raise UnauditableError("it draws raw words or bytes, whose use cannot be followed")


def chance(threshold: int) -> Fraction:
    """Return the probability of a threshold; one out of range would cancel out as a negative."""
    if not 0 <= threshold <= ONE:
        raise UnauditableError(f"a threshold must lie in 0..2**64, got {threshold}")
    return Fraction(threshold, ONE)


class ReplayCoin(Coin):
    """Answers decisions from a script, takes the first possible branch after its end."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(no_bytes)
        self.script = list(script)
        self.widths: list[int] = []
        self.weight = Fraction(1)

    def bernoulli(self, threshold: int) -> bool:
        true = chance(threshold)
        if true in (0, 1):
            return true == 1
        heads = self._branch(2) == 0
        self.weight *= true if heads else 1 - true
        return heads

    def uniform(self, bound: int) -> int:
        if not 1 <= bound <= ONE:
            raise UnauditableError(f"a bound must lie in 1..2**64, got {bound}")
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


def law(
    draw: Callable[[Coin], int], coin_of: Callable[[Sequence[int]], ReplayCoin] = ReplayCoin
) -> tuple[Law, int]:
    """Return the exact law of `draw` and the number of branches that were replayed.

    Args:
        draw: The program.
        coin_of: Makes the coin that answers from a script.
    """
    outcomes: Law = {}
    branches = 0
    script: list[int] = []
    while True:
        coin = coin_of(script)
        outcome = draw(coin)
        outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + coin.weight
        branches += 1
        script = coin.script[: len(coin.widths)]
        while script and script[-1] + 1 == coin.widths[len(script) - 1]:
            script.pop()
        if not script:
            return outcomes, branches
        script[-1] += 1


def largest_loss(laws: Sequence[Law]) -> Decimal:
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

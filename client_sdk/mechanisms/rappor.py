"""RAPPOR: strings as Bloom filter bits, remembered noise first, fresh noise on every report.

Erlingsson, Pihur, Korolova, "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
Response" (CCS 2014). Steps: (1) B, the h bits of the value under its cohort's hashes;
(2) permanent: each bit is 1 w.p. f/2, 0 w.p. f/2, B_i otherwise; (3) instantaneous: each bit is
1 w.p. q where the permanent bit is 1, w.p. p where it is 0.

Channel of a report: q* = (f/2)(p+q) + (1-f)q for the value's bits, p* = (f/2)(p+q) + (1-f)p
for others. In this package's terms p_true is RAPPOR's q* and p_false its p*.

    epsilon            h ln[q*(1-p*) / (p*(1-q*))]      one report
    epsilon_permanent  2h ln[(1-f/2) / (f/2)]           all reports ever of one value

both exact for two values that share no bit and an upper bound otherwise. When the value changes
every bit of the permanent response is drawn anew, so the fresh stage alone loses up to
k max(ln[q/p], ln[(1-p)/(1-q)]) a report, epsilon_instantaneous: RAPPOR does not hide changes.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Self

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import MOST_BITS, MOST_COHORTS, Mechanism, Value
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.string_hashing import BLOOM, hash_words, place
from client_sdk.mechanisms.thresholds import (
    INFINITE,
    Real,
    ceil_threshold,
    checked_probability,
    exact,
    exponential,
    floor_threshold,
    log_ratio,
    logistic,
    part,
    probability,
)
from client_sdk.mechanisms.two_stage import BitStages, checked_epsilons
from client_sdk.randomness import ONE, Coin


class Rappor(Mechanism):
    """RAPPOR over open strings.

    Args:
        bits: Size of the Bloom filter, 1 to 4096.
        hashes: Bits set by one value, 1 to bits.
        cohorts: Groups of devices with different hash functions, 1 to 65536.
        f: Share of permanent bits that are pure noise, in [0, 1). With 0 nothing is
            remembered noise and epsilon_permanent is infinite.
        p: P(report bit 1 | permanent bit 0), in [0, 1).
        q: P(report bit 1 | permanent bit 1), in (p, 1].
    """

    name = "rappor"
    kind = "bits"
    encodes = "string"
    memoizes = True
    domain = None

    def __init__(self, bits: int, hashes: int, cohorts: int, *, f: Real, p: Real, q: Real) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise ParameterError(f"bits must lie in 1..{MOST_BITS}, got bits={bits}")
        if not 1 <= hashes <= bits:
            raise ParameterError(f"hashes must lie in 1..bits={bits}, got hashes={hashes}")
        if not 1 <= cohorts <= MOST_COHORTS:
            raise ParameterError(f"cohorts must lie in 1..{MOST_COHORTS}, got cohorts={cohorts}")
        noise = checked_probability("f", f)
        low, high = checked_probability("p", p), checked_probability("q", q)
        if noise == 1 or low >= high:
            raise ParameterError(
                "need f < 1 and p < q, got "
                f"f={float(noise):.9g}, p={float(low):.9g}, q={float(high):.9g}"
            )
        self.cells = bits
        self.hashes = hashes
        self.cohorts = cohorts
        self.one_if_set = floor_threshold(1 - noise / 2)
        self.one_if_unset = ONE - self.one_if_set
        self.report_if_one = floor_threshold(high)
        self.report_if_zero = ceil_threshold(low)
        if self.one_if_set <= self.one_if_unset or self.report_if_one <= self.report_if_zero:
            raise ParameterError(
                f"f={float(noise):.9g}, p={float(low):.9g}, q={float(high):.9g} "
                "leave nothing to learn from a report"
            )
        self._state_the_law()

    @classmethod
    def declared(cls, declared: Declared) -> Self:
        declared.only("bits", "hashes", "cohorts", "f", "p", "q")
        if declared.domain is not None:
            raise ParameterError("rappor is for strings, not for a closed list of values")
        shape = (
            declared.integer("bits", 1, MOST_BITS, 128),
            declared.integer("hashes", 1, 16, 2),
            declared.integer("cohorts", 1, MOST_COHORTS, 64),
        )
        f, p, q = (declared.number(name) for name in ("f", "p", "q"))
        if declared.epsilon is None and f is not None and p is not None and q is not None:
            return cls(*shape, f=f, p=p, q=q)
        if declared.epsilon is None or declared.epsilon_permanent is None:
            raise ParameterError("give epsilon and epsilon_permanent, or f, p and q")
        return cls.from_epsilons(
            *shape,
            epsilon=declared.epsilon,
            epsilon_permanent=declared.epsilon_permanent,
            f=f,
            p=p,
            q=q,
        )

    def _state_the_law(self) -> None:
        self.stages = stages = BitStages(
            probability(self.one_if_set),
            probability(self.one_if_unset),
            probability(self.report_if_one),
            probability(self.report_if_zero),
        )
        self.p_true, self.p_false = stages.p_true, stages.p_false
        self.epsilon = self.epsilon_of(1)
        # Two values can differ in at most this many bits each way.
        apart = _most_apart(self.cells, self.hashes)
        set_, unset = stages.set, stages.unset
        self.epsilon_permanent = log_ratio(
            (set_ * (1 - unset)) ** apart, (unset * (1 - set_)) ** apart
        )

    @property
    def f(self) -> Fraction:
        """The share of noise in permanent bits that the thresholds realise."""
        return 2 * probability(self.one_if_unset)

    @classmethod
    def from_epsilons(
        cls,
        bits: int,
        hashes: int,
        cohorts: int,
        *,
        epsilon: Real,
        epsilon_permanent: Real,
        f: Real | None = None,
        p: Real | None = None,
        q: Real | None = None,
    ) -> Self:
        """Solve the unwritten ones of f, p, q so that neither loss is exceeded.

        f = 2 / (1 + e^{epsilon_permanent / 2h}); p = 1 - q unless written; q from the chain of
        both stages (reference 10.1, L-SUE, with epsilon / h per hash).

        Raises:
            ParameterError: epsilon does not stay below epsilon_permanent, or no p and q reach
                it.
        """
        one, permanent = checked_epsilons(epsilon, epsilon_permanent)
        apart = _most_apart(bits, hashes)
        if f is None:
            f = Fraction(2) / (1 + Fraction(exponential(part(permanent, 2 * apart))))
        noise = checked_probability("f", f)
        low = None if p is None else checked_probability("p", p)
        if noise == 1 or low == 1:
            raise ParameterError(f"need f < 1 and p < 1, got f={f}, p={p}")
        high = _solve_q(noise, low, part(one, apart)) if q is None else exact(q)
        return cls(bits, hashes, cohorts, f=noise, p=1 - high if low is None else low, q=high)

    @property
    def rare_variance(self) -> float:
        # Each of a value's bits gives an estimate of its own.
        return super().rare_variance / self.hashes

    @property
    def epsilon_instantaneous(self) -> Decimal:
        p, q = probability(self.report_if_zero), probability(self.report_if_one)
        if p == 0 or q == 1:
            return INFINITE
        return log_ratio(max(q / p, (1 - p) / (1 - q)) ** self.cells, Fraction(1))

    def epsilon_of(self, reports: int) -> Decimal:
        apart = _most_apart(self.cells, self.hashes)
        numerator, denominator = self.stages.ratio_of(reports)
        return log_ratio(numerator**apart, denominator**apart)

    def cells_for(self, value: Value, cohort: int) -> tuple[int, ...]:
        cells: set[int] = set()
        for word in hash_words(BLOOM, cohort, str(value)):
            cells.add(place(word, self.cells))
            if len(cells) == self.hashes:
                break
        return tuple(sorted(cells))

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        encoded = super().permanent(value, cohort, coin)
        return coin.flip_bits(encoded, self.cells, self.one_if_set, self.one_if_unset)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.report_if_one, self.report_if_zero)

    def parameters(self) -> Mapping[str, int]:
        return {
            "bits": self.cells,
            "hashes": self.hashes,
            "cohorts": self.cohorts,
            "one_if_set": self.one_if_set,
            "one_if_unset": self.one_if_unset,
            "report_if_one": self.report_if_one,
            "report_if_zero": self.report_if_zero,
        }


def _most_apart(bits: int, hashes: int) -> int:
    """Return in how many bits, each way, two values can differ.

    Where every value sets all bits (hashes = bits) nothing is told and no loss would be right;
    a loss of one bit is stated, so that such a metric is not free of charge.
    """
    return max(1, min(hashes, bits - hashes))


def _solve_q(f: Fraction, p: Fraction | None, epsilon_per_bit: Decimal) -> Fraction:
    """Return q such that one pair of differing bits loses `epsilon_per_bit`."""
    if p is None:
        kept, keeps = 1 - f / 2, Fraction(logistic(part(epsilon_per_bit, 2)))
        return (keeps + kept - 1) / (2 * kept - 1)
    low, high = p, Fraction(1)
    if _loss(f, p, high) <= epsilon_per_bit:
        raise ParameterError(
            f"no q reaches this epsilon with f={float(f)}, p={float(p)}; lower epsilon or p"
        )
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _loss(f, p, middle) <= epsilon_per_bit else (low, middle)
    return low


def _loss(f: Fraction, p: Fraction, q: Fraction) -> Decimal:
    q_star = f / 2 * (p + q) + (1 - f) * q
    p_star = f / 2 * (p + q) + (1 - f) * p
    return log_ratio(q_star * (1 - p_star), p_star * (1 - q_star))

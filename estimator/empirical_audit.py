"""A lower bound on epsilon from responses alone: what an attacker with n of them can prove.

If P(E|a) / P(E|b) > e^epsilon for two inputs a, b and any set of responses E, the randomizer is
not epsilon-private. So: draw responses of both inputs, choose E on one half of them, and on the
other half, which had no part in the choice, bound P(E|a) from below and P(E|b) from above
(Clopper-Pearson). The logarithm of their ratio exceeds the true epsilon with probability at most
1 - confidence, whatever the randomizer does. Ding, Wang, Wang, Zhang, Kifer, "Detecting
Violations of Differential Privacy" (CCS 2018); the intervals as in Jagielski, Ullman, Oprea,
"Auditing Differentially Private Machine Learning" (NeurIPS 2020).

A bound below the stated epsilon proves nothing, it is only consistent with it; and no bound
exceeds the *reach* of n. What is too small for any n, such as thresholds of 64 bits that are
wrong in their last one, is the exact audit's to find (`client_sdk.audit`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from client_sdk.mechanisms import Mechanism, SubsetSelection, Value
from estimator.debias import Channel, Floats
from estimator.uncertainty import interval

Rows = NDArray[np.int64]
"""Responses, one a row: shape (n, columns). Any integers that describe them will do."""
Draw = Callable[[int], Rows]
"""Returns that many independent responses to one input."""

_PLAIN = Channel(1.0, 0.0, 1.0)  # intervals for the probability itself
_LEAST_PER_LEVEL = 20
_BINS = 32
_MOST_THRESHOLDS = 500


@dataclass(frozen=True)
class LowerBound:
    """What responses prove about epsilon.

    Attributes:
        epsilon: The bound, at least 0. Above the true epsilon with probability 1 - confidence.
        reach: The largest bound that so many responses could have given.
        confidence: As asked for.
        event: The set of responses that told most, in words.
        towards: The input that the event speaks for, "a" or "b".
        hits: How many of the held-out responses to that input, and to the other one, lie in it.
        trials: How many were held out, of each input.
    """

    epsilon: float
    reach: float
    confidence: float
    event: str
    towards: str
    hits: tuple[int, int]
    trials: int


def lower_bound(draw_a: Draw, draw_b: Draw, n: int, confidence: float) -> LowerBound:
    """Bound the epsilon of any randomizer from below.

    Args:
        draw_a, draw_b: Responses to two inputs; see `Rows` for their form. Choose the inputs
            that the randomizer tells apart best.
        n: Responses to each, at least 40.
        confidence: In (0, 1).
    """
    return bound_of(draw_a(n), draw_b(n), confidence)


def bound_of(a: Rows, b: Rows, confidence: float) -> LowerBound:
    """Bound epsilon by responses that were drawn already, in any fixed order.

    The first quarter teaches scores, the second chooses one of them and its threshold, and the
    second half tests that single event.

    Raises:
        ValueError: Shapes differ, fewer than 40 rows, or a confidence outside (0, 1).
    """
    if a.ndim != 2 or a.shape != b.shape or len(a) < 40:
        raise ValueError(f"need two equal tables of 40 rows or more, got {a.shape} and {b.shape}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    quarter, half = len(a) // 4, len(a) // 2
    best = None
    for name, score in _scores(a[:quarter], b[:quarter]):
        chosen = _best_event(score(a[quarter:half]), score(b[quarter:half]), confidence)
        if best is None or chosen.promise > best[1].promise:
            best = name, chosen, score
    assert best is not None  # a table has at least one column
    name, event, score = best
    trials = len(a) - half
    hits = [int(np.count_nonzero(event.holds(score(rows[half:])))) for rows in (a, b)]
    ordered = (hits[0], hits[1]) if event.towards == "a" else (hits[1], hits[0])
    proved = _log_ratio_bound(np.array([ordered[0]]), np.array([ordered[1]]), trials, confidence)
    reach = _log_ratio_bound(np.array([trials]), np.array([0]), trials, confidence)
    return LowerBound(
        epsilon=max(0.0, float(proved[0])),
        reach=float(reach[0]),
        confidence=confidence,
        event=f"{name} {'at least' if event.towards == 'a' else 'at most'} {event.threshold:.4g}",
        towards=event.towards,
        hits=ordered,
        trials=trials,
    )


@dataclass(frozen=True)
class _Event:
    """Scores beyond a threshold: high ones speak for a, low ones for b."""

    towards: str
    threshold: float
    promise: float

    def holds(self, scores: Floats) -> NDArray[np.bool_]:
        return scores >= self.threshold if self.towards == "a" else scores <= self.threshold


Score = Callable[[Rows], Floats]


def _scores(a: Rows, b: Rows) -> Iterator[tuple[str, Score]]:
    """Yield scores: each column's learned log-ratio, their sum, that of whole rows, raw columns.

    For one cell the column's, for independent bits the sum is the log-likelihood ratio itself,
    so the best event of either is among its thresholds. Whole rows find what columns hide, for
    instance one random word that served two bits. Raw columns serve a caller who knows a score.
    """
    columns = [_learned(a[:, i], b[:, i]) for i in range(a.shape[1])]

    def total(rows: Rows) -> Floats:
        scores = [table(rows[:, i]) for i, table in enumerate(columns)]
        return np.asarray(np.sum(scores, axis=0), np.float64)

    yield "sum of log-ratios of the columns", total
    for index, table in enumerate(columns):
        yield f"log-ratio of column {index}", partial(_of_column, table, index)
        yield f"column {index}", partial(_of_column, _as_it_is, index)
    if a.shape[1] > 1:
        kinds = np.unique(np.concatenate([a, b]), axis=0)
        if len(kinds) * _LEAST_PER_LEVEL <= 2 * len(a):
            whole = _learned(_row_numbers(kinds, a), _row_numbers(kinds, b))
            yield "log-ratio of the whole response", lambda rows: whole(_row_numbers(kinds, rows))


def _as_it_is(column: NDArray[np.int64]) -> Floats:
    return column.astype(np.float64)


def _of_column(table: Callable[[NDArray[np.int64]], Floats], index: int, rows: Rows) -> Floats:
    return table(rows[:, index])


def _row_numbers(kinds: Rows, rows: Rows) -> NDArray[np.int64]:
    """Return the place of each row among sorted kinds of rows, -1 for one of no kind."""
    place = {kind.tobytes(): number for number, kind in enumerate(np.ascontiguousarray(kinds))}
    return np.array([place.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows)], np.int64)


def _learned(a: NDArray[np.int64], b: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], Floats]:
    """Return a table of log-ratios by level, learned from two columns; 0 for unknown levels."""
    both = np.concatenate([a, b])
    levels = np.unique(both)
    if len(levels) > max(_BINS, len(both) // _LEAST_PER_LEVEL):
        cuts = np.unique(np.quantile(both, np.linspace(0, 1, _BINS + 1)[1:-1]))

        def level_of(column: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.searchsorted(cuts, column).astype(np.int64)

        size = len(cuts) + 1
    else:

        def level_of(column: NDArray[np.int64]) -> NDArray[np.int64]:
            place = np.minimum(np.searchsorted(levels, column), len(levels) - 1)
            return np.where(levels[place] == column, place, len(levels)).astype(np.int64)

        size = len(levels)
    # Half a response is added everywhere, so that a level seen on one side only stays finite.
    count_a, count_b = (np.bincount(level_of(side), minlength=size) + 0.5 for side in (a, b))
    table = np.append(np.log(count_a / count_a.sum()) - np.log(count_b / count_b.sum()), 0.0)
    return lambda column: np.asarray(table[level_of(column)], np.float64)


def _best_event(a: Floats, b: Floats, confidence: float) -> _Event:
    """Return the threshold event that these scores prove most by.

    They are half as many as will test it. What so many would prove by a rare event is overrated:
    of hundreds of thresholds the luckiest is chosen.
    """
    thresholds = np.unique(np.concatenate([a, b]))
    if len(thresholds) > _MOST_THRESHOLDS:
        places = np.linspace(0, len(thresholds) - 1, _MOST_THRESHOLDS).round().astype(np.int64)
        thresholds = thresholds[places]
    sorted_a, sorted_b = np.sort(a), np.sort(b)
    below = [np.searchsorted(s, thresholds, side="left") for s in (sorted_a, sorted_b)]
    at_least = [len(a) - count for count in below]
    at_most = [np.searchsorted(s, thresholds, side="right") for s in (sorted_a, sorted_b)]
    for_a = _log_ratio_bound(at_least[0], at_least[1], len(a), confidence)
    for_b = _log_ratio_bound(at_most[1], at_most[0], len(a), confidence)
    i, j = int(np.argmax(for_a)), int(np.argmax(for_b))
    if for_a[i] >= for_b[j]:
        return _Event("a", float(thresholds[i]), float(for_a[i]))
    return _Event("b", float(thresholds[j]), float(for_b[j]))


def _log_ratio_bound(
    own: NDArray[np.int64], other: NDArray[np.int64], trials: int, confidence: float
) -> Floats:
    """Return ln of (own's lower limit / other's upper limit), -inf where own has no hit."""
    low, _ = interval(own, trials, _PLAIN, level=confidence, method="clopper_pearson")
    _, high = interval(other, trials, _PLAIN, level=confidence, method="clopper_pearson")
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def collision_chance(mechanism: Mechanism, value: Value) -> float:
    """Return the probability that two independent responses to `value` are the same one."""
    chances = mechanism.channel(value, 0)
    if mechanism.kind == "cell":
        return float(sum((p * p for p in chances), Fraction(0)))
    if isinstance(mechanism, SubsetSelection):
        p, others = mechanism.p_true, mechanism.cells - 1
        kept, left = (math.comb(others, mechanism.size - k) for k in (1, 0))
        return float(p * p / kept + (1 - p) * (1 - p) / left)
    return math.prod(float(p * p + (1 - p) * (1 - p)) for p in chances)


def noise_repeats(
    devices: Sequence[Sequence[object]], chance: float, confidence: float
) -> bool | None:
    """Say whether two devices drew the same noise: all responses of one equal another's.

    A seeded or stuck generator makes every response look right by itself; only two devices
    beside each other give it away. (So may noise much weaker than `chance` supposes.)

    Args:
        devices: Successive responses of each device to one and the same value.
        chance: Probability that two independent responses are equal, see `collision_chance`.
        confidence: Honest devices are told from seeded ones except with probability
            1 - confidence over all pairs.

    Returns:
        None when the responses are too few to tell.
    """
    pairs = list(combinations(devices, 2))
    if not pairs or not 0 <= chance < 1:
        return None
    shortest = min(len(device) for device in devices)
    needed = 1 if chance == 0 else math.log((1 - confidence) / len(pairs)) / math.log(chance)
    if shortest < needed:
        return None
    length = math.ceil(needed)
    return any(list(one[:length]) == list(other[:length]) for one, other in pairs)

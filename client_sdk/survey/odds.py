"""Odds that people can read, and when a page may say that nobody can tell: exact fractions.

"Of 100 people who would answer No, 27 send Yes" is understood better than epsilon or a formula
(Nanayakkara, Smart, Cummings, Kaptchuk, Redmiles, "What Are the Chances?", USENIX Security 2023).
"""

from fractions import Fraction

from client_sdk.mechanisms import Mechanism
from client_sdk.survey.model import Odds

LEAST_DENIABLE = Fraction(1, 5)
"""Least probability that an answer is sent by somebody whose true answer is another, for every
pair, where the page may say that nobody can tell."""


def sent_as(mechanism: Mechanism, true: int, sent: int) -> Fraction:
    """Return the probability that one answer is sent (of bits: ticked) where another is true.

    Args:
        mechanism: With one cell for each answer, or one bit for two answers.
        true: Index of the true answer.
        sent: Index of the answer that is sent.
    """
    supported = mechanism.channel(true, 0)
    if len(supported) == 1:  # randomized_response: the one bit says "the answer of index 1"
        return supported[0] if sent else 1 - supported[0]
    return supported[sent]


def sent_by_others(mechanism: Mechanism) -> Fraction:
    """Return the least probability that an answer is sent by somebody of another true answer."""
    answers = range(mechanism.domain or 0)
    return min(sent_as(mechanism, b, a) for a in answers for b in answers if a != b)


def deniable(mechanism: Mechanism) -> bool:
    """Say whether the page may say that nobody can tell whether an answer is a person's own."""
    return sent_by_others(mechanism) >= LEAST_DENIABLE


def odds_of(mechanism: Mechanism) -> Odds:
    """Return the odds of a mechanism that treats all answers alike."""
    kept = _of_100(sent_as(mechanism, 0, 0))
    if mechanism.domain == 2 and not _ticks(mechanism):
        return Odds("cell", kept, 100 - kept)
    other = _of_100(sent_as(mechanism, 0, 1))
    return Odds("bits" if _ticks(mechanism) else "cell", kept, other)


def _ticks(mechanism: Mechanism) -> bool:
    return mechanism.kind == "bits" and mechanism.cells > 1


def _of_100(probability: Fraction) -> int:
    return round(100 * probability)

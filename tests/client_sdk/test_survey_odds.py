"""Odds and deniability against the exact channel, response by response."""

from fractions import Fraction
from itertools import product

import pytest

from client_sdk.mechanisms import (
    GeneralizedRandomizedResponse,
    Mechanism,
    OptimizedUnary,
    RandomizedResponse,
    SymmetricUnary,
    build,
)
from client_sdk.randomness import ONE
from client_sdk.survey import (
    LEAST_DENIABLE,
    SurveyError,
    deniable,
    loads_survey,
    odds_of,
    sent_by_others,
)
from client_sdk.survey.odds import sent_as
from tests.surveys import question, survey, toml


def law(mechanism: Mechanism, true: int) -> dict[int, Fraction]:
    """The exact probability of every response, from the integers that the draw compares with."""
    if isinstance(mechanism, GeneralizedRandomizedResponse):
        kept, cells = Fraction(mechanism.keep, ONE), mechanism.cells
        return {cell: kept if cell == true else (1 - kept) / (cells - 1) for cell in range(cells)}
    if isinstance(mechanism, RandomizedResponse):
        yes = Fraction(mechanism.yes_if_yes if true else mechanism.yes_if_no, ONE)
        return {1: yes, 0: 1 - yes}
    assert isinstance(mechanism, SymmetricUnary | OptimizedUnary)
    found = {}
    for bits in product((0, 1), repeat=mechanism.cells):
        probability = Fraction(1)
        for cell, bit in enumerate(bits):
            threshold = mechanism.one_if_one if cell == true else mechanism.one_if_zero
            one = Fraction(threshold, ONE)
            probability *= one if bit else 1 - one
        found[sum(bit << cell for cell, bit in enumerate(bits))] = probability
    return found


def enumerated(mechanism: Mechanism, true: int, sent: int) -> Fraction:
    """The probability that an answer is sent, or ticked, summed over all responses."""
    responses = law(mechanism, true)
    assert sum(responses.values()) == 1
    if isinstance(mechanism, SymmetricUnary | OptimizedUnary):
        return sum((p for bits, p in responses.items() if bits >> sent & 1), Fraction(0))
    return responses[sent]


@pytest.mark.parametrize("epsilon", ["0.3", "1", "2.5"])
@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("randomized_response", 2),
        ("generalized_randomized_response", 2),
        ("generalized_randomized_response", 3),
        ("generalized_randomized_response", 7),
        ("symmetric_unary", 2),
        ("symmetric_unary", 5),
        ("optimized_unary", 6),
    ],
)
def test_odds_are_those_of_the_channel(name: str, domain: int, epsilon: str) -> None:
    mechanism = build(name, domain=domain, epsilon=epsilon)
    odds = odds_of(mechanism)
    pairs = list(product(range(domain), repeat=2))
    for true, sent in pairs:
        exact = enumerated(mechanism, true, sent)
        assert sent_as(mechanism, true, sent) == exact
        shown = odds.kept if true == sent else odds.other
        assert abs(100 * exact - shown) <= Fraction(1, 2), (true, sent)
    least = min(enumerated(mechanism, true, sent) for true, sent in pairs if true != sent)
    assert sent_by_others(mechanism) == least
    assert odds.kind == ("bits" if "unary" in name else "cell")
    if domain == 2 and odds.kind == "cell":
        assert odds.kept + odds.other == 100


@pytest.mark.parametrize("domain", [2, 3, 4])
def test_the_page_may_say_so_up_to_the_border_and_not_one_step_beyond(domain: int) -> None:
    # p_false = (1 - keep/2**64)/(d - 1) reaches 1/5 where keep = 2**64 (1 - (d - 1)/5).
    most = int(ONE * (1 - (domain - 1) * LEAST_DENIABLE))
    assert deniable(GeneralizedRandomizedResponse(domain, most))
    assert not deniable(GeneralizedRandomizedResponse(domain, most + 1))


def test_both_ways_count_and_the_less_likely_one_decides() -> None:
    border = -(-ONE // 5)
    fair = ONE // 2
    assert deniable(RandomizedResponse(fair, border))
    assert not deniable(RandomizedResponse(fair, border - 1))  # Yes from those of No
    assert deniable(RandomizedResponse(ONE - border, fair))
    assert not deniable(RandomizedResponse(ONE - border + 1, fair))  # No from those of Yes


def test_ticks_are_deniable_as_ticks() -> None:
    assert deniable(OptimizedUnary(9, ONE // 2, -(-ONE // 5)))
    assert not deniable(OptimizedUnary(9, ONE // 2, ONE // 5))


def test_a_file_that_promises_more_than_its_odds_allow_is_refused() -> None:
    # P(No|Yes) = 1/(1 + e^epsilon) is 0.2 at epsilon = ln 4 = 1.386294...
    pair = {"prefer_not_to_answer": False, "deniability": True}
    kept = loads_survey(toml(survey(question(epsilon=1.386294, **pair))))
    assert kept.questions[0].deniability
    with pytest.raises(SurveyError) as caught:
        loads_survey(toml(survey(question(epsilon=1.386295, **pair))))
    assert caught.value.key == "questions.ever_late.deniability"
    silent = question(epsilon=1.386295, prefer_not_to_answer=False)
    assert not loads_survey(toml(survey(silent))).questions[0].deniability

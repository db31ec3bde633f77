"""Misfit where answers say more than is estimated: red cards, and lists."""

import numpy as np
import pytest
from scipy import stats

from estimator.designs import ItemCount, KukDraws, Sample, Warner
from estimator.designs.agreement import agreement

KUK = KukDraws("0.8", "0.2", 4)


def drawn(random, n, share):
    """Return how often 0..4 red cards are reported by n honest respondents."""
    chance = np.where(random.random(n) < share, 0.8, 0.2)
    return np.bincount(random.binomial(4, chance), minlength=5).tolist()


def lists(random, n, share, items=3):
    """Return counts of the short and the long list of honest respondents."""
    base = random.binomial(items, 0.4, 2 * n)
    held = random.random(n) < share
    return (
        Sample.of_counts(np.bincount(base[:n], minlength=items + 1).tolist()),
        Sample.of_counts(np.bincount(base[n:] + held, minlength=items + 2).tolist()),
    )


def test_red_cards_that_no_mixture_gives_are_a_misfit():
    honest = agreement(KUK, (Sample.of_counts(drawn(np.random.default_rng(2), 1000, 0.3)),))
    assert honest.degrees == 3 and not honest.misfit
    # Everybody says 2: neither deck is half red.
    assert agreement(KUK, (Sample.of_counts([10, 20, 900, 20, 10]),)).misfit


def test_a_further_statement_that_lowers_counts_is_a_misfit():
    honest = agreement(ItemCount(3), lists(np.random.default_rng(2), 400, 0.2))
    assert not honest.misfit
    long = Sample.of_counts([300, 60, 30, 10, 0])  # with the sensitive statement people say 0
    assert agreement(ItemCount(3), (Sample.of_counts([80, 160, 120, 40]), long)).misfit


def test_the_worst_of_several_differences_is_judged_for_their_number():
    # P(count <= 0) is 0.6 and 0.7, P(count <= 1) is 1 and 0.9: of the four differences that may
    # be below 0 one is, by 0.1 at a variance of 0.24 / 100 + 0.21 / 100.
    samples = (Sample.of_counts([60, 40]), Sample.of_counts([70, 20, 10]))
    told = agreement(ItemCount(1), samples)
    assert told.p_value == pytest.approx(4 * stats.norm.cdf(-0.1 / np.sqrt(0.0045)))
    assert told.chi_square == pytest.approx(0.01 / 0.0045)


def test_one_share_and_two_reports_always_fit():
    assert agreement(Warner(0.7), (Sample.of_counts([50, 50]),)) is None
    weighted = Sample.of_rows([0, 1, 2, 3, 4], [1, 2, 1, 2, 1], 5)
    assert agreement(KUK, (weighted,)) is None


@pytest.mark.slow
def test_honest_answers_are_called_a_misfit_no_more_often_than_stated():
    # At most 2.5 % of 2,000, and 5 binomial standard errors (false alarm below 1e-6); lists are
    # judged by Bonferroni and by inequalities, so they are called so less often.
    random = np.random.default_rng(7)
    cards = sum(
        agreement(KUK, (Sample.of_counts(drawn(random, 500, 0.3)),)).misfit for _ in range(2000)
    )
    counts = sum(agreement(ItemCount(3), lists(random, 300, 0.2)).misfit for _ in range(2000))
    most = 0.025 + 5 * np.sqrt(0.025 * 0.975 / 2000)
    assert 0.025 - 5 * np.sqrt(0.025 * 0.975 / 2000) < cards / 2000 < most
    assert counts / 2000 < most

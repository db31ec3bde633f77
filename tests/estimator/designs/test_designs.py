"""Each design is what its paper says: probabilities, epsilon, unbiased estimates, true errors."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from estimator.designs import (
    CATALOGUE,
    Crosswise,
    DesignError,
    Direct,
    ForcedResponse,
    ItemCount,
    Kuk,
    KukDraws,
    Mangat,
    Sample,
    SeveralAnswers,
    StochasticLieDetector,
    Stratum,
    Triangular,
    TwoCoins,
    UnrelatedQuestion,
    UnrelatedUnknown,
    Warner,
    YesNo,
    design,
    estimate,
)
from estimator.designs.catalogue import all_parameters, parameters

F = Fraction
EVERY = [
    # Design, P(second report | holder), P(second report | other) by its paper, epsilon.
    (Direct(), F(1), F(0), math.inf),
    (Warner(F("0.7")), F("0.7"), F("0.3"), math.log(7 / 3)),
    (Warner(F(1, 6)), F(1, 6), F(5, 6), math.log(5)),
    # Fair coins: ln 3, not ln 2 or ln 4.
    (TwoCoins(), F(3, 4), F(1, 4), math.log(3)),
    # theta = .6, r = .3: ln(.72/.12) = ln 6 is larger than ln(.88/.28).
    (TwoCoins(F("0.6"), F("0.3")), F("0.72"), F("0.12"), math.log(6)),
    (ForcedResponse(F(1, 6), F(1, 6)), F(5, 6), F(1, 6), math.log(5)),
    (ForcedResponse(F(1, 6), F(1, 12)), F(11, 12), F(1, 6), math.log(10)),
    (ForcedResponse(F(1, 2), F(0)), F(1), F(1, 2), math.inf),
    (UnrelatedQuestion(F(1, 2), F(1, 12)), F(13, 24), F(1, 24), math.log(13)),
    (UnrelatedQuestion(F(1, 2), F(0)), F(1, 2), F(0), math.inf),
    (Mangat(F("0.6")), F(1), F("0.4"), math.inf),
    (Kuk(F("0.8"), F("0.2")), F("0.8"), F("0.2"), math.log(4)),
    (Crosswise(F(1, 4)), F(1, 4), F(3, 4), math.log(3)),
    (Triangular(F(1, 4)), F(1), F(1, 4), math.inf),
]
OTHERS = [
    UnrelatedUnknown(F("0.7"), F("0.3")),
    StochasticLieDetector(F(1, 6), F(5, 6)),
    KukDraws(F("0.8"), F("0.2"), 3),
    ItemCount(3),
    SeveralAnswers.telling_truth(("never", "once", "often"), F(1, 2)),
    SeveralAnswers(("a", "b"), ((F("0.9"), F("0.1")), (F("0.2"), F("0.8")))),
]


@pytest.mark.parametrize(("own", "holder", "other", "epsilon"), EVERY, ids=str)
def test_a_design_has_the_probabilities_and_the_epsilon_of_its_paper(own, holder, other, epsilon):
    assert own.p_yes == (holder, other)
    assert own.matrix() == ((1 - other, other), (1 - holder, holder))
    assert own.epsilon == pytest.approx(epsilon, rel=1e-14)
    assert bool(own.proofs) == math.isinf(epsilon)


KNOWN = [own for own in [*(each[0] for each in EVERY), *OTHERS] if own.matrix() is not None]
"""Designs whose law does not depend on what only the answers tell."""


@pytest.mark.parametrize("own", KNOWN, ids=str)
def test_the_mean_score_is_each_truth_itself(own):
    for figure in own.figures:
        for truth, name in enumerate(own.truths):
            mean = sum(
                sum(p * s for p, s in zip(own.matrix(k)[truth], scores, strict=True))
                for k, scores in enumerate(own.scores(figure))
            )
            held = {"share": "yes", "admitted": "yes"}.get(figure, figure)
            assert mean == (name == held)


def test_the_unrelated_question_of_unknown_rate_finds_both_rates():
    own = UnrelatedUnknown(F("0.7"), F("0.3"))
    share, rate = F("0.2"), F("0.45")
    for figure, expected in (("share", share), ("innocuous", rate)):
        mean = 0
        for each, scores in zip(own.at(rate), own.scores(figure), strict=True):
            chance = share * each.p_yes[0] + (1 - share) * each.p_yes[1]
            mean += (1 - chance) * scores[0] + chance * scores[1]
        assert mean == expected
    assert own.epsilon == math.inf
    assert max(each.epsilon for each in own.at(F(1, 2))) == pytest.approx(math.log(0.85 / 0.15))


def test_item_counts_are_the_difference_of_two_means():
    short, long = Sample.of_counts([20, 30, 10]), Sample.of_counts([10, 30, 25, 5])
    (figure,) = estimate(ItemCount(2), [Stratum((short, long))])
    counts = [np.repeat(np.arange(3), [20, 30, 10]), np.repeat(np.arange(4), [10, 30, 25, 5])]
    assert figure.estimate == pytest.approx(counts[1].mean() - counts[0].mean())
    expected = math.sqrt(sum(c.var(ddof=1) / len(c) for c in counts))
    assert figure.standard_error == pytest.approx(expected)
    assert figure.interval is None  # a mean of counts is no share: there is no Wilson interval


def shares_of(own, truths):
    """Return P(report) in each sample for a mixture of truths."""
    return [
        [sum(t * row[r] for t, row in zip(truths, own.matrix(k), strict=True))
         for r in range(len(own.reports(k)))]
        for k in range(len(own.samples))
    ]  # fmt: skip


@pytest.mark.parametrize("own", KNOWN, ids=str)
@pytest.mark.parametrize("divisor", ["n", "n-1"])
def test_errors_are_those_of_all_surveys_that_might_have_been(own, divisor):
    # Every survey of 3 respondents per sample, with its exact probability: the mean estimated
    # variance with n - 1 is the variance of the estimates, with n it is 2/3 of that.
    n, size = 3, len(own.truths)
    truths = [F(1, 4), *[F(3, 4) / (size - 1)] * (size - 1)]
    laws = [np.array([float(p) for p in law]) for law in shares_of(own, truths)]
    surveys = []
    for law in laws:
        kinds = len(law)
        outcomes = {}
        for seen in product(range(kinds), repeat=n):
            counts = tuple(seen.count(r) for r in range(kinds))
            outcomes[counts] = outcomes.get(counts, 0.0) + float(np.prod(law[list(seen)]))
        surveys.append(outcomes)
    for position, name in enumerate(own.figures):
        total = mean = square = claimed = 0.0
        for each in product(*(outcomes.items() for outcomes in surveys)):
            chance = math.prod(p for _, p in each)
            if chance == 0:
                continue
            samples = tuple(Sample.of_counts(counts) for counts, _ in each)
            figure = estimate(own, [Stratum(samples)], divisor=divisor)[position]
            total += chance
            mean += chance * figure.estimate
            square += chance * figure.estimate**2
            claimed += chance * figure.standard_error**2
        held = truths[1] if name in ("share", "admitted") else truths[own.truths.index(name)]
        assert total == pytest.approx(1)
        assert mean == pytest.approx(float(held))
        assert claimed == pytest.approx((square - mean**2) * (2 / 3 if divisor == "n" else 1))
        if isinstance(own, YesNo):
            assert square - mean**2 == pytest.approx(own.variance(float(held), n))


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("warner", {"p": "1/2"}, "p must not be 1/2"),
        ("warner", {"p": 1.2}, "p must be a probability in 0..1, got 1.2"),
        ("warner", {"p": -0.1}, "p must be a probability"),
        ("warner", {"p": "a lot"}, "p must be a number or a fraction"),
        ("warner", {"p": "1/0"}, "p must be a number or a fraction"),
        ("warner", {"p": float("nan")}, "p must be a number or a fraction"),
        ("warner", {"p": True}, "a probability must be a number or a text"),
        ("warner", {}, "warner needs p"),
        ("warner", {"p": 0.7, "q": 1}, "warner has no parameter 'q', only p"),
        ("two-coins", {"truth": 0}, "truth must be above 0"),
        ("forced", {"forced_yes": 0.5, "forced_no": 0.5}, "must be below 1, or nobody tells"),
        ("forced", {"forced_yes": 0.5, "forced_no": 0.6}, "must add up to less than 1"),
        ("forced", {"truth": 0, "yes_if_forced": 0.5}, "must be below 1, or nobody tells"),
        ("forced", {"truth": 0.5, "forced_no": 0.5}, "either forced_yes and forced_no, or truth"),
        ("unrelated", {"p": 0, "q": 0.5}, "p must be above 0"),
        ("unrelated-unknown", {"p1": 0.4, "p2": "2/5"}, "p1 and p2 must differ"),
        ("mangat", {"p": 0}, "p must be above 0"),
        ("kuk", {"red_if_yes": 0.3, "red_if_no": 0.3}, "must differ"),
        ("kuk-draws", {"red_if_yes": 0.3, "red_if_no": 0.4, "draws": 0}, "draws must be in 1..20"),
        ("kuk-draws", {"red_if_yes": 0.3, "red_if_no": 0.3, "draws": 2}, "must differ"),
        ("crosswise", {"p": 0.5}, "p must not be 1/2"),
        ("triangular", {"p": 1}, "p must be below 1"),
        ("lie-detector", {"p1": 0.2, "p2": 0.2}, "p1 and p2 must differ"),
        ("item-count", {"items": 0}, "items must be in 1..20"),
        ("item-count", {"items": "many"}, "items must be a whole number"),
        ("matrix", {"answers": "a,b", "matrix": "0.5 0.5; 0.5 0.5"}, "cannot be inverted"),
        ("matrix", {"answers": "a,b", "matrix": "0.5 0.5; 0.5001 0.4999"}, "cannot be inverted"),
        ("matrix", {"answers": "a,b", "matrix": "0.5 0.4; 0.1 0.9"}, "row 1 must add up to 1"),
        ("matrix", {"answers": "a,b", "matrix": "1 0"}, "must have 2 rows"),
        ("matrix", {"answers": "a,b", "matrix": "1 0 0;0 1 0", "reports": "x,y,z"}, "generalized"),
        ("matrix", {"answers": "a,a", "truth": 0.5}, "answers must differ"),
        ("matrix", {"answers": "a", "truth": 0.5}, "answers must be two or more"),
        ("matrix", {"answers": "a,b"}, "either matrix or truth"),
        ("matrix", {"answers": "a,b", "truth": 0}, "cannot be inverted"),
        ("matrix", {"answers": "a,b", "matrix": "1.5 -0.5; 0 1"}, "must be a probability"),
        ("oracle", {}, "design must be one of"),
    ],
)
def test_invalid_designs_are_refused_with_the_reason(name, given, reason):
    with pytest.raises(DesignError, match="(?i)" + reason.replace("(", r"\(")):
        design(name, given)


def test_both_conventions_of_forced_response_are_one_design():
    by_truth = design("forced", {"truth": "3/4", "yes_if_forced": "2/3"})
    assert by_truth == design("forced", {"forced_yes": "1/6", "forced_no": "1/12"})
    assert by_truth.truth == F(3, 4)


def test_a_float_stands_for_the_decimal_that_it_prints_as():
    assert Warner(0.7) == Warner("0.7") == Warner(F(7, 10))


def test_all_designs_are_in_the_catalogue_with_their_parameters():
    assert len(CATALOGUE) == 14
    assert all(parameters(name) or name == "direct" for name in CATALOGUE)
    # No parameter may be called like a report or a further column: columns may hold parameters.
    reserved = {"answer", "count", "weight", "stratum", "sample", "respondent", "yes", "no"}
    reserved |= {"same", "different", "red", "black", "circle", "triangle", "blank", "refused"}
    assert not reserved & set(all_parameters())


def test_a_matrix_is_inverted_as_numpy_does_it():
    own = OTHERS[-2]
    counts = [50, 30, 20]
    figures = estimate(own, [Stratum((Sample.of_counts(counts),))], divisor="n")
    matrix = np.array([[float(p) for p in row] for row in own.response])
    shares = np.array(counts) / 100
    inverse = np.linalg.inv(matrix.T)
    covariance = inverse @ (np.diag(shares) - np.outer(shares, shares)) / 100 @ inverse.T
    assert [f.estimate for f in figures] == pytest.approx(inverse @ shares)
    assert [f.standard_error for f in figures] == pytest.approx(np.sqrt(np.diag(covariance)))
    assert sum(f.estimate for f in figures) == pytest.approx(1)

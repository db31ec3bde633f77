"""What R's packages are told of a question is the channel that its reports went through."""

import csv
import io
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from client_sdk.survey import Question, Survey
from client_sdk.survey.odds import sent_as
from estimator.errors import NotPublishable
from estimator.surveys.export import columns_of, exported
from estimator.surveys.r_design import Design, design_of
from estimator.surveys.results import results
from tests.estimator.surveys import (
    ALONE,
    DAYS,
    ILL,
    LATE,
    WHO,
    WHY,
    put,
    survey_of,
    tally_of,
)

EVERY = (LATE, ILL, WHY, WHO, ALONE, DAYS)
# Of answers in the metric's own order; of a yes/no one that is no, yes.
SHARES = {
    "late": [0.9, 0.1],
    "ill": [0.5, 0.3, 0.2, 0.0],
    "why": [0.4, 0.3, 0.3, 0.0],
    "who": [0.6, 0.4, 0.0],
    "alone": [0.3, 0.7],
    "days": [0.0, 0.0, 0.5, 0.5, 0.0, 0.0],
}


@pytest.fixture
def survey() -> Survey:
    return survey_of(*EVERY)


@pytest.fixture
def written(survey: Survey, tmp_path: Path) -> Path:
    for question in survey.questions:
        put(tmp_path, question, tally_of(question, SHARES[question.name], 1009))
    return tmp_path


def misclassification(design: Design) -> list[list[Fraction]]:
    """RRreg 0.8.0, getPW: P(respond i | true j), as its help page on RRuni states the models."""
    if design.model == "Warner":
        (p,) = design.p
        return [[p, 1 - p], [1 - p, p]]
    assert design.model == "FR"
    codes = range(len(design.p))
    return [
        [1 - sum(design.p[k] for k in codes if k != i) if i == j else design.p[i] for j in codes]
        for i in codes
    ]


def law_of(question: Question) -> list[list[Fraction]]:
    """P(code i leaves | true code j) of a question, from its mechanism."""
    mechanism = question.metric.mechanism
    if mechanism.kind == "bits" and mechanism.cells > 1:
        own, other = sent_as(mechanism, 0, 0), sent_as(mechanism, 0, 1)
        return [[1 - other, 1 - own], [other, own]]
    count = len(question.answers)
    codes = [list(question.metric.labels).index(answer.value) for answer in question.answers]
    codes = sorted(codes) if count == 2 else codes
    return [[sent_as(mechanism, true, sent) for true in codes] for sent in codes]


def test_the_model_of_rrreg_is_the_channel_to_the_last_digit(survey: Survey) -> None:
    for question in survey.questions:
        assert misclassification(design_of(question)) == law_of(question), question.name


def test_the_design_of_rr_is_the_channel_where_it_has_one(survey: Survey) -> None:
    """rr 1.4.2, rrcd: P(1 | share) = c share + d; mirrored c = 2p - 1, d = 1 - p; forced-known
    c = p, d = p1, with p + p0 + p1 = 1."""
    seen = set()
    for question in survey.questions:
        design, law = design_of(question), law_of(question)
        seen.add(design.rr_design)
        if not design.rr_design:
            assert len(law) > 2
            continue
        p = design.rr["p"]
        if design.rr_design == "mirrored":
            c, d = 2 * p - 1, 1 - p
        else:
            c, d = p, design.rr["p1"]
            assert p + design.rr["p0"] + design.rr["p1"] == 1
        assert (d, c + d) == (law[1][0], law[1][1]), question.name
    assert seen == {"", "mirrored", "forced-known"}


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def estimated(row: dict[str, str], responses: list[int]) -> dict[int, tuple[float, float]]:
    """RRuni's moment estimates (RRuni.Warner, RRuni.FR): share and error by code."""
    p = [float(each) for each in row["rrreg_p"].split(";")]
    n = len(responses)
    if row["rrreg_model"] == "Warner":
        lam = sum(responses) / n
        pi = (lam + p[0] - 1) / (2 * p[0] - 1)
        error = math.sqrt(lam * (1 - lam) / ((n - 1) * (2 * p[0] - 1) ** 2))
        return {1: (pi, error), 0: (1 - pi, error)}
    truthful, found = 1 - sum(p), {}
    for code, told in enumerate(p):
        lam = responses.count(code) / n
        error = math.sqrt(lam * (1 - lam) / (truthful**2 * (n - 1)))
        found[code] = ((lam - told) / truthful, error)
    return found


def test_rrregs_formulas_give_our_estimates_from_the_files_alone(
    survey: Survey, written: Path
) -> None:
    texts = exported(survey, results(survey, written))
    expected, checked, below = read(texts["expected.csv"]), 0, 0
    for row in read(texts["design.csv"]):
        responses = [int(each[row["column"]]) for each in read(texts[row["file"]])]
        assert len(responses) == int(row["n"]) == 1009
        assert row["stage"] == "final"
        found = estimated(row, responses)
        for ours in expected:
            if ours["column"] == row["column"]:
                share, error = found[int(ours["code"])]
                assert float(ours["share"]) == pytest.approx(share, abs=1e-12)
                theirs = float(ours["standard_error_n_minus_1"])
                assert theirs == pytest.approx(error, rel=1e-12)
                assert row["answers"].split(";")[int(ours["code"])] == ours["answer"]
                checked += 1
                below += share < 0
    assert checked == sum(len(question.answers) for question in survey.questions)
    assert below  # of 0 %, rounded to whole reports


def test_responses_come_back_as_they_were_counted_and_in_the_order_of_answers(
    survey: Survey, written: Path
) -> None:
    texts = exported(survey, results(survey, written))
    for question in survey.questions:
        tally = tally_of(question, SHARES[question.name], 1009)
        rows = read(texts[f"responses_{question.name}.csv"])
        columns = [[int(row[name]) for row in rows] for name in rows[0]]
        assert all(column == sorted(column) for column in columns)
        counted = [np.bincount(column, minlength=2).tolist() for column in columns]
        if len(counted) > 1:
            assert [ones for _, ones in counted] == tally.counts[0].tolist()
        elif question.name == "late":
            assert counted == [[1009 - tally.counts[0, 0], tally.counts[0, 0]]]
        else:
            assert counted == [tally.counts[0].tolist()]


def test_a_question_without_figures_is_left_out_and_none_at_all_is_refused(
    survey: Survey, tmp_path: Path
) -> None:
    with pytest.raises(NotPublishable, match="habits has no figures yet"):
        exported(survey, results(survey, tmp_path))
    late, ill = survey.questions[:2]
    put(tmp_path, late, tally_of(late, SHARES["late"], 49))  # withheld below 50
    with pytest.raises(NotPublishable, match="habits has no figures yet"):
        exported(survey, results(survey, tmp_path))
    put(tmp_path, ill, tally_of(ill, SHARES["ill"], 50), taken_at=1_796_040_000.0)
    texts = exported(survey, results(survey, tmp_path))
    assert set(texts) == {"responses_ill.csv", "design.csv", "expected.csv", "analysis.R"}
    assert [row["stage"] for row in read(texts["design.csv"])] == ["so far"]


def test_shares_that_are_of_no_whole_reports_are_not_exported(
    survey: Survey, written: Path
) -> None:
    late = results(survey, written)[0]
    path = next((written / late.question.metric.name).glob("*.json"))
    share = late.answers[0][1].share
    text = path.read_text()
    path.write_text(text.replace(repr(share), repr(share + 1e-4)))
    with pytest.raises(NotPublishable, match="late has shares that are none of whole reports"):
        columns_of(results(survey, written)[0])


def test_the_script_reads_only_what_is_there(survey: Survey, written: Path) -> None:
    texts = exported(survey, results(survey, written))
    script = texts["analysis.R"]
    columns = set(read(texts["design.csv"])[0]) | set(read(texts["expected.csv"])[0])
    used = set(re.findall(r"(?:row|ours|expected|design)\$([a-z_0-9]+)", script))
    assert used and used <= columns

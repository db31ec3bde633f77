"""Survey cases from public bug reports and published tables, with answers computed apart."""

import json

import pytest

from estimator.designs import BadRows, Request, analyse
from estimator.designs.answers import Reading
from estimator.designs.table import read


def figure(rows, name, given, **options):
    one = options.pop("one", None)
    table = read(json.dumps({"rows": rows}))
    found = analyse(table, Request(Reading(name, given, one=one), **options))
    return found, found.figures[0]


def test_a_rare_yes_to_a_direct_question_has_an_interval_above_zero():
    # microsoft/haste issue 116: 2 of 199 from 97,541; Wald's interval began at -373 people.
    rows = [{"yes": 2, "no": 197}]
    _, direct = figure(rows, "direct", {}, population=97541)
    assert direct.standard_error == pytest.approx(0.0070814, abs=5e-8)
    assert direct.interval == pytest.approx([0.0027605, 0.0358976], abs=5e-8)
    people = [round(part * 97541) for part in (direct.estimate, *direct.interval)]
    assert people == [980, 269, 3501]
    assert direct.normal[0] * 97541 == pytest.approx(-373, abs=0.5)
    assert direct.normal[1] * 97541 == pytest.approx(2334, abs=0.5)
    _, exact = figure(rows, "direct", {}, population=97541, method="clopper_pearson")
    assert exact.interval == pytest.approx([0.0012195, 0.0358315], abs=5e-8)
    assert [round(end * 97541) for end in exact.interval] == [119, 3495]


def test_a_divisor_below_zero_is_as_good_as_one_above():
    # Wikipedia, "Randomized response": p = 1/6, three quarters say yes.
    _, share = figure([{"yes": 750, "no": 250}], "warner", {"p": "1/6"}, divisor="n")
    assert share.estimate == pytest.approx(0.125)
    assert share.standard_error == pytest.approx(0.0205396, abs=5e-8)


@pytest.mark.parametrize(("yes", "share", "error"), [(52, 0.04, 0.0999), (50, 0.0, 0.1),
                                                     (47, -0.06, 0.0998)])  # fmt: skip
def test_an_absurd_question_gives_about_zero(yes, share, error):
    # norsemathology wiki, one coin: half of such samples are below zero, and that is noise.
    rows = [{"yes": yes, "no": 100 - yes}]
    given = {"forced_yes": "1/2", "forced_no": 0}
    _, found = figure(rows, "forced", given, divisor="n")
    assert found.estimate == pytest.approx(share)
    assert found.standard_error == pytest.approx(error, abs=5e-5)
    assert found.interval[0] < 0 < found.interval[1]
    assert found.verdict.kind == ("noise" if share < 0 else "inside")


def test_crosswise_answers_are_asked_what_1_means():
    # RRreg's RRuni, and the plagiarism data of GLMMRR: the other coding gives 1 - share.
    rows = [{"answer": "1", "count": 198}, {"answer": "0", "count": 112}]
    with pytest.raises(BadRows, match="say which of different and same 1 means"):
        figure(rows, "crosswise", {"p": "1/4"})
    _, same = figure(rows, "crosswise", {"p": "1/4"}, one="same", divisor="n")
    assert same.estimate == pytest.approx(0.2225806, abs=5e-8)
    assert same.standard_error == pytest.approx(0.0545669, abs=5e-8)
    _, flipped = figure(rows, "crosswise", {"p": "1/4"}, one="different")
    assert flipped.estimate == pytest.approx(0.7774, abs=5e-5)


def test_equal_chances_of_both_orders_are_no_reason_to_refuse():
    # RRTCS, ForcedResponse: its documentation demands p1 != p2, its own example has 0.2 and 0.2.
    given = {"forced_yes": 0.2, "forced_no": 0.2}
    _, share = figure([{"yes": 508, "no": 492}], "forced", given, divisor="n")
    assert share.estimate == pytest.approx(0.5133333, abs=5e-8)
    assert share.standard_error == pytest.approx(0.0263489, abs=5e-8)


def test_one_respondent_on_several_lines_is_one_respondent():
    # mattroumaya/surveymonkey issues 27 and 62: 10 lines, 8 people.
    lines = [("a", ""), ("b", "yes"), ("a", "yes"), ("c", "no"), ("a", ""), ("d", "yes"),
             ("e", "no"), ("f", "yes"), ("g", "no"), ("h", "yes")]  # fmt: skip
    rows = [{"respondent": who, "answer": said} for who, said in lines]
    survey, share = figure(rows, "direct", {})
    assert (survey.n, survey.blank, survey.refused) == (8, 0, 0)
    assert share.estimate == pytest.approx(5 / 8)
    with pytest.raises(BadRows) as caught:
        figure([*rows, {"respondent": "c", "answer": "yes"}], "direct", {})
    assert caught.value.problems == ("rows 4, 11: one respondent with different answers",)


def test_nobody_answered_is_not_zero():
    # HTTPArchive/httparchive.org issue 221, for surveys: an absent estimate is not one of zero.
    with pytest.raises(ValueError, match="no estimate, which is not one of zero"):
        figure([{"answer": ""}, {"answer": "refused"}], "warner", {"p": 0.7})


def test_a_negative_share_is_noise_or_a_misfit():
    # John, Loewenstein, Acquisti and Vosgerau (2018); dice item of GLMMRR's MTURK data.
    given = {"truth": "3/4", "yes_if_forced": "2/3"}
    _, noise = figure([{"yes": 248, "no": 1278}], "forced", given)
    assert noise.estimate == pytest.approx(-0.0055, abs=5e-5)
    assert noise.standard_error == pytest.approx(0.0126, abs=5e-5)
    assert noise.verdict.kind == "noise" and "compatible with 0" in noise.verdict.words
    _, misfit = figure([{"yes": 200, "no": 1326}], "forced", given)
    assert misfit.estimate == pytest.approx(-0.0475, abs=5e-5)
    assert misfit.standard_error == pytest.approx(0.0115, abs=5e-5)
    assert misfit.estimate / misfit.standard_error == pytest.approx(-4.1, abs=0.05)
    assert misfit.verdict.kind == "misfit" and "do not fit" in misfit.verdict.words

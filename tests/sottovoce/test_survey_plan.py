"""`sottovoce survey plan`: dice, errors, answers and the price of protection, as text and JSON."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from estimator.designs import ForcedResponse, Warner
from estimator.planning.paper import answers_for_margin, answers_for_power, outlook, power
from sottovoce.__main__ import main

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "surveys" / "habits.toml")


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["survey", "plan", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["survey", "plan", *options]) == 0
    return capsys.readouterr().out


def test_a_plan_has_the_figures_of_the_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--design", "forced", "--forced-yes", "1/6", "--forced-no", "1/6")
    more = ("--answers", "400", "--share", "0.1", "--margin", "0.04", "--difference", "0.15")
    plan = planned(capsys, *options, *more)
    design = ForcedResponse("1/6", "1/6")
    expected = outlook(design, 0.1, 400)
    for name in ("standard_error", "margin", "worst_margin", "worst_share", "worth"):
        assert plan[name] == getattr(expected, name)
    assert plan["epsilon"] == pytest.approx(math.log(5))
    assert plan["needs"] == ["a die and a cup"]
    assert plan["wanted_margin"]["answers"] == answers_for_margin(design, 0.1, 0.04)
    groups = plan["groups"]
    assert groups["answers_each"] == 200
    assert groups["power"] == power(design, (0.1, 0.25), 200)
    assert groups["answers_each_for_power"] == answers_for_power(design, (0.1, 0.25), 0.8)


def test_the_price_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    # Warner at p = 3/4: Var = (0.2 * 0.8 + 0.75) / n, so 1,000 answers are worth 1000 * 0.16/0.91.
    text = said(capsys, "--design", "warner", "--p", "0.75")
    assert "your 1,000 answers are worth 176 direct ones" in text
    assert "warner, p = 3/4: two coins" in text
    assert "epsilon 1.099" in text
    direct = said(capsys, "--design", "direct")
    assert "your 1,000 answers are worth 1,000 direct ones" in direct


def test_dice_for_an_epsilon_stay_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--design", "warner", "--epsilon", "1")
    assert plan["parameters"] == {"p": "19/26"}
    assert [row["device"] for row in plan["devices"]] == [
        "coins",
        "die",
        "dice",
        "ten-sided",
        "cards",
        "slips",
    ]
    for row in plan["devices"]:
        numerator, denominator = map(int, row["parameters"]["p"].split("/"))
        p = numerator / denominator
        assert row["epsilon"] == pytest.approx(math.log(p / (1 - p)))
        assert row["epsilon"] <= 1
        assert row["worth"] == outlook(Warner(row["parameters"]["p"]), 0.2, 1000).worth


def test_a_device_that_is_not_as_wished_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--design", "warner", "--p", "0.7", "--device", "die")
    assert "p = 2/3" in text and "wished for p = 7/10; this is the nearest" in text
    assert "nearest" not in said(capsys, "--design", "warner", "--p", "0.7")
    assert "by the calendar" in said(capsys, "--design", "crosswise", "--p", "1/4")


def test_designs_without_a_finite_epsilon_say_what_proves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "--design", "mangat", "--p", "2/3")
    assert "epsilon: none that holds for every answer" in text
    assert "the report 'no' rules out the truth 'yes'" in text
    assert planned(capsys, "--design", "mangat", "--p", "2/3")["epsilon"] is None


def test_unknown_rates_are_half_unless_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--design", "item-count", "--items", "4")
    half, rare = planned(capsys, *own), planned(capsys, *own, "--q", "1/10")
    # Two lists of 500: (4 q (1 - q) + 4 q (1 - q) + 0.2 * 0.8) / 500.
    assert half["standard_error"] == pytest.approx(math.sqrt((2 + 0.16) / 500))
    assert rare["standard_error"] == pytest.approx(math.sqrt((0.72 + 0.16) / 500))


def test_several_answers_are_planned_by_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--design", "matrix", "--values", "5", "--epsilon", "1.5")
    assert plan["epsilon"] <= 1.5 and plan["parameters"] == {"truth": "24/59"}
    assert plan["odds"][0] == {"1 to 24": "24/59"}
    assert planned(capsys, "--design", "matrix", "--values", "3", "--truth", "0.4")["epsilon"] == (
        pytest.approx(math.log(3))
    )


def test_a_browser_survey_is_planned_in_both_modes(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--survey", EXAMPLE, "--answers", "600")
    assert [each["question"] for each in plan["questions"]] == [
        "ever_late",
        "work_when_ill",
        "main_way",
    ]
    for each in plan["questions"]:
        assert each["paper"]["epsilon"] <= each["browser"]["epsilon"]
        assert each["paper"]["standard_error"] >= each["browser"]["standard_error"]
        assert each["paper"]["standard_error"] < 1.02 * each["browser"]["standard_error"]
        # Of the same form, so that a column of the file can hold both.
        assert each["browser"]["parameters"].keys() == each["paper"]["parameters"].keys()
    text = said(capsys, "--survey", EXAMPLE)
    assert "the bag with 26 slips" in text and "1.000" in text and "0.999" in text


def test_answers_for_a_margin_are_told_of_each_question_of_a_browser_survey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at_thousand = planned(capsys, "--survey", EXAMPLE)["questions"]
    plan = planned(capsys, "--survey", EXAMPLE, "--margin", "0.05")
    for each, known in zip(plan["questions"], at_thousand, strict=True):
        needed = 1000 * (known["browser"]["margin"] / 0.05) ** 2
        assert each["browser"]["answers_for_margin"] == math.ceil(needed - 1e-6)
        assert "answers_for_margin" not in known["browser"]
    text = said(capsys, "--survey", EXAMPLE, "--margin", "0.05")
    assert "answers for +- 5.0 %" in text and "1,661" in text


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("", "--design must be given"),
        ("--design warner --p 0.5", "must not be 1/2"),
        ("--design warner", "needs p"),
        ("--design kuk-draws --red-if-yes 0.8 --red-if-no 0.2", "for estimates only: take kuk"),
        ("--design warner --p 0.7 --share 2", "--share must be"),
        ("--design warner --p 0.7 --level 1", "--level must be"),
        ("--design warner --p 0.7 --answers 0", "--answers must be"),
        ("--design warner --p 0.7 --margin 0", "margin must be"),
        ("--design warner --p 0.7 --share 0.2 --difference 0.9", "--difference must keep"),
        ("--design warner --p 0.7 --difference 0", "difference must not be 0"),
        ("--design matrix --values 1 --truth 0.5", "--values must be"),
        ("--design warner --epsilon 0", "epsilon must be above 0"),
        ("--design mangat --epsilon 1", "does not choose"),
        (f"--survey {EXAMPLE} --epsilon 1", "leave out --epsilon"),
        (f"--survey {EXAMPLE} --difference 0", "leave out --difference"),
        (f"--survey {EXAMPLE} --forced-yes 1/6", "leave out --forced-yes"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_rule(
    options: str, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["survey", "plan", *options.split()]) == 2
    assert rule in capsys.readouterr().err

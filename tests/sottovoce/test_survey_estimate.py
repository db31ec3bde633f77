"""`sottovoce survey estimate`: from a file to figures."""

import csv
import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from statsmodels.stats.proportion import proportion_confint

from estimator.designs import Request, analyse
from estimator.designs.answers import Reading
from estimator.designs.catalogue import CATALOGUE, all_parameters
from estimator.designs.table import read
from sottovoce.__main__ import main, parser_for
from sottovoce.surveys import design_options, estimate
from sottovoce.surveys.estimate_printed import print_analysis


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str, *options: str) -> int:
    Path("file").write_text(text)
    return main(["survey", "estimate", "file", *options])


WARNER = ("--design", "warner", "--p", "0.7")


def test_counts_are_estimated_and_shown(capsys):
    assert run("yes,no,blank,refused\n60,65,3,1\n", *WARNER, "--population", "802") == 0
    shown = capsys.readouterr().out
    assert "125 answers, 3 blank, 1 refused" in shown
    assert "Blanks and refusals are not counted as no" in shown
    assert re.search(r"share +45.00 % +11.07 % +\[23.58, 66.72\] %", shown)
    assert "epsilon 0.8473" in shown and "population of 802" in shown


def test_json_and_csv_hold_the_same_figures(capsys):
    text = "answer,sex,count\nyes,f,60\nno,f,40\nyes,m,45\nno,m,55\nyes,x,30\nno,x,50\n"
    both = (*WARNER, "--by", "sex", "--covariates", "sex")
    assert run(text, *both, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert run(text, *both, "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    (share,) = (row for row in rows if row["part"] == "estimate")
    assert float(share["estimate"]) == document["figures"][0]["estimate"]
    assert [float(share["low"]), float(share["high"])] == document["figures"][0]["interval"]
    found = {row["name"]: row for row in rows if row["part"] == "difference"}
    assert float(found["m - f"]["p_value"]) == document["differences"][0]["p_value"]
    labels = [row["name"] for row in rows if row["part"] == "coefficient"]
    assert labels == ["(intercept)", "sex: m", "sex: x"]
    assert float(rows[-1]["chi_square"]) == document["regression"]["tests"][-1]["chi_square"]


def test_variances_and_intervals_are_those_that_are_asked_for(capsys):
    def share(*options):
        assert run("yes,no\n60,65\n", *WARNER, *options, "--json") == 0
        return json.loads(capsys.readouterr().out)["figures"][0]

    # Of the R package RRTCS's example of Warner's design.
    assert share()["standard_error"] == pytest.approx(0.1121635, abs=5e-8)
    assert share("--variance", "n")["standard_error"] == pytest.approx(0.1117139, abs=5e-8)
    for options, method in (((), "wilson"), (("--exact",), "beta")):
        ends = [(end - 0.3) / 0.4 for end in proportion_confint(60, 125, method=method)]
        assert share(*options)["interval"] == pytest.approx(ends)


def test_a_document_states_its_own_design(capsys):
    text = json.dumps(
        {
            "design": {"name": "crosswise", "p": "1/4"},
            "one": "same",
            "strata": {"a": 1000, "b": 3000},
            "rows": [
                {
                    "answer": answer,
                    "stratum": stratum,
                    "count": 50 + 10 * (answer + stratum == "1a"),
                }
                for answer in "10"
                for stratum in "ab"
            ],
        }
    )
    assert run(text, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"] == [{"p": "1/4"}]
    assert document["finite_population"] and document["population"] == 4000
    expected = 0.25 * (60 / 110 - 0.75) / -0.5 + 0.75 * 0.5
    assert document["figures"][0]["estimate"] == pytest.approx(expected)
    assert run(text, *WARNER) == 2
    assert "leave --design and parameters out" in capsys.readouterr().err
    assert run(text, "--one", "different", "--stratum", "a=9") == 2
    assert "the document states strata, one: leave the options out" in capsys.readouterr().err
    assert run(text.replace('"strata"', '"population": 9, "strata"'), "--population", "7") == 2
    assert "the document states population" in capsys.readouterr().err


def test_groups_and_coefficients_are_shown(capsys):
    text = "answer,sex,count\nyes,f,60\nno,f,40\nyes,m,45\nno,m,55\nyes,x,30\nno,x,50\n"
    assert run(text, *WARNER, "--by", "sex", "--covariates", "sex") == 0
    shown = capsys.readouterr().out
    assert re.search(r"m - f +-37.50 %", shown) and "All alike? chi-square" in shown
    assert "likelihood-ratio test" in shown and re.search(r"sex: m +-", shown)


def test_a_misfit_and_contradicting_cells_are_said_aloud(capsys):
    given = ("--design", "forced", "--truth", "3/4", "--yes-if-forced", "2/3")
    assert run("yes,no\n200,1326\n", *given) == 0
    assert "Answers do not fit the design" in capsys.readouterr().out
    assert run("p,yes,no\n0.7,600,400\n0.8,200,800\n", "--design", "warner") == 0
    assert "The cells contradict each other" in capsys.readouterr().out
    assert run("p,yes,no\n0.7,600,400\n0.8,200,800\n", "--design", "warner", "--json") == 0
    # The expected information has no n - 1.
    assert json.loads(capsys.readouterr().out)["divisor"] == "n"


def test_an_epsilon_that_depends_on_the_harmless_question_is_stated_at_its_rate(capsys):
    # l1 = 0.7 * 0.2 + 0.3 * 0.5 = 0.29, l2 = 0.3 * 0.2 + 0.7 * 0.5 = 0.41: share 0.2, rate 0.5,
    # and epsilon ln((0.7 + 0.15) / 0.15).
    given = ("--design", "unrelated-unknown", "--p1", "0.7", "--p2", "0.3")
    assert run("sample,yes,no\n1,29,71\n2,41,59\n", *given) == 0
    shown = capsys.readouterr().out
    assert "at the estimated one it is 1.7346" in " ".join(shown.split())
    assert re.search(r"share +20.00 %", shown) and re.search(r"innocuous +50.00 %", shown)


def test_words_say_what_numbers_do_not(capsys):
    assert run("answer\nyes\nyes\n", *WARNER) == 0
    assert "A standard error of 0 is no certainty" in capsys.readouterr().out
    two = ("--design", "lie-detector", "--p1", "0.2", "--p2", "0.8", "--population", "900")
    assert run("sample,yes,no\n1,80,20\n2,20,80\n", *two) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "honesty: not told, for the share cannot be told from 0" in shown
    assert "normal intervals of the share are corrected for a population of 900; Wilson" in shown
    assert run("yes,no\n5,5\n", "--design", "direct", "--population", "10") == 0
    assert "no certainty" not in capsys.readouterr().out  # everybody was asked
    both = "sex,yes,no\nf,5,0\nm,0,5\n"
    assert run(both, *WARNER, "--by", "sex") == 0
    assert re.search(r"m - f .* -$", capsys.readouterr().out, re.MULTILINE)


def test_a_weighted_regression_is_called_one(capsys):
    text = "answer,sex,weight,count\nyes,f,1,60\nno,f,2,30\nyes,m,2,45\nno,m,1,45\n"
    assert run(text, *WARNER, "--covariates", "sex") == 0
    shown = capsys.readouterr().out
    assert "weighted log-pseudo-likelihood" in shown and "Wald test" in shown
    assert run(text, *WARNER, "--covariates", "sex", "--csv") == 0
    assert "\nwald,sex," in capsys.readouterr().out


def test_a_likelihood_that_is_higher_without_end_is_warned_of(capsys):
    table = read("answer,sex,count\nyes,f,60\nno,f,30\nyes,m,45\nno,m,45\n")
    request = Request(Reading("warner", {"p": "0.7"}, others=("sex",)), covariates=("sex",))
    found = analyse(table, request)
    for higher in (False, True):
        print_analysis(replace(found, fit=replace(found.fit, higher=higher)), request)
        assert ("Careful: the likelihood is higher still" in capsys.readouterr().out) == higher


def test_weights_say_what_they_cost(capsys):
    rows = "answer,weight\n" + "yes,1\nno,4\n" * 20
    counts = "answer,weight,count\nyes,1,20\nno,4,20\n"
    for text in (rows, counts):
        assert run(text, *WARNER) == 0
        assert "weighted, worth 29.4 unweighted ones" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "say how people were asked"),
        (("--design", "warner"), "warner needs p"),
        (("--design", "warner", "--p", "1/2"), "p must not be 1/2"),
        ((*WARNER, "--stratum", "a"), "--stratum must be NAME=PEOPLE"),
        ((*WARNER, "--stratum", "a=10"), "need a column 'stratum'"),
        ((*WARNER, "--level", "95"), "level: must be between 0 and 1"),
        ((*WARNER, "--population", "9"), "more than its 9 people"),
        ((*WARNER, "--population", "0"), "must be at least 1"),
        ((*WARNER, "--by", "sex"), "must include 'sex'"),
    ],
)
def test_mistakes_are_refused_with_the_reason(options, reason, capsys):
    assert run("yes,no\n60,65\n", *options) == 2
    assert reason in capsys.readouterr().err


def test_a_file_in_another_encoding_is_refused_with_what_to_do(tmp_path, capsys):
    path = tmp_path / "tally.csv"
    path.write_bytes("answer,count\nyes,3\n".encode("utf-16"))
    assert main(["survey", "estimate", str(path), "--design", "warner", "--p", "0.7"]) == 2
    assert "save it from the spreadsheet as CSV UTF-8" in capsys.readouterr().err


def test_bad_rows_are_named_and_nothing_is_printed(capsys):
    assert run("answer\nyes\nmaybe\nno\nnever\n", *WARNER) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "2 bad rows, nothing was used" in told.err
    assert "line 3: " in told.err and "line 5: " in told.err


def test_help_has_an_example_of_each_design():
    examples = re.findall(r"^  (sottovoce survey estimate .*)$", estimate.__doc__, re.MULTILINE)
    asked = set()
    for example in examples:
        arguments = shlex.split(example.removesuffix("\\"))[2:]
        asked.add(parser_for("survey").parse_args(arguments).design)
    assert asked == set(CATALOGUE)


def test_each_parameter_of_a_design_is_an_option():
    assert set(design_options.PARAMETERS) == set(all_parameters())

"""`sottovoce plan`: what it prints, its exit status, its files."""

import json
import re
import shlex
from pathlib import Path

import pytest

from client_sdk import load
from client_sdk.review import error_of_a_rare_value
from sottovoce.__main__ import main
from sottovoce.commands.plan import EPILOG
from tests.registries import Date, home_page, load_seconds, registry, theme


def metrics_of(**keys: object) -> str:
    """A file with one metric of each kind that is planned in its own way."""
    return registry(
        theme("light", "dark", "system", "other", every=5),
        load_seconds("startup", range=[0, 20], mechanism="one_bit_mean"),
        load_seconds("size", range=[0, 1000], buckets=16, mechanism="square_wave"),
        home_page(expires=Date("2027-02-01"), **keys),
    )


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(metrics_of(candidates=["https://a.example"]))
    return str(path)


def test_a_question_that_can_be_answered_exits_with_0(capsys: pytest.CaptureFixture) -> None:
    assert main(["plan", "--devices", "20000"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("yes/no, epsilon 1, 20,000 reports a week\n")
    assert "by default: randomized_response; nothing is more exact for rare values" in out
    assert "answer: 20,000 reports at epsilon 1 yes/no: nothing below 2.3 % is visible" in out


def test_one_that_cannot_exits_with_1_and_says_what_would_help(
    capsys: pytest.CaptureFixture,
) -> None:
    assert main(["plan", "--values", "172", "--devices", "5000", "--share", "0.02"]) == 1
    out = capsys.readouterr().out
    assert "no answer: 5,000 reports at epsilon 1 over 172 values: nothing below 14 %" in out
    assert "would help: more devices: 240,000 of them" in out
    assert "by default: optimized_unary; subset_selection errs 0.74 % less" in out


def test_the_plan_as_json_has_every_figure(capsys: pytest.CaptureFixture) -> None:
    asked = ["--values", "20", "--devices", "50000", "--target-error", "0.005", "--budget", "24"]
    assert main(["plan", *asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first = document["mechanisms"][0]
    assert first["mechanism"] == document["verdict"]["mechanism"] == "subset_selection"
    for name in (
        "epsilon rare_error common_error decision_level detection_limit interval_width "
        "simultaneous_width worst_shift bits bytes counters"
    ).split():
        assert first[name] > 0, name
    assert document["default"]["mechanism"] == "optimized_unary"
    assert document["default_over_best"] > 1
    assert document["needed"][0]["devices"] > 50_000 and document["needed"][0]["epsilon"] > 1
    assert document["lifetime"]["reports"] == 24
    assert [row["every"] for row in document["spreading"]] == [1, 2, 5, 10, 20]


def test_a_target_and_a_budget_have_tables(capsys: pytest.CaptureFixture) -> None:
    asked = ["--values", "20", "--devices", "50000", "--target-limit", "0.02", "--budget", "24"]
    main(["plan", *asked])
    out = capsys.readouterr().out
    assert "devices, same epsilon  epsilon, same devices" in out
    assert "the budget pays for 24 reports, over 24 weeks" in out
    assert "168 days" in out


def test_what_is_remembered_is_reserved_once(capsys: pytest.CaptureFixture) -> None:
    asked = ["--candidates", "3", "--permanent", "4", "--distinct", "2", "--devices", "100000"]
    main(["plan", *asked, "--budget", "8"])
    out = capsys.readouterr().out
    assert "the budget pays for all reports ever: 8 epsilon are reserved once" in out
    assert "rappor: bits = " in out and "fingerprint" in out and "averaged" in out


def test_one_mechanism_can_be_looked_at(capsys: pytest.CaptureFixture) -> None:
    main(["plan", "--values", "8", "--mechanism", "symmetric_unary", "--json"])
    (only,) = json.loads(capsys.readouterr().out)["mechanisms"]
    assert only["mechanism"] == "symmetric_unary"


@pytest.mark.parametrize("over", ["devices", "epsilon"])
def test_errors_are_drawn(over: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "errors.svg"
    main(["plan", "--values", "20", "--over", over, "--plot", "--chart", str(file)])
    out = capsys.readouterr().out
    assert "standard error, in per cent" in out and "\x1b" not in out
    text = file.read_text()
    assert text.startswith("<svg") and "optimized_unary" in text and over in text


def test_a_chart_is_an_svg_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["plan", "--chart", str(tmp_path / "errors.png")]) == 2
    assert "--chart must name a .svg file" in capsys.readouterr().err


def test_every_metric_of_a_file_is_planned(metrics: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["plan", metrics, "--devices", "5000"]) == 1
    assert "theme: 1,000 reports at epsilon 1 over 4 values" in capsys.readouterr().out
    assert main(["plan", metrics, "--devices", "51000"]) == 0  # of `size` nobody can say
    out = capsys.readouterr().out
    assert out.startswith("51,000 devices\n")
    assert "theme: 10,200 reports at epsilon 1 over 4 values: nothing below 5 %" in out
    assert "startup: 51,000 reports at epsilon 1 of a mean: no change below 1.6 %" in out
    assert "size: no formula states the error of square_wave, which is biased" in out
    assert "rappor (bits = " in out  # a better shape than the usual one


def test_a_file_as_json_states_the_errors_of_check(
    metrics: str, capsys: pytest.CaptureFixture
) -> None:
    main(["plan", metrics, "--devices", "50000", "--json"])
    document = json.loads(capsys.readouterr().out)
    registry = load(metrics)
    for planned in document["metrics"]:
        if planned["metric"] in ("theme", "startup"):
            metric = registry.metrics[planned["metric"]]
            expected = error_of_a_rare_value(metric, 50_000 * float(metric.inclusion))
            assert planned["figures"]["rare_error"] == pytest.approx(expected)


def test_strings_without_candidates_have_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(metrics_of())
    assert main(["plan", str(path)]) == 1
    assert "home_page: there are no candidates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--type category", "--values is required for type category"),
        ("--type number", "--range is required for type number"),
        ("--type string", "--candidates is required for type string"),
        ("--values 8 --buckets 3", "--buckets is for type number, got type category"),
        ("--values 8 --type boolean", "--values is for type category or ordinal or multi_select"),
        ("--epsilon much", "--epsilon must be a number, got 'much'"),
        ("--epsilon 50", "epsilon: must be positive and at most 40"),
        ("--devices 0", "devices must be at least 1, got 0"),
        ("--values 8 --mechanism rappor", "mechanism: must be one of"),
        ("--values 8 --mechanism rapor", "mechanism: must be one of"),
        ("--values 8 --share 2", "share must lie between 0 and 1"),
        ("--values 8 --target-error 0", "between 0 and 1"),
        ("--values 1", "--values must lie in 2..4096, got 1"),
        ("--values -3", "--values must lie in 2..4096, got -3"),
        ("--values 0", "--values must lie in 2..4096, got 0"),
        ("--values 100000", "--values must lie in 2..4096, got 100000"),
        ("--values 8 --most 0", "--most must lie in 1..4096, got 0"),
        ("--candidates -2", "--candidates must lie in 1..4096, got -2"),
        ("--range 0 9 --buckets -1", "buckets must be at least 2, or 0 for a mean alone, got -1"),
        ("--range 0 9 --buckets 1", "buckets must be at least 2, or 0 for a mean alone, got 1"),
        ("--devices 1" + 400 * "0", "devices must be at most 1,000,000,000,000"),
        ("--share 1e-300", "share must lie between 0 and 1, at least 1e-09, got 1e-300"),
        ("--target-error 1e-300", "between 0 and 1, at least 1e-09"),
        ("--target-limit 1e-200", "between 0 and 1, at least 1e-09"),
        ("--level 0.000001", "level must lie between 0 and 1, at least 0.5, got 1e-06"),
        ("--budget 0", "--budget must be positive and at most 1000, got 0"),
        ("--budget -1", "--budget must be positive and at most 1000, got -1"),
        ("--budget 1e999", "--budget must be positive and at most 1000, got 1e999"),
        ("--distinct 3", "--distinct is for remembered noise: give --permanent, too"),
        ("--range 5 1", "range: must ascend"),
        ("--candidates 4 --mechanism optimized_unary", "mechanism: must be one of"),
        ("missing.toml", "missing.toml"),
    ],
)
def test_a_question_that_cannot_be_asked_exits_with_2(
    asked: str, said: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["plan", *asked.split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and len(error) < 600


@pytest.mark.parametrize("option", ["--share 0.02", "--chart errors.svg", "--epsilon 2", "--plot"])
def test_a_file_says_itself_what_is_asked(
    option: str, metrics: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["plan", metrics, *option.split()]) == 2
    name = option.split()[0]
    assert f"{name} is for a question of its own: {metrics} says it" in capsys.readouterr().err


def test_the_largest_epsilon_has_a_plan(capsys: pytest.CaptureFixture) -> None:
    assert main(["plan", "--epsilon", "40"]) == 0
    assert "answer: 10,000 reports at epsilon 40" in capsys.readouterr().out


def test_what_no_formula_says_is_called_unknown(capsys: pytest.CaptureFixture) -> None:
    asked = "--range 0 9 --buckets 8 --mechanism square_wave"
    assert main(["plan", *asked.split()]) == 0
    assert "unknown: no formula states the error of square_wave" in capsys.readouterr().out


@pytest.mark.slow
def test_the_examples_of_its_help_run(
    metrics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^  sottovoce (plan .*?)(?:   .*)?$", EPILOG, re.MULTILINE)
    assert len(commands) == 12
    for command in (each for each in commands if "--interactive" not in each):  # asks
        assert main(shlex.split(command)) in (0, 1)
    assert (tmp_path / "errors.svg").exists()

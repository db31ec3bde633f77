"""`sottovoce plan --interactive`: what it asks, refuses and says, and the entry that it makes."""

import io
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import load, loads
from client_sdk.errors import RegistryError
from client_sdk.metric import Metric
from client_sdk.review import review
from estimator.planning.figures import metric_law
from sottovoce.__main__ import main, parser_for
from sottovoce.interview.entry import alone, entry_of, toml
from sottovoce.interview.file import File
from sottovoce.interview.interview import interview
from sottovoce.interview.step import Setting

TODAY = date(2026, 11, 30)
CRASHES = {
    "name": "crash_dialog",
    "question": "Has the crash dialog been seen? It decides what is fixed first.",
    "owners": "stability-team@example.org",
    "devices": "20000",
    "every": "1",
    "share": "3 %",
}
"""Answers by key; to what is not in it an empty line."""
OTHERS = """# kept as it is
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 60
contact = "telemetry@example.org"
[metrics.theme]  # and so is this
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "month"
starts = 2026-11-01
expires = 2028-10-31
"""
Answered = str | list[str]


class Told:
    """Answers from a table; of several for one key each is given once, the last one ever after."""

    def __init__(self, answers: dict[str, Answered]) -> None:
        self._answers = {
            key: [each] if isinstance(each, str) else list(each) for key, each in answers.items()
        }
        self.said: list[str] = []
        self.asked: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def ask(self, prompt: str) -> str:
        key = prompt.split()[0].rstrip(">,")
        self.said.append(prompt)
        self.asked.append(key)
        if len(self.asked) > 100:
            raise EOFError
        given = self._answers.get(key, [""])
        return given.pop(0) if len(given) > 1 else given[0]

    @property
    def text(self) -> str:
        return "\n".join(self.said)


def held(answers: dict[str, Answered], file: File | None = None) -> tuple[Told, dict[str, Any]]:
    told = Told(answers)
    return told, dict(interview(told, Setting(TODAY, file)))


def metric_through(answers: dict[str, Answered]) -> Metric:
    """Return the metric that the printed entry declares, in a file of its own."""
    _, found = held(answers)
    head = 'schema = 1\n[project]\nname = "x"\nlifetime_epsilon = 1000\ncontact = "x@example.org"\n'
    registry = loads(head + entry_of(found))
    assert not [each for each in review(registry, TODAY) if each.level == "error"]
    (metric,) = registry.metrics.values()
    return metric


LISTS = {"values": "light, dark, other"}
TWENTY = ", ".join(map(str, range(20)))
"""Of so many values another mechanism is best for each epsilon."""
START_PAGE = {
    "type": "string",
    "candidates": "https://example.org, https://example.net, https://example.com, about:blank",
    "devices": "50000",
    "share": "4 %",
}
REMEMBERED = {"remember": "yes", "change_is_sensitive": "no", "epsilon_permanent": "6"}


# Entries


@pytest.mark.parametrize(
    ("answers", "mechanism", "own"),
    [
        ({}, "randomized_response", {"when_absent": 0, "every": 1, "min_reports": 100}),
        ({"type": "2", **LISTS}, "generalized_randomized_response", {"catch_all": 2}),
        ({"type": "category", "values": "1, 2, 30"}, "generalized_randomized_response", {}),
        (
            {"type": "ordinal", "values": 'no, "a, b", yes', "when_absent": "a, b"},
            "generalized_randomized_response",
            {"labels": ("no", "a, b", "yes"), "missing": 0, "when_absent": 1},
        ),
        (
            {"type": "number", "range": "0 12.5", "buckets": "5", "devices": "200000"},
            "generalized_randomized_response",
            {"when_absent": None},
        ),
        (
            {"type": "number", "range": "0, 60", "buckets": "0", "epsilon": "0.5"},
            "one_bit_mean",
            {},
        ),
        (
            {"type": "multi_select", "values": "a, b, c", "most": "2", "share": "5 %"},
            "multi_hot_unary",
            {"most": 2, "when_absent": 0},
        ),
        ({**START_PAGE, "remember": "no"}, "count_mean_sketch", {"memoize": None}),
        ({**START_PAGE, "epoch": "once", "share": "8 %"}, "rappor", {}),
        (REMEMBERED, "memoized_generalized_randomized_response", {}),
        (
            {**REMEMBERED, "type": "category", **LISTS},
            "memoized_generalized_randomized_response",
            {},
        ),
    ],
)
def test_answers_of_every_type_become_an_entry_that_keeps_all_rules(
    answers: dict[str, Answered], mechanism: str, own: dict[str, Any]
) -> None:
    metric = metric_through({**CRASHES, "devices": "100000", **answers})
    assert metric.name == "crash_dialog"
    assert metric.mechanism.name == mechanism
    assert {key: getattr(metric, key) for key in own} == own
    assert metric.owners == ("stability-team@example.org",)


def test_every_answer_stands_in_the_entry() -> None:
    metric = metric_through(
        {
            **CRASHES,
            "sensitivity": "5",
            "epoch": "day",
            "every": "7",
            "sample": "0.5",
            "epsilon": "2.5",
            "devices": "1,000,000",
            "when_absent": "-",
            "min_reports": "5_000",
            "starts": "2027-01-04",
            "expires": "2027-03-01",
        }
    )
    assert (metric.sensitivity, metric.epoch, metric.every) == ("experiment", "day", 7)
    assert (metric.sample, metric.epsilon) == (Decimal("0.5"), Decimal("2.5"))
    assert (metric.when_absent, metric.min_reports) == (None, 5000)
    assert (metric.starts, metric.expires) == (date(2027, 1, 4), date(2027, 3, 1))


def test_a_remembered_string_gets_the_shape_that_the_planner_solved() -> None:
    told, found = held({**CRASHES, **START_PAGE})
    shape = {"name": "rappor", "bits": 64, "hashes": 1, "cohorts": 4}
    assert found["mechanism"] == shape
    assert "64 remembered bits are a strong fingerprint" in told.text
    assert "A device spends at most 8 epsilon in its life." in told.text
    assert (
        "memoize = { epsilon_permanent = 4.0, distinct_values = 2, change_is_sensitive = false }"
        in entry_of(found)
    )


def test_where_changes_are_sensitive_nothing_is_remembered_and_the_entry_says_so() -> None:
    told, found = held({**CRASHES, **START_PAGE, "sensitivity": "health", "every": "1"})
    assert "change_is_sensitive" in told.asked and "remember" not in told.asked
    assert "# That a value changed is sensitive" in entry_of(found)
    assert alone(found, TODAY).metrics["crash_dialog"].memoize is None


def test_a_list_of_values_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "versions.txt"
    path.write_text("Firefox, 140\n\nChromium 141\nother\n")
    metric = metric_through({**CRASHES, "type": "category", "values": f"@{path}", "share": "9 %"})
    assert metric.labels == ("Firefox, 140", "Chromium 141", "other")


def test_a_small_epsilon_asks_for_more_reports_before_it_publishes() -> None:
    _, found = held({**CRASHES, "type": "category", **LISTS, "epsilon": "0.2", "share": "20 %"})
    metric = alone(found, TODAY).metrics["crash_dialog"]
    assert (metric.mechanism.rare_variance / found["min_reports"]) ** 0.5 <= 0.25
    assert found["min_reports"] > 500


# What cannot be


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("name", "Crash dialog", "a name must match"),
        ("name", "", "An answer is needed"),
        ("question", "a\tb", "must hold no control characters"),
        ("question", "a\ud800", "must be UTF-8"),
        ("owners", ",", "must name somebody"),
        ("owners", 'x, "y', "must be texts with commas"),
        ("sensitivity", "7", "must be one of census"),
        ("type", "bool", "must be one of boolean"),
        ("values", "only", "must be a list of 2 to 4096 values"),
        ("values", "a, a, b", "must not repeat"),
        ("values", "@nowhere.txt", "must be a readable file"),
        ("catch_all", "elsewhere", "must be one of values"),
        ("epoch", "hour", "must be one of day, week, month, once"),
        ("change_is_sensitive", "perhaps", "must be yes or no"),
        ("epsilon_permanent", "0", "must be positive"),
        ("epsilon_permanent", "1e999999999", "must be a number"),
        ("distinct_values", "0", "must be an integer in 1..1000"),
        ("devices", "0", "must be at least 1"),
        ("devices", "many", "must be a whole number"),
        ("every", "1001", "must be an integer in 1..1000"),
        ("sample", "1.5", "must lie in 0.000001..1"),
        ("share", "120 %", "must lie between 0 and 1"),
        ("epsilon", "0", "must be positive"),
        ("epsilon", "4", "epsilon"),  # not below what all reports may tell
        ("epsilon", "none", "must be a number"),
        ("when_absent", "elsewhere", "must be a value of the metric"),
        ("min_reports", "0", "must be an integer in 1"),
        ("starts", "2026-13-01", "must be a date"),
        ("expires", "2026-11-29", "must lie after starts"),
    ],
)
def test_a_wrong_answer_is_told_at_once_and_asked_again(key: str, wrong: str, said: str) -> None:
    answers = {
        **CRASHES,
        "type": "category",
        **LISTS,
        "remember": "yes",
        "epsilon_permanent": "4",
        "devices": "100000",
    }
    right = answers.get(key, "")
    told, found = held({**answers, key: [wrong, str(right)]})
    at = told.asked.index(key)
    assert told.asked[at : at + 2] == [key, key]
    refused = [each for each in told.said if each.startswith("  ") and said in each]
    assert refused, told.text
    assert alone(found, TODAY)


@pytest.mark.parametrize(
    ("answers", "key", "said"),
    [
        ({"type": "number", "range": ["9 1", "0 9"]}, "range", "must ascend"),
        ({"type": "number", "range": ["9", "0 9"]}, "range", "must be two numbers"),
        (
            {"type": "number", "range": "0 9", "missing": ["10", "1"]},
            "missing",
            "must lie in range",
        ),
        (
            {"type": "number", "range": "0 9", "buckets": ["1", "5"]},
            "buckets",
            "must be an integer in 2..4096",
        ),
        (
            {"type": "multi_select", "values": "a, b, c", "most": ["4", "2"]},
            "most",
            "must be an integer in 1..3",
        ),
        ({**START_PAGE, "candidates": ["", "a, b"]}, "candidates", "An answer is needed"),
    ],
)
def test_rules_of_each_type_are_told_at_once(
    answers: dict[str, Answered], key: str, said: str
) -> None:
    told, _ = held({**CRASHES, "devices": "100000", "share": "10 %", **answers})
    assert told.asked.count(key) == 2
    assert said in told.text


def test_what_has_ended_already_is_refused() -> None:
    told, found = held({**CRASHES, "starts": "2019-01-01", "expires": ["2020-01-01", "2026-12-31"]})
    assert "must lie ahead, got 2020-01-01" in told.text
    assert found["expires"] == date(2026, 12, 31)


def test_a_note_of_the_review_is_said_with_the_answer_that_causes_it() -> None:
    told, _ = held({**CRASHES, "epsilon": "6"})
    (at,) = (index for index, each in enumerate(told.said) if each.startswith("epsilon ["))
    assert "6.0 is above what is usual for sensitivity product" in told.said[at + 1]


# What cannot be answered


HARD = {**CRASHES, "type": "category", "values": ", ".join(f"v{n}" for n in range(172))}


def test_a_question_that_cannot_be_answered_is_said_before_the_entry_with_what_would_help() -> None:
    told, found = held({**HARD, "devices": "5000", "share": "2 %", "Change": "keep"})
    assert "5,000 reports at epsilon 1 over 172 values: nothing below 14 % is visible" in told.text
    assert "CANNOT be answered" in told.text
    assert re.search(r"- more devices: 240,000 of them", told.text)
    assert re.search(r"- a larger epsilon: \d", told.text)
    assert "CANNOT" not in entry_of(found)
    assert told.asked.index("Change") < told.asked.index("when_absent")


def test_a_question_is_changed_until_it_can_be_answered() -> None:
    told, found = held({**HARD, "devices": ["5000", "1000000"], "share": "2 %"})
    assert told.asked.count("Change") == 1
    assert told.asked.count("devices") == told.asked.count("epsilon") == 2
    assert told.asked.count("epoch") == 1
    assert found["devices"] == 1_000_000
    assert "devices [5000]> " in told.said  # what was typed is the next default


@pytest.mark.parametrize(
    ("answers", "at_most"),
    [
        ({"type": "category", "values": "a, b, c, d, e, f, g, h", "epsilon": "0.5 %"}, 0.005),
        ({"type": "category", "values": TWENTY, "epsilon": "0.5 %"}, 0.005),
        ({"type": "number", "range": "0 1", "buckets": "0", "epsilon": "1 %"}, 0.01),
    ],
)
def test_an_error_in_per_cent_finds_the_epsilon_that_it_takes(
    answers: dict[str, Answered], at_most: float
) -> None:
    metric = metric_through({**CRASHES, "share": "5 %", **answers})
    law = metric_law(metric)
    assert law is not None
    share = 0.5 if metric.edges else 0.05
    assert at_most * 0.98 < law.error(share, 20_000) <= at_most * 1.0001


def test_an_error_that_no_epsilon_reaches_says_how_many_devices_would() -> None:
    told, _ = held({**CRASHES, **REMEMBERED, "epsilon": ["0.01 %", "1"]})
    assert "20,000 devices reach 0.01 % with no epsilon; at epsilon 1" in told.text


# Back and forth


def test_a_question_can_be_asked_once_more() -> None:
    told, found = held(
        {**CRASHES, "sensitivity": ["<", "census"], "question": ["Is it?", "Was it?"]}
    )
    assert told.asked.count("question") == 1  # one step back is to the owners
    assert told.asked.count("owners") == 2
    assert found["sensitivity"] == "census"


def test_back_across_the_verdict_finds_the_mechanism_anew() -> None:
    told, found = held(
        {**CRASHES, "type": "number", "range": "0 9", "buckets": "0", "epsilon": ["0.5", "2"]}
        | {"when_absent": ["<", ""], "devices": "100000"}
    )
    assert told.asked.count("epsilon") == told.asked.count("when_absent") == 2
    assert (found["epsilon"], found["mechanism"]) == (2, "one_bit_mean")
    assert "epsilon 0.5 by one_bit_mean" in told.text and "epsilon 2 by one_bit_mean" in told.text


def test_what_was_answered_after_a_question_that_is_asked_again_is_forgotten() -> None:
    answers: dict[str, Answered] = {"type": ["category", "boolean"], "catch_all": "<"}
    told, found = held({**CRASHES, **answers, "values": ["a, b", "<"]})
    assert told.asked.count("type") == told.asked.count("values") == 2
    assert found["type"] == "boolean" and "values" not in found


def test_nothing_is_before_the_first_question() -> None:
    told, _ = held({**CRASHES, "name": ["<", "crash_dialog"]})
    assert "This is the first question." in told.text


# Files


@pytest.fixture
def others(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_bytes(OTHERS.replace("\n", "\r\n").encode())
    return path


def test_an_entry_is_appended_and_every_other_byte_stays(others: Path) -> None:
    before = others.read_bytes()
    file = File.at(others)
    _, found = held({**CRASHES, "every": "4", "share": "9 %", "Write": "yes"}, file)
    assert others.read_bytes() == before
    file.write(found)
    assert others.read_bytes().startswith(before)
    assert list(load(others).metrics) == ["theme", "crash_dialog"]
    assert found["owners"] == ["stability-team@example.org"]
    assert not list(others.parent.glob(".unfinished*"))


def test_another_metric_is_never_overwritten(others: Path) -> None:
    told, found = held(
        {**CRASHES, "every": "4", "share": "9 %", "name": ["theme", "dialog"]}, File.at(others)
    )
    assert "the file has a metric theme, which stays as it is" in told.text
    assert found["name"] == "dialog"


def test_what_does_not_fit_into_the_lifetime_of_the_file_is_asked_again(others: Path) -> None:
    told, found = held({**CRASHES, "every": ["1", "2"], "share": "9 %"}, File.at(others))
    assert "must cover the shares of all metrics, which add up to 76" in told.text
    assert found["every"] == 2 and found["agreed"]


def test_what_does_not_fit_into_the_window_of_the_file_is_asked_again(others: Path) -> None:
    contact = 'contact = "telemetry@example.org"'
    window = f"{contact}\nwindow = {{ days = 7, epsilon = 4 }}"
    text = OTHERS.replace(contact, window, 1).replace("= 60", "= 1000")
    others.write_text(text)
    told, found = held({**CRASHES, "epoch": ["day", "week"], "every": "1"}, File.at(others))
    assert "project.window: must cover" in told.text
    assert (found["epoch"], found["agreed"]) == ("week", True)


def test_a_file_to_which_nothing_can_be_appended_is_refused_before_a_question(
    others: Path,
) -> None:
    head, _, body = OTHERS.partition("[metrics.theme]  # and so is this\n")
    inline = ", ".join(body.strip().splitlines())
    first, _, rest = head.partition("[project]")
    others.write_text(f"{first}metrics = {{ theme = {{ {inline} }} }}\n[project]{rest}")
    assert load(others)
    with pytest.raises(ValueError, match="must have its metrics as tables"):
        File.at(others)


def test_dates_at_the_end_of_time_are_refused_like_others() -> None:
    starts = ["9999-12-31", "9000-01-01", "2026-12-07"]
    answers: dict[str, Answered] = {**CRASHES, "starts": starts, "expires": ["<", ""]}
    told, found = held(answers)
    assert "expires> " in told.said  # no default beyond the last year
    assert told.asked.count("starts") == 3
    assert found["expires"].year == 2027


def test_a_file_that_changed_meanwhile_is_left_alone(others: Path, tmp_path: Path) -> None:
    answers = {
        **CRASHES,
        "every": "4",
        "share": "9 %",
        "project": "shop",
        "contact": "x@example.org",
    }
    for path in (others, tmp_path / "new.toml"):
        file = File.at(path)
        _, found = held(answers, file)
        path.write_text(OTHERS + "# edited\n")
        with pytest.raises(ValueError, match="meanwhile; nothing is written"):
            file.write(found)
        assert path.read_text() == OTHERS + "# edited\n"


def test_a_new_file_asks_for_its_project_and_covers_the_share(tmp_path: Path) -> None:
    file = File.at(tmp_path / "new.toml")
    answers = {**CRASHES, "project": "shop", "contact": "x@example.org", "owners": ""}
    told, found = held({**answers, "lifetime_epsilon": ["10", ""]}, file)
    assert "must cover the shares of all metrics, which add up to 52" in told.text
    registry = file.write(found)
    assert (registry.project, registry.lifetime_epsilon) == ("shop", 52)
    assert registry.metrics["crash_dialog"].owners == ("x@example.org",)


# Texts


@settings(max_examples=60, deadline=None)
@given(st.text(), st.lists(st.text()), st.decimals(-(10**9), 10**9), st.dates())
def test_what_is_written_is_read_back(
    text: str, texts: list[str], number: Decimal, day: date
) -> None:
    values = {"text": text, "texts": texts, "number": number, "day": day, "yes": True, "n": 3}
    lines = "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
    assert tomllib.loads(lines, parse_float=Decimal) == values


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1), st.text(st.characters(categories=("L", "N", "S", "Zs")), min_size=1))
def test_texts_that_people_type_reach_the_metric_or_are_refused(asked: str, label: str) -> None:
    answers = {**CRASHES, "question": [asked, "Which is it?"], "type": "category"}
    listed = [f'"{label.strip()}", other', "one, other"]
    told, found = held({**answers, "values": listed, "devices": "100000"})
    metric = alone(found, TODAY).metrics["crash_dialog"]
    wanted = asked.split("\n")[0].strip()
    refused = told.asked.count("question") > 1 or wanted in ("", "<") or '"' in wanted
    assert refused or metric.question == asked.strip()
    assert metric.labels in ((label.strip(), "other"), ("one", "other"))
    assert tomllib.loads(entry_of(found))["metrics"]["crash_dialog"]["values"]


def test_a_text_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(RegistryError, match="must be UTF-8"):
        toml("\ud800")


# The command


LINES = [
    "shop-app",
    "telemetry@example.org",
    "crash_dialog",
    "Has the crash dialog been seen? It decides what is fixed first.",
    "",
    "product",
    "boolean",
    "week",
    "no",
    "no",
    "20000",
    "4",
    "1",
    "5 %",
    "1.25",
    "no",
    "100",
    "",
    "",
    "40",
    "yes",
]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(lines: list[str], *arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        status = main(["plan", "--interactive", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run


def test_piped_answers_make_a_file_that_passes_check(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    status, out, err = run(LINES, "--write", path)
    assert status == 0 and not out
    assert f"Written to {path}." in err
    assert "epsilon [1]> 1.25\n" in err  # a pipe's answers are shown
    assert main(["check", str(path), "--strict"]) == 0


def test_without_a_file_the_entry_alone_goes_to_standard_output(run: Run) -> None:
    status, out, err = run([*LINES[2:4], "me", *LINES[5:-2]])
    assert status == 0
    assert tomllib.loads(out)["metrics"]["crash_dialog"]["every"] == 4
    assert "note: metrics.crash_dialog.owners: me is no address" in err
    assert "Of its file's lifetime_epsilon it takes" in err
    assert "project" not in out


def test_who_does_not_want_it_gets_nothing_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    status, out, err = run([*LINES[:-1], "no"], "--write", path)
    assert (status, out) == (1, "") and err.endswith("Nothing is written.\n")
    assert not path.exists()


def test_answers_that_end_too_soon_leave_nothing_behind(run: Run, tmp_path: Path) -> None:
    for kept in range(len(LINES)):
        status, out, err = run(LINES[:kept], "--write", tmp_path / "metrics.toml")
        assert (status, out) == (2, "")
        assert "the answers end before the questions do; nothing is written" in err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_leaves_the_file_as_it_was(others: Path) -> None:
    before = others.read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "sottovoce", "plan", "--interactive", "--write", str(others)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"crash_dialog\n")
        process.stdin.flush()
        said = b""
        while b"question>" not in said:
            byte = process.stderr.read(1)
            assert byte, said
            said += byte
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert out == b"" and err.strip() == b"Nothing is written."
    assert others.read_bytes() == before
    assert list(others.parent.iterdir()) == [others]


def test_other_options_do_not_go_with_the_interview(
    run: Run, capsys: pytest.CaptureFixture[str], others: Path
) -> None:
    assert run([], "--values", 3)[0] == 2
    status, _, err = run([], others)
    assert status == 2 and "leave out metrics" in err
    assert main(["plan", "--write", str(others)]) == 2
    assert "--write goes with --interactive" in capsys.readouterr().err
    assert run([], "--write", others.parent / "none" / "metrics.toml")[0] == 2
    others.write_text("schema = 2")
    assert "schema" in run([], "--write", others)[2]


def test_help_explains_the_interview() -> None:
    text = parser_for("plan").format_help()
    assert (
        "--interactive" in text
        and "in plain words" in text
        and "nothing is written" in (" ".join(text.split()).lower())
    )

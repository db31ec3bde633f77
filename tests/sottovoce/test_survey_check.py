"""`sottovoce survey check` as a gate: what it prints, what it notes, and its exit status."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from client_sdk.mechanisms import build
from client_sdk.survey import loads_survey
from client_sdk.survey.review import LINES_OF_A_PHONE, review_survey
from sottovoce.__main__ import main
from tests.registries import Date
from tests.surveys import Document, question, survey, toml

TODAY = datetime.now(UTC).date()
DATES = {
    "starts": Date(TODAY.isoformat()),
    "expires": Date((TODAY + timedelta(days=90)).isoformat()),
}
PAIR = {"prefer_not_to_answer": False}
Write = Callable[[Document], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(document: Document) -> str:
        path = tmp_path / "survey.toml"
        path.write_text(toml(document))
        return str(path)

    return write


def rules(*questions: Document, **keys: Any) -> dict[str, str]:
    """What the review finds, by rule."""
    found = review_survey(loads_survey(toml(survey(*questions, **DATES | keys))), TODAY)
    return {each.rule: f"{each.level}: {each}" for each in found}


def test_the_total_comes_first_as_one_number(write: Write, capsys: pytest.CaptureFixture) -> None:
    document = survey(question(deniability=True), question("b", "x", "y", "z"), **DATES)
    assert main(["survey", "check", write(document), "--strict"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("epsilon 2: ") and not err
    assert "58     21        yes, said" in out
    assert "48     17               no" in out
    assert "ever_late: the page may say so: of 100 people with another true answer 21.2 send" in out
    assert "b: the page must not say so: of 100 people with another true answer 17.5 send" in out


def test_json_holds_what_the_table_says(write: Write, capsys: pytest.CaptureFixture) -> None:
    document = survey(question(**PAIR), min_reports=400, **DATES)
    assert main(["survey", "check", write(document), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["epsilon"], found["most_epsilon"], found["errors"]) == (1, 100, [])
    (asked,) = found["questions"]
    assert asked["odds"] == {"kind": "cell", "kept": 73, "other": 27}
    assert (asked["deniable"], asked["deniability"]) == (True, False)
    assert [each["n"] for each in asked["standard_errors"]] == [400, 1000]
    # Warner 1965: p q / (n (p - q)^2), and at an even share 1/4 / (n (p - q)^2).
    channel = build("randomized_response", domain=2, epsilon="1")
    p, gap = float(channel.p_true), float(channel.p_true - channel.p_false)
    for each in asked["standard_errors"]:
        assert each["rare"] == pytest.approx(sqrt(p * (1 - p) / each["n"]) / gap)
        assert each["worst"] == pytest.approx(0.5 / sqrt(each["n"]) / gap, rel=1e-6)
    assert found["notes"] == [str(each) for each in found["notes"]] != []


def test_a_broken_rule_fails_with_key_rule_and_value(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    path = write(survey(question(epsilon=3, deniability=True), **DATES))
    assert main(["survey", "check", path]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: questions.ever_late.deniability: must be false: of people with")
    assert main(["survey", "check", path, "--json"]) == 1
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error in err


def test_a_file_that_cannot_be_read_fails(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["survey", "check", str(tmp_path / "none.toml")]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_notes_fail_only_strictly(write: Write, capsys: pytest.CaptureFixture) -> None:
    path = write(survey(question(epsilon=1.5), **DATES))
    assert main(["survey", "check", path]) == 0
    assert "note: questions.ever_late.epsilon: 1.5 is above" in capsys.readouterr().out
    assert main(["survey", "check", path, "--strict"]) == 1


def test_an_error_of_the_review_fails(write: Write, capsys: pytest.CaptureFixture) -> None:
    over = {"starts": Date("2020-01-01"), "expires": Date("2020-02-01")}
    assert main(["survey", "check", write(survey(**over))]) == 1
    assert "error: survey.expires: must lie ahead" in capsys.readouterr().err


def test_a_sound_survey_has_no_notes() -> None:
    assert rules(question()) == {}


@pytest.mark.parametrize(
    ("rule", "asked", "says"),
    [
        ("usual_epsilon", question(epsilon=0.05), "note: questions.ever_late.epsilon: 0.05 is bel"),
        ("prefer_not", question(**PAIR), "has to leave the whole survey"),
        ("total_epsilon", question(epsilon=6.1), "note: survey.most_epsilon: all questions"),
        ("odds", question(epsilon=9), "error: questions.ever_late.epsilon: 100 of 100"),
        ("phone", question(text={"en": "x" * 540, "ar": "x"}), "in en question and answers fill"),
        ("min_reports", question(epsilon=0.1), "answers have a standard error of 1"),
        ("mechanism", question("q", *(f"a{i}" for i in range(20))), "optimized_unary is more"),
    ],
)
def test_what_an_owner_should_look_at_is_noted(rule: str, asked: Document, says: str) -> None:
    assert says in rules(asked)[rule]


def test_odds_that_round_to_nobody_are_an_error() -> None:
    many = question("q", *(f"a{i}" for i in range(49)), epsilon=6, sensitivity="experiment")
    assert "0 of 100 people with another true answer" in rules(many)["odds"]


def test_a_phone_is_full_at_so_many_lines() -> None:
    # Each answer takes two lines, prefer not to answer is one, and the question has two.
    fits = (LINES_OF_A_PHONE - 2) // 2 - 1
    text = {"en": "x" * 72, "ar": "x"}
    names = [f"a{i}" for i in range(fits + 1)]
    keys = {"mechanism": "optimized_unary", "text": text}
    assert "phone" not in rules(question("q", *names[:fits], **keys))
    assert "phone" in rules(question("q", *names, **keys))


def test_unary_is_advised_from_where_it_is_clearly_more_exact() -> None:
    # 3 e + 2 = 10.2 answers are even at epsilon 1 (Wang et al. 2017, section 5).
    def noted(answers: int, **keys: Any) -> bool:
        names = (f"a{i}" for i in range(answers - 1))
        return "mechanism" in rules(question("q", *names, **keys))

    assert not noted(10) and noted(16)
    assert not noted(16, mechanism="optimized_unary")
    assert noted(4, mechanism="optimized_unary") and not noted(10, mechanism="optimized_unary")


def test_the_lint_works_without_the_server_parts(write: Write) -> None:
    blocked = "import sys\nfor name in ('numpy', 'scipy', 'flask', 'redis'):\n"
    blocked += "    sys.modules[name] = None\n"
    blocked += "from sottovoce.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    command = [sys.executable, "-c", blocked, "survey", "check", write(survey(**DATES)), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)["questions"][0]["standard_errors"]
    assert [each["worst"] for each in errors] == [None] * len(errors)
    assert all(each["rare"] > 0 for each in errors)

"""docs/surveys.md is executed: its file is read, its snippet runs, its figures are computed."""

import math
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from client_sdk.mechanisms import build
from client_sdk.survey import deniable, load_survey, loads_survey
from sottovoce.__main__ import main

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "surveys.md").read_text()
EXAMPLE = (ROOT / "examples" / "surveys" / "habits.toml").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)


def test_the_file_of_the_page_becomes_a_registry_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = blocks("A survey is one file", "toml")
    (tmp_path / "habits.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in blocks("A survey is one file", "python"):
        exec(compile(snippet, "surveys.md", "exec"), names)
    assert list(loads_survey(text).registry.metrics) == ["survey.habits.ever_late"]
    assert names["page"]["questions"][0]["definition"]["metric"] == "survey.habits.ever_late"


def test_every_key_of_the_file_is_on_the_page() -> None:
    folder = ROOT / "client_sdk" / "survey"
    source = "".join((folder / name).read_text() for name in ("head.py", "questions.py"))
    keys = set(re.findall(r"take_\w+\((?:\w+, )?\"(\w+)\"", source))
    assert len(keys) >= 14
    for key in keys:
        assert f"`{key}`" in section("A survey is one file"), key


def test_the_lint_says_of_the_example_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    today = datetime.now(UTC).date()  # the example is over one day, its figures are not
    days = {"2026-12-01": today, "2027-03-01": today + timedelta(days=90)}
    text = EXAMPLE
    for written, day in days.items():
        text = text.replace(written, f"{day}")
    (tmp_path / "habits.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    (shell,) = blocks("Lint", "sh")
    for line in shell.splitlines():
        assert main(shlex.split(line)[1:]) == 0
    printed = capsys.readouterr().out
    for written, day in days.items():
        printed = printed.replace(f"{day}", written)
    (shown,) = blocks("Lint", "text")
    assert printed == shown


def test_the_example_keeps_its_rules() -> None:
    assert load_survey(ROOT / "examples" / "surveys" / "habits.toml").epsilon == "4"


@pytest.mark.parametrize(
    ("mechanism", "answers", "most"),
    [
        ("randomized_response", 2, "1.386"),
        ("generalized_randomized_response", 3, "1.098"),
        ("generalized_randomized_response", 4, "0.693"),
        ("optimized_unary", 12, "1.386"),
        ("symmetric_unary", 12, "2.772"),
    ],
)
def test_the_page_knows_how_far_deniability_goes(mechanism: str, answers: int, most: str) -> None:
    assert most in section("Odds and the deniability sentence")
    assert deniable(build(mechanism, domain=answers, epsilon=most))
    beyond = f"{float(most) + 0.001:.3f}"
    assert not deniable(build(mechanism, domain=answers, epsilon=beyond))


def test_with_five_answers_no_epsilon_makes_the_plain_mechanism_deniable() -> None:
    for epsilon in ("0.001", "0.5"):
        assert not deniable(build("generalized_randomized_response", domain=5, epsilon=epsilon))


def test_the_odds_of_the_page_are_those_of_its_question() -> None:
    kept = math.e / (1 + math.e)
    assert f"about {100 * (1 - kept):.0f} send Yes" in PAGE

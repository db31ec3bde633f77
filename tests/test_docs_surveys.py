"""docs/surveys.md is executed: its file is read, its snippet runs, its figures are computed."""

import json
import math
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.catalogue import Catalogue
from aggregator.enrolment.limits import DEFAULT_LIMITS
from aggregator.keyring.first_keys import load_or_make as make
from aggregator.keyring.keys import Keys
from aggregator.machine.embedded import EmbeddedServer
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.survey.blind_signatures import EXPONENT, KEY_BITS
from aggregator.survey.endings import LOOK_SECONDS
from client_sdk.mechanisms import build
from client_sdk.survey import deniable, load_survey, loads_survey
from client_sdk.survey.compiled import MECHANISMS
from estimator import previews
from sottovoce.__main__ import main, parser_for
from sottovoce.surveys import serve
from tests.estimator.surveys import put, tally_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "surveys.md").read_text()
README = (ROOT / "README.md").read_text()
SHORT_WAY = ("new", "check", "serve", "results")
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


def test_the_plan_says_of_the_example_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "habits.toml").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    (plan,) = commands("How many answers")
    assert main(plan) == 0
    (shown,) = blocks("How many answers", "text")
    assert capsys.readouterr().out.partition("\n\n")[0] + "\n" == shown


def test_the_way_from_nothing_to_results_is_walked_by_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a new file on, and to an end that is tested with real processes elsewhere."""
    asked: list[object] = []
    monkeypatch.setattr(serve, "keep_running", lambda *each: asked.append(each[2]) or 0)
    monkeypatch.chdir(tmp_path)
    way = commands("From nothing to results")
    assert [act for _, act, *_ in way] == "new check plan serve results close export".split()
    for command in way[:4]:
        assert main(command) == 0
    assert asked == [Path("habits-data")]
    assert all("habits-data" in command for command in way[4:])
    for title in re.findall(r': "([A-Z][^"]+)"', section("From nothing to results")):
        assert section(title), title


def test_the_readme_shows_the_same_way() -> None:
    (shown,) = re.findall(r"```sh\n(sottovoce survey new .*?)```", README, re.DOTALL)
    lines = shown.splitlines()
    assert len(lines) <= 6
    assert [shlex.split(line)[1:] for line in lines] == [
        command for command in commands("From nothing to results") if command[1] in SHORT_WAY
    ]


def test_the_rehearsal_is_asked_beside_the_survey_and_not_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(serve, "keep_running", lambda *each: asked.append(each[2]) or 0)
    (command,) = commands("A rehearsal")
    assert main(command) == 0
    assert asked == [Path("rehearsal-data")]


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


# Serving it, results, checking in R


def served(directory: Path, text: str) -> Path:
    """Make what `sottovoce survey serve habits.toml` leaves when 812 people have answered."""
    data = directory / "habits-data"
    data.mkdir()
    make(data / "keys.json", datetime.now(UTC).date())
    survey = loads_survey(text)
    with EmbeddedServer.start(data / "store", appendfsync="no") as server:
        settings = ServerSettings(redis_url=server.url, keys_file=data / "keys.json")
        keys = Keys.load(settings.keys_file)
        store = Store.connect(settings, keys.pseudonym_key)
        store.migrate()
        store.check()
        Catalogue(store).register(survey.registry_text)
        store.close()
    shares = ([0.87, 0.13], [0.3, 0.6, 0.1], [0.1, 0.2, 0.3, 0.35, 0.05, 0.0, 0.0])
    at = datetime(2026, 12, 8, 9, 30, tzinfo=UTC).timestamp()
    for question, held in zip(survey.questions, shares, strict=True):
        put(data / "releases", question, tally_of(question, held, 812), taken_at=at)
    return data


def commands(title: str) -> list[list[str]]:
    lines = "".join(blocks(title, "sh")).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("sottovoce ")]


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "habits.toml").write_text(EXAMPLE)
    monkeypatch.setattr(previews, "renew", lambda *given: 0)  # nothing has come since
    return served(tmp_path, EXAMPLE)


def test_the_results_of_the_page_are_those_of_its_example(
    answered: Path, capsys: pytest.CaptureFixture
) -> None:
    table, as_json = commands("Results")
    assert main(table) == 0
    printed = capsys.readouterr().out
    (shown,) = blocks("Results", "text")
    assert printed.split("\n\n")[1] + "\n" == shown
    assert main(as_json) == 0
    found = json.loads(capsys.readouterr().out)["questions"]
    assert [each["release"]["n"] for each in found] == [812] * 3


def test_the_files_for_r_are_those_of_the_page(
    answered: Path, capsys: pytest.CaptureFixture
) -> None:
    (export,) = commands("Checking us in R")
    assert main(export) == 0
    written = {path.name for path in Path("for-r").iterdir()}
    named = {"design.csv", "expected.csv", "analysis.R"}
    questions = ("ever_late", "work_when_ill", "main_way")
    assert written == named | {f"responses_{name}.csv" for name in questions}
    for name in named:
        assert f"`{name}`" in section("Checking us in R")
    assert "cd for-r && Rscript analysis.R" in section("Checking us in R")


def test_the_page_serves_by_commands_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr(serve, "keep_running", lambda *each: given.append(each[2]) or 0)
    (command,) = commands("Serving it")
    assert main(command) == 0
    assert given == [Path("habits-data")]
    for inline in ("sottovoce up --metrics metrics.toml --survey habits.toml --data DIR",):
        assert f"`{inline}`" in section("Serving it")
        assert parser_for("up").parse_args(shlex.split(inline)[2:]).survey_files


@pytest.mark.parametrize("change", ["title", "expires", "most_epsilon", "text", "deniability"])
def test_what_may_be_changed_makes_no_other_version_of_a_question(change: str) -> None:
    before = {q.name: q.metric.fingerprint for q in loads_survey(EXAMPLE).questions}
    changed = {
        "title": EXAMPLE.replace("Habits at work", "Your habits at work"),
        "expires": EXAMPLE.replace("expires = 2027-03-01", "expires = 2027-04-01"),
        "most_epsilon": EXAMPLE.replace("most_epsilon = 4.0", "most_epsilon = 5.0"),
        "text": EXAMPLE.replace("Did you come late", "Have you come late"),
        "deniability": EXAMPLE.replace("deniability = true", "deniability = false", 1),
    }[change]
    assert changed != EXAMPLE
    assert {q.name: q.metric.fingerprint for q in loads_survey(changed).questions} == before


@pytest.mark.parametrize("change", ["epsilon", "mechanism", "answers", "order", "prefer_not"])
def test_what_makes_another_version_of_a_question_does(change: str) -> None:
    on_foot, bicycle = "answers.on_foot]", "answers.bicycle]"
    changed = {
        "epsilon": EXAMPLE.replace("epsilon = 2.0", "epsilon = 1.9"),
        "mechanism": EXAMPLE.replace(
            "epsilon = 2.0", 'epsilon = 2.0\nmechanism = "optimized_unary"'
        ),
        "answers": EXAMPLE.replace("answers.on_foot", "answers.walking"),
        "order": EXAMPLE.replace(on_foot, "@")
        .replace(bicycle, on_foot)
        .replace("questions.@", f"questions.{bicycle}"),
        "prefer_not": EXAMPLE.replace(
            "epsilon = 2.0", "epsilon = 2.0\nprefer_not_to_answer = false"
        ),
    }[change]
    before, after = (
        {q.name: q.metric.fingerprint for q in loads_survey(text).questions}
        for text in (EXAMPLE, changed)
    )
    assert before["main_way"] != after["main_way"]
    assert before["ever_late"] == after["ever_late"]


def test_the_figures_on_keys_and_limits_are_those_of_the_code() -> None:
    code = (ROOT / "client_sdk" / "web" / "blind_signatures.js").read_text()
    ((least_bits, most_bits),) = re.findall(r"MOST_BITS\] = \[(\d+), (\d+)\]", code)
    (power,) = re.findall(r"SMALL = 1n << (\d+)n", code)
    assert f"of {least_bits} to {most_bits} bits with the exponent {EXPONENT}." in PAGE
    assert f"refuses one with a factor below {2 ** int(power):,}." in PAGE
    # So many primes can a modulus have that are no smaller, and each divides 1 number in itself.
    shown = int(most_bits) // int(power) / 2 ** int(power)
    assert f"for at most {math.ceil(1000 * shown)} in 1,000 respondents" in PAGE
    assert f"one respondent in {EXPONENT:,}," in PAGE
    assert f"(RSA, {KEY_BITS} bits)" in PAGE
    assert f"{DEFAULT_LIMITS.network} an hour from one network" in PAGE
    assert LOOK_SECONDS == 10 and "ten seconds later its page says" in PAGE


def test_the_table_of_designs_names_every_mechanism_of_surveys() -> None:
    for mechanism in MECHANISMS:
        assert f"| `{mechanism}`" in section("Checking us in R"), mechanism

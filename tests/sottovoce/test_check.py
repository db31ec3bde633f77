"""`sottovoce check` as a gate: what it prints, its exit status, and the hook that runs it."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from client_sdk import load
from client_sdk.accounting import account
from client_sdk.mechanisms import build
from client_sdk.web_definition import definitions
from sottovoce.__main__ import main, parser_for
from tests.registries import Date, crashed, registry, theme

ROOT = Path(__file__).parents[2]
GOOD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 24
contact = "telemetry@example.org"
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "month"
when_absent = "other"
owners = ["ui-team@example.org"]
starts = 2026-11-01
expires = {expires}
"""
NOTED = GOOD.replace("ui-team@example.org", "the UI team")
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "metrics.toml", expires: str = "2028-10-31") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("{expires}", expires))
        return str(path)

    return write


def test_a_good_file_passes_even_strictly(write: Write, capsys: pytest.CaptureFixture) -> None:
    assert main(["check", write(GOOD), "--strict"]) == 0
    out, err = capsys.readouterr()
    assert "reserve 24 of 24 lifetime epsilon, at most 13 of it in one year" in out
    assert "note" not in out and not err


def test_notes_fail_only_strictly(write: Write, capsys: pytest.CaptureFixture) -> None:
    assert main(["check", write(NOTED)]) == 0
    assert "note: metrics.theme.owners: the UI team is no address" in capsys.readouterr().out
    assert main(["check", write(NOTED), "--strict"]) == 1


def test_an_error_fails_and_goes_to_standard_error(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    assert main(["check", write(GOOD, expires="2026-11-15")]) == 1
    assert "error: metrics.theme.expires" in capsys.readouterr().err


def test_a_broken_rule_is_another_status(write: Write, capsys: pytest.CaptureFixture) -> None:
    assert main(["check", write(GOOD.replace('catch_all = "other"', 'catch_all = "none"'))]) == 2
    assert "metrics.theme.catch_all: must be one of values" in capsys.readouterr().err


def test_changes_against_an_older_file_are_told(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    old = write(GOOD, "old.toml")
    assert main(["check", write(GOOD), "--against", old, "--strict"]) == 0
    more = write(GOOD.replace('"dark", ', '"dark", "blue", '))
    assert main(["check", more, "--against", old]) == 0
    assert "note: metrics.theme: values added (blue): a new channel" in capsys.readouterr().out
    assert main(["check", more, "--against", old, "--strict"]) == 1
    raised = write(GOOD.replace("lifetime_epsilon = 24", "lifetime_epsilon = 25"))
    assert main(["check", raised, "--against", old]) == 1
    assert "error: project.lifetime_epsilon: raised from 24 to 25" in capsys.readouterr().err


def test_an_older_file_that_breaks_a_rule_is_named(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    assert main(["check", write(GOOD), "--against", write("schema = 7", "old.toml")]) == 2
    assert "schema" in capsys.readouterr().err


def test_findings_are_there_for_programs(write: Write, capsys: pytest.CaptureFixture) -> None:
    assert main(["check", write(NOTED), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (finding,) = document["findings"]
    assert finding["level"] == "note" and finding["rule"] == "owners"
    assert finding["key"] == "metrics.theme.owners"
    assert document["notes"] == [f"{finding['key']}: {finding['text']} [owners]"]
    assert document["yearly_epsilon"] == 13


def test_several_files_are_checked_and_the_worst_counts(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    good, bad = write(GOOD), write(GOOD, "b/metrics.toml", expires="2026-11-15")
    assert main(["check", good, bad]) == 1
    capsys.readouterr()
    assert main(["check", good, bad, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert main(["check", good, bad, "--against", good]) == 2
    assert "--against compares one file, got 2" in capsys.readouterr().err


def test_what_a_life_reveals_together_is_said_beside_what_is_enforced(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    text = registry(
        crashed(epsilon=0.1, epoch="day", starts=Date("2026-11-01"), expires=Date("2027-11-01")),
        theme(epoch="month"),
        "memoize = { epsilon_permanent = 2.0, distinct_values = 3 }",
    )
    path = write(text)
    assert main(["check", path, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    daily, kept = document["metrics"]
    exact = account([(build("randomized_response", domain=2, epsilon="0.1"), 365)])
    assert daily["share"] == daily["composed"]["enforced"] == 36.5
    assert daily["composed"] == {
        "enforced": 36.5,
        "remembered": 0,
        "epsilon": exact.epsilon,
        "delta": 1e-6,
        "rule": "loss distribution",
    }
    # Remembered answers enter no rule: their reservation is added as it is.
    assert kept["composed"] is None and kept["shuffled"] is None
    assert document["composed"]["enforced"] == 42.5 and document["composed"]["remembered"] == 6
    assert document["composed"]["epsilon"] == pytest.approx(6 + exact.epsilon)
    assert daily["shuffled"]["epsilon"] < 0.1 and len(daily["shuffled"]["assumptions"]) == 5
    assert main(["check", path, "--explain"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    # Exactly 10.31386, and a bound is rounded up.
    assert "36.5 10.314" in shown and 10.313 < exact.epsilon < 10.314
    assert (
        "All reports of a life cost 42.5, which is enforced. Together they reveal at most "
        "16.314 (6 of it remembered) at delta 1e-06, by loss distribution; never enforced."
    ) in shown


def test_no_figure_of_a_shuffled_batch_is_given_where_the_theorem_says_nothing(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    path = write(registry(crashed(epsilon=5.0, epoch="once")))
    assert main(["check", path, "--json"]) == 0
    (crash,) = json.loads(capsys.readouterr().out)["metrics"]
    assert crash["shuffled"] is None and crash["composed"]["epsilon"] <= 5


def test_the_exit_statuses_are_documented() -> None:
    text = " ".join(parser_for("check").format_help().split())
    for status in ("0: good", "1: an error, or with --strict a note", "2: a rule is broken"):
        assert status in text


def hooks() -> list[dict[str, str]]:
    """What .pre-commit-hooks.yaml says, in the small part of YAML that it uses: no nesting."""
    found: list[dict[str, str]] = []
    for line in (ROOT / ".pre-commit-hooks.yaml").read_text().splitlines():
        if line.startswith("#"):
            continue
        entry = re.fullmatch(r"(- |  )([a-z_]+): (.+)", line)
        assert entry, line
        if entry[1] == "- ":
            found.append({})
        found[-1][entry[2]] = entry[3]
    return found


def test_the_pre_commit_hook_runs_the_check(write: Write, capsys: pytest.CaptureFixture) -> None:
    (hook,) = hooks()
    assert (hook["id"], hook["language"]) == ("sottovoce-check", "python")
    program, *arguments = shlex.split(hook["entry"])
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts[program] == "sottovoce.__main__:main"
    # pre-commit appends the names of all files that a commit touches.
    assert main([*arguments, write(GOOD), write(GOOD, "b/metrics.toml")]) == 0
    assert main([*arguments, write(GOOD, expires="2026-11-15")]) == 1


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        ("metrics.toml", True),
        ("app/metrics.toml", True),
        ("demo_metrics.toml", False),
        ("metrics.toml.orig", False),
    ],
)
def test_the_pre_commit_hook_takes_every_metrics_toml(path: str, matches: bool) -> None:
    (hook,) = hooks()
    assert bool(re.search(hook["files"], path)) == matches


def test_a_broken_file_is_named_whichever_of_the_two_it_is(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    good, broken = write(GOOD), write("", "broken.toml")
    for arguments in ([good, "--against", broken], [broken, "--against", good], [good, broken]):
        assert main(["check", *arguments]) == 2
        assert f"{broken}: schema: is required" in capsys.readouterr().err


def test_what_many_reports_of_a_remembered_value_lose_is_said(
    write: Write, capsys: pytest.CaptureFixture
) -> None:
    """Reference 10.3, L-GRR at epsilon 0.5 of 4 over 100 values: 1.2335 for two, more than 2 x 0.5,
    and 3.9127 for seven."""
    values = ", ".join(f'"{number}"' for number in range(99))
    memory = "memoize = { epsilon_permanent = 4.0, distinct_values = 2 }\n"
    text = GOOD.replace('"light", "dark"', values).replace("epsilon = 1.0\n", "epsilon = 0.5\n")
    chosen = memory + 'mechanism = "generalized_randomized_response"\nepoch'
    assert main(["check", write(text.replace("epoch", chosen, 1)), "--json"]) == 0
    (metric,) = json.loads(capsys.readouterr().out)["metrics"]
    assert metric["mechanism"] == "memoized_generalized_randomized_response"
    assert list(metric["epsilon_of_reports"]) == ["1", "7", "30"]
    assert metric["epsilon_of_reports"]["1"] == metric["epsilon"] == pytest.approx(0.5)
    assert metric["epsilon_of_reports"]["7"] == pytest.approx(3.912684, abs=1e-6)
    assert metric["epsilon_of_reports"]["30"] <= metric["epsilon_permanent"]
    assert main(["check", write(GOOD), "--json"]) == 0
    assert "epsilon_of_reports" not in json.loads(capsys.readouterr().out)["metrics"][0]


def test_what_a_web_app_needs_is_written_unless_there_is_an_error(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "metrics.json"
    plain = GOOD.replace('when_absent = "other"\n', "")
    assert main(["check", write(plain), "--web", str(out)]) == 0
    assert json.loads(out.read_text()) == definitions(load(tmp_path / "metrics.toml"))
    out.unlink()
    assert main(["check", write(NOTED.replace('when_absent = "other"\n', "")), "--strict"]) == 1
    assert main(["check", str(tmp_path / "metrics.toml"), "--strict", "--web", str(out)]) == 1
    assert main(["check", write(GOOD), "--web", str(out)]) == 2
    assert "metrics.theme: when_absent must be left out" in capsys.readouterr().err
    assert main(["check", write(plain), write(plain), "--web", str(out)]) == 2
    assert "--web writes one file, got 2" in capsys.readouterr().err
    assert not out.exists()

"""`sottovoce releases`: what people see of what was published."""

import json
from pathlib import Path

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.registry import loads
from estimator.estimate import estimate
from estimator.releases.failures import note
from estimator.releases.files import write
from estimator.releases.release import compose
from sottovoce.__main__ import main

THEME = loads(
    """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-11-02
expires = 2027-12-31
"""
).metrics["theme"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two published weeks and one that is withheld."""
    for week, counts in (("W48", (6, 3, 3)), ("W49", (3, 6, 3)), ("W50", (0, 0, 0))):
        epoch = parse("week", f"2026-{week}")
        tally = Tally(np.array([1000 * sum(counts)]), 1000 * np.array([counts]))
        write(
            compose(THEME, "shop-app", epoch, estimate(THEME, tally), now=1_796_600_000.0), tmp_path
        )
    return tmp_path


def test_a_change_is_printed_with_its_error_and_as_json(folder, capsys) -> None:
    where = ["--releases", str(folder)]
    assert main(["releases", "theme", *where, "--change", "2026-W48", "2026-W49"]) == 0
    shown = capsys.readouterr().out
    assert "change of 2026-W48, 2026-W49" in shown and "changed" in shown and "yes" in shown
    assert main(["releases", "theme", *where, "--json", "--change", "2026-W48", "2026-W49"]) == 0
    document = json.loads(capsys.readouterr().out)
    light, dark, _ = document["estimates"]
    assert light["share"] == pytest.approx(-dark["share"]) and light["share"] < -0.5
    assert light["significant"] and document["n"] == [12000, 12000]


def test_an_average_is_printed(folder, capsys) -> None:
    where = ["--releases", str(folder)]
    assert main(["releases", "theme", *where, "--average", "2026-W48", "2026-W49"]) == 0
    shown = capsys.readouterr().out
    assert "average of" in shown and "changed" not in shown and "full overlap" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["theme", "--change", "2026-W48", "2026-W50"], "2026-W50: is withheld"),
        (["theme", "--change", "2026-W47", "2026-W48"], "has no release of 2026-W47"),
        (["--average", "2026-W48"], "take METRIC before them"),
        (["theme", "2026-W48", "--average", "2026-W48"], "take METRIC before them"),
    ],
)
def test_what_cannot_be_combined_is_named(folder, capsys, arguments, message) -> None:
    assert main(["releases", "--releases", str(folder), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_schema_is_printed(capsys) -> None:
    assert main(["releases", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Release"


def test_what_failed_is_listed_first_until_it_succeeds(folder, capsys) -> None:
    where = ["releases", "--releases", str(folder)]
    note(folder, "theme", "2026-W51", [("", "could not be closed: shard 3 is away")], 0.0)
    note(folder, "theme", "2026-W51", [("", "could not be closed: shard 3 is away")], 60.0)
    assert main(where) == 0
    shown = capsys.readouterr().out
    assert shown.index("2026-W51  FAILED") < shown.index("2026-W48  PUBLISHED")
    assert "FAILED theme 2026-W51, 2 tries: could not be closed: shard 3 is away" in shown
    assert main([*where, "other"]) == 1
    assert "FAILED" not in capsys.readouterr().out
    note(folder, "theme", "2026-W51", [], 120.0)
    main(where)
    assert "FAILED" not in capsys.readouterr().out

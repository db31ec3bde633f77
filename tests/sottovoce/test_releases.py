"""`sottovoce releases`: what people see of what was published."""

import json
from pathlib import Path

import numpy as np
import pytest

from aggregator.keyring.keys import Keys
from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.registry import loads
from estimator.estimate import estimate
from estimator.releases.failures import note
from estimator.releases.files import write
from estimator.releases.release import compose
from estimator.releases.signatures import write_public_keys
from sottovoce.__main__ import main
from tests.registries import registry, theme

REGISTRY = registry(theme(), lifetime=100)
THEME = loads(REGISTRY).metrics["theme"]


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


def test_a_smoothed_series_is_labelled_as_such(folder, capsys) -> None:
    where = ["--releases", str(folder)]
    assert main(["releases", "theme", *where, "--smoothed"]) == 0
    shown = capsys.readouterr().out
    assert "smoothed over up to 3 epochs: not the releases themselves" in shown
    assert main(["releases", "theme", *where, "--smoothed", "3", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)
    assert [point["epoch"] for point in points] == ["2026-W48", "2026-W49"]  # W50 is withheld
    assert all(point["smoothed"] and len(point["epochs"]) == 2 for point in points)
    assert main(["releases", "theme", *where, "--smoothed", "2"]) == 2
    assert "odd and positive" in capsys.readouterr().err
    assert main(["releases", *where, "--smoothed"]) == 2


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
    assert main([*where, "theme", "2026-W51"]) == 1
    assert "FAILED theme 2026-W51" in capsys.readouterr().out
    note(folder, "theme", "2026-W51", [], 120.0)
    main(where)
    assert "FAILED" not in capsys.readouterr().out


@pytest.mark.parametrize("named", [["nosuch"], ["theme", "2026-W01"], ["verify", "nosuch"]])
def test_a_release_that_is_not_there_is_named_and_not_shown_as_an_empty_table(
    folder, capsys, named
) -> None:
    assert main(["releases", *named, "--releases", str(folder)]) != 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no such release; `sottovoce releases` lists them" in printed.err


def test_an_empty_directory_is_said_to_be_empty(tmp_path, capsys) -> None:
    assert main(["releases", "--releases", str(tmp_path)]) == 1
    assert capsys.readouterr() == ("", "Nothing is released yet.\n")


def test_verifying_without_any_keys_says_where_they_were_looked_for(
    folder, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(folder / "keys.json"))
    assert main(["releases", "verify", "--releases", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "no public keys to verify with" in told and "--keys" in told and "Errno" not in told
    missing = str(folder / "none.json")
    assert main(["releases", "verify", "--keys", missing, "--releases", str(folder)]) == 2
    assert f"{missing} does not exist" in capsys.readouterr().err


def test_one_metric_is_verified_alone_and_it_is_said_what_is_checked(
    folder, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(folder / "none.json"))
    signing = Keys.load_or_create(folder / "keys.json").signing
    write_public_keys(folder, signing.public)
    other = loads(REGISTRY.replace("metrics.theme", "metrics.other")).metrics["other"]
    tally = Tally(np.array([12000]), 1000 * np.array([[6, 3, 3]]))
    epoch = parse("week", "2026-W48")
    release = compose(other, "shop-app", epoch, estimate(other, tally), now=1_796_600_000.0)
    write(release, folder, signing)
    assert main(["releases", "verify", "other", "--releases", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "1 releases, all good" in told
    assert "Not checked: pages and pictures" in told
    assert main(["releases", "verify", "theme", "--releases", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "3 releases, 3 problems" in told and "other" not in told
    assert main(["releases", "verify", "theme", "--csv", "-", "--releases", str(folder)]) == 2

"""`sottovoce keys`: lists, rotates and retires, and never shows a secret key."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.keys import Keys
from client_sdk import loads
from sottovoce.__main__ import main

REGISTRY = """
schema = 1
[project]
{seal}
name = "shop-app"
lifetime_epsilon = 12
contact = "telemetry@example.org"
[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
starts = 2026-01-01
expires = 2100-01-01
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "keys.json"
    Keys.load_or_create(made)
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(made))
    return made


def listed(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    capsys.readouterr()
    assert main(["keys", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["keys"]
    return [(entry["ring"], entry["id"], entry["state"]) for entry in entries]


def secrets_of(path: Path) -> list[str]:
    document = json.loads(path.read_text())
    held = [entry["key"] for entry in document["master_keys"]]
    held += [entry["private"] for entry in document["sealing_keys"] if entry["private"]]
    return [*held, document["pseudonym_key"], document["write_key"]]


def test_the_line_that_rotation_prints_fits_metrics_toml(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "rotate", "sealing"]) == 0
    (line,) = re.findall(r"^seal = .*$", capsys.readouterr().out, re.MULTILINE)
    registry = loads(REGISTRY.format(seal=line))
    assert registry.seal == Keys.load(path).opening_keys[0].public


def test_a_life_of_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys) == [("master", "1", "signs")]
    for arguments in (
        ["rotate", "sealing"],
        ["rotate", "sealing", "--pending"],
        ["activate", "2"],
        ["rotate", "master"],
        ["retire", "1"],
    ):
        assert main(["keys", *arguments]) == 0
    assert listed(capsys) == [
        ("master", "1", "verifies"),
        ("master", "2", "signs"),
        ("sealing", "1", "retired"),
        ("sealing", "2", "active"),
    ]


def test_a_pending_key_is_not_to_be_shipped_yet(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "rotate", "sealing", "--pending"]) == 0
    told = capsys.readouterr().out
    assert "seal = " not in told and "keys activate 1" in told
    assert main(["keys", "activate", "1"]) == 0
    assert "seal = { key = 1" in capsys.readouterr().out


def test_no_output_holds_a_secret(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = secrets_of(path)
    for arguments in (
        ["rotate", "sealing"],
        ["rotate", "master"],
        ["rotate", "sealing", "--pending"],
        ["activate", "2"],
        [],
        ["--json"],
        ["retire", "1"],
        ["retire", "1"],
    ):
        main(["keys", *arguments])
        held += secrets_of(path)
    told = "".join(capsys.readouterr())
    assert "retired already" in told
    assert not any(secret in told for secret in held)


def test_ages_are_days_and_unknown_for_keys_of_old_files(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["keys", "rotate", "master"])
    document = json.loads(path.read_text())
    document["master_keys"][1]["created"] = "2020-01-01"
    path.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["keys"]) == 0
    rows = capsys.readouterr().out.splitlines()
    days = (datetime.now(UTC).date() - datetime(2020, 1, 1).date()).days
    assert "unknown" in rows[2] and str(days) in rows[3]
    assert "no sealing key" in rows[4]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["retire", "1"], "must have a sealing key 1, it has none"),
        (["activate", "7"], "must have a sealing key 7, it has none"),
        (["rotate", "master", "--pending"], "for sealing keys"),
        (["--data", "nowhere"], "must be readable"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_changed(
    path: Path, arguments: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = path.read_bytes()
    assert main(["keys", *arguments]) == 2
    assert rule in capsys.readouterr().err
    assert path.read_bytes() == before


def test_data_names_the_directory_of_up(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--data", str(path.parent), "rotate", "sealing"]) == 0
    assert len(Keys.load(path).opening_keys) == 1

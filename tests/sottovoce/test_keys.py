"""`sottovoce keys`: lists, rotates and retires, and never shows a secret key."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.keyring.keys import Keys
from client_sdk import loads
from sottovoce.__main__ import main
from tests.registries import Date, crashed, registry

REGISTRY = registry(
    crashed(epoch="once", starts=Date("2026-01-01"), expires=Date("2100-01-01")),
    lifetime=12,
    head="{seal}",
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "keys.json"
    Keys.load_or_create(made)
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(made))
    return made


def listed(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int, str]]:
    capsys.readouterr()
    assert main(["keys", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["keys"]
    return [(entry["kind"], entry["id"], entry["state"]) for entry in entries]


def secrets_of(path: Path) -> list[str]:
    document = json.loads(path.read_text())
    rings = [ring for name, ring in document.items() if name.endswith("_keys")]
    held = [entry["secret"] for ring in rings for entry in ring if entry["secret"]]
    return [*held, document["pseudonym_key"]]


def test_the_line_that_rotation_prints_fits_metrics_toml(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "rotate", "sealing"]) == 0
    (line,) = re.findall(r"^seal = .*$", capsys.readouterr().out, re.MULTILINE)
    registry = loads(REGISTRY.format(seal=line))
    assert registry.seal == Keys.load(path).sealing_keys[0].public


def test_a_life_of_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = [("master", 1, "active"), ("write", 1, "active"), ("signing", 1, "active")]
    assert listed(capsys) == fresh
    for kind in ("master", "write", "sealing", "signing"):
        for arguments in (["rotate", kind], ["new", kind]):
            assert main(["keys", *arguments]) == 0
        (pending,) = [n for name, n, state in listed(capsys) if (name, state) == (kind, "pending")]
        assert main(["keys", "activate", kind, str(pending)]) == 0
        assert main(["keys", "retire", kind, "1"]) == 0
    assert main(["keys", "new", "read", "--label", "Ana at HQ"]) == 0
    assert main(["keys", "new", "read", "--label", "grafana"]) == 0
    assert main(["keys", "retire", "read", "1"]) == 0
    assert listed(capsys) == [
        ("master", 1, "retired"),
        ("master", 2, "retiring"),
        ("master", 3, "active"),
        ("write", 1, "retired"),
        ("write", 2, "retiring"),
        ("write", 3, "active"),
        ("sealing", 1, "retired"),
        ("sealing", 2, "active"),
        ("signing", 1, "retired"),
        ("signing", 2, "retiring"),
        ("signing", 3, "active"),
        ("read", 1, "retired"),
        ("read", 2, "active"),
    ]


def test_a_pending_key_is_not_to_be_shipped_yet(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "sealing"]) == 0
    told = capsys.readouterr().out
    assert "seal = " not in told and "keys activate sealing 1" in told
    assert main(["keys", "activate", "sealing", "1"]) == 0
    assert "seal = { key = 1" in capsys.readouterr().out


def test_the_text_of_a_read_key_is_shown_once_and_stored_nowhere(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "read", "--label", "ana", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["label"] == "ana" and made["state"] == "active"
    keys = Keys.load(path)
    assert keys.reader(made["text"]) and not keys.reader(made["text"] + "x")
    assert made["text"] not in path.read_text()
    assert main(["keys", "retire", "read", "1"]) == 0
    assert not Keys.load(path).reader(made["text"])


def test_a_new_write_key_is_shown_and_the_old_one_enrols_until_it_is_retired(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Keys.load(path).write_key
    assert main(["keys", "rotate", "write", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["text"]
    keys = Keys.load(path)
    assert shown == keys.write_key != old and keys.may_enrol(old) and keys.may_enrol(shown)
    assert main(["keys", "retire", "write", "1"]) == 0
    assert not Keys.load(path).may_enrol(old) and Keys.load(path).may_enrol(shown)


def test_no_output_holds_a_secret(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = secrets_of(path)
    for arguments in (
        ["rotate", "sealing"],
        ["rotate", "master"],
        ["rotate", "signing"],
        ["new", "sealing"],
        ["activate", "sealing", "2"],
        [],
        ["--json"],
        ["list"],
        ["retire", "sealing", "1"],
        ["retire", "sealing", "1"],
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
    document["master_keys"][0]["created"] = None
    document["master_keys"][1]["created"] = "2020-01-01"
    path.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["keys"]) == 0
    rows = capsys.readouterr().out.splitlines()
    days = (datetime.now(UTC).date() - datetime(2020, 1, 1).date()).days
    assert "unknown" in rows[2] and str(days) in rows[3]
    assert "no sealing key" in rows[6]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["retire", "sealing", "1"], "must have a sealing key 1, it has none"),
        (["activate", "sealing", "7"], "must have a sealing key 7, it has none"),
        (["activate", "master", "1"], "make another (sottovoce keys new master)"),
        (["retire", "master", "1"], "make another first (sottovoce keys rotate master)"),
        (["rotate", "read"], "sottovoce keys new read --label WHO"),
        (["new", "read"], "a label must match"),
        (["new", "master", "--label", "me"], "for read keys"),
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
    assert len(Keys.load(path).sealing_keys) == 1


def test_init_makes_a_key_file_once_and_logs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "new" / "keys.json"
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(made))
    assert main(["keys", "init"]) == 2  # the folder is the operator's to choose
    made.parent.mkdir()
    assert main(["keys", "init"]) == 0
    keys = Keys.load(made)
    shown = capsys.readouterr().out
    assert keys.write_key in shown
    assert not any(secret in shown for secret in secrets_of(made) if secret != keys.write_key)
    before = made.read_bytes()
    assert main(["keys", "init", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"made": False}
    assert made.read_bytes() == before
    assert main(["log", "list", "--json"]) == 0
    acts = [entry["act"] for entry in json.loads(capsys.readouterr().out)["entries"]]
    assert acts == ["log_begun", "keys_made"]
    made.write_text("{")
    assert main(["keys", "init"]) == 2
    assert made.read_text() == "{"

"""`sottovoce survey invite`: links are written once, to their owner only, and each admits one."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.administration.admin_log import AdminLog
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from sottovoce.__main__ import main
from tests.aggregator.respondents import survey_text

LINK = re.compile(r"https://s\.example/s/habits#i=([0-9a-f]{32})&k=([0-9a-f]{64})")


@pytest.fixture
def folder(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server's folder with two surveys, as the current directory."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(tmp_path / "keys.json"))
    Keys.load_or_create(tmp_path / "keys.json")
    today = datetime.now(UTC).date()
    for admission in ("invitation", "open"):
        text = survey_text(admission, today, today + timedelta(days=30))
        (tmp_path / f"{admission}.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invited(*arguments: str) -> int:
    return main(["survey", "invite", "invitation.toml", *arguments])


def test_links_go_to_a_file_of_their_owner_and_nowhere_else(
    folder: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--count", "1200", "--url", "https://s.example", "--out", "links.csv"]
    assert invited(*options) == 0
    told = capsys.readouterr()
    assert told.out == "" and "habits: 1200 made, 0 used, 1200 unused" in told.err
    head, *lines = (folder / "links.csv").read_text().splitlines()
    tokens = {match[1] for line in lines if (match := LINK.fullmatch(line))}
    assert head == "link" and len(tokens) == 1200
    assert (folder / "links.csv").stat().st_mode & 0o777 == 0o600
    assert not any(token in told.err for token in tokens)
    # Whoever does the same again overwrites nothing, and makes nothing.
    assert invited(*options) == 2
    assert "must name a new file" in capsys.readouterr().err
    assert invited("--status") == 0
    assert "1200 made" in capsys.readouterr().err
    keys = Keys.load(folder / "keys.json")
    store = Store.connect(ServerSettings(redis_url=redis_url), keys.pseudonym_key)
    assert store.invitations.use("habits", tokens.pop(), "00") == "admitted"
    store.close()
    log = AdminLog.beside(folder / "keys.json", keys.pseudonym_key).path.read_text()
    (entry,) = [json.loads(line) for line in log.splitlines() if "invitations_made" in line]
    assert entry["details"] == {"survey": "habits", "count": 1200}


def test_links_are_printed_and_can_be_taken_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invited("--count", "3", "--url", "https://s.example/") == 0
    told = capsys.readouterr()
    (key,) = re.findall(r"Its key is ([0-9a-f]{64})", told.err)
    links = LINK.findall(told.out)
    assert len(links) == 3 == len(told.out.splitlines())
    assert {named for _, named in links} == {key}
    assert invited("--forget") == 0
    assert "3 made, 0 used, 0 unused, 3 forgotten" in capsys.readouterr().err
    assert invited("--count", "1", "--url", "http://127.0.0.1:9/") == 0
    told = capsys.readouterr()
    assert f"Its key is {key}" in told.err
    assert told.out.startswith("http://127.0.0.1:9/s/habits#")
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    (folder / "invitation.toml").write_text(survey_text("invitation", yesterday, yesterday))
    assert invited("--count", "1", "--url", "http://127.0.0.1:9") == 2
    assert "must not be over" in capsys.readouterr().err
    assert invited("--forget") == 0
    told = capsys.readouterr()
    assert "4 made, 0 used, 0 unused, 4 forgotten" in told.err and "Its key" not in told.err


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--count", "0"], "--count must lie in 1..1000000"),
        (["--count", "1000001"], "--count must lie in 1..1000000"),
        (["--count", "1", "--url", "s.example"], "--url must begin with https://"),
        (["--count", "1"], "--url must say with --count where respondents find the survey"),
        (["--status", "--out", "links.csv"], "--url and --out go with --count"),
        (["--forget", "--url", "https://s.example"], "--url and --out go with --count"),
        (["--count", "1", "--url", "https://s.example", "--data", "."], None),
    ],
)
def test_what_cannot_be_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], rule: str | None
) -> None:
    if rule is None:
        (folder / "keys.json").unlink()
        rule = "--data must be the directory of `sottovoce up`"
    assert invited(*arguments) == 2
    assert rule in capsys.readouterr().err


def test_nobody_is_invited_to_what_is_open(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["survey", "invite", "open.toml", "--count", "1"]) == 2
    assert 'must have admission = "invitation"' in capsys.readouterr().err

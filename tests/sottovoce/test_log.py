"""`sottovoce log`: lists and verifies what administrators did."""

import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aggregator.administration.admin_log import FILE_NAME, AdminLog
from aggregator.catalogue import Catalogue
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from sottovoce.__main__ import main


@dataclass
class Place:
    """A key file with a store, as the environment names them."""

    log: Path
    keys: Path


@pytest.fixture
def place(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    keys = tmp_path / "keys.json"
    Keys.load_or_create(keys)
    monkeypatch.setenv("SOTTOVOCE_KEYS_FILE", str(keys))
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("SOTTOVOCE_PLANNED_DEVICES", "8192")
    yield Place(tmp_path / FILE_NAME, keys)


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["log", "verify", *arguments])
    return status, capsys.readouterr().out


def test_acts_are_listed_with_who_and_when(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "rotate", "master"]) == 0
    assert main(["keys", "retire", "master", "1"]) == 0
    capsys.readouterr()
    assert main(["log", "list"]) == 0
    begun, made, retired = capsys.readouterr().out.splitlines()
    assert "log_begun" in begun and "key_made" in made
    assert retired.endswith("key_retired  id: 1, kind: master")
    assert re.search(rf" \S+@{re.escape(socket.gethostname())} ", retired)
    assert main(["log", "list", "--last", "1", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["act"] == "key_retired" and entry["sequence"] == 3


def test_keys_tell_the_store_how_far_the_log_has_come(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["keys", "rotate", "master"]) == 0
    status, told = verified(capsys)
    assert status == 0 and "3 entries, each as it was written" in told and "note" not in told
    place.log.write_bytes(b"".join(place.log.read_bytes().splitlines(keepends=True)[:-1]))
    status, told = verified(capsys)
    assert status == 1 and "PROBLEM  the store has seen entry 3" in told


def test_a_noted_head_is_compared(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "rotate", "master"]) == 0
    _, told = verified(capsys, "--json")
    head = json.loads(told)["head"]
    assert main(["keys", "rotate", "master"]) == 0
    assert verified(capsys, "--head", head)[0] == 0
    other = head[:-1] + ("0" if head[-1] != "0" else "1")
    status, told = verified(capsys, "--head", other, "--json")
    assert status == 1 and json.loads(told)["problems"] == ["entry 2 is not the one that was noted"]
    assert main(["log", "verify", "--head", "7"]) == 2


def test_without_a_store_it_says_what_it_cannot_find(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL")
    assert main(["keys", "rotate", "master"]) == 0
    status, told = verified(capsys)
    assert status == 0 and "not compared with the store" in told


def test_a_key_is_changed_also_while_the_store_is_down(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    assert main(["keys", "rotate", "master"]) == 0
    assert "has not been told" in capsys.readouterr().err
    assert len(Keys.load(place.keys).master_keys) == 2


def test_an_empty_log_is_said(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "list"]) == 0
    assert "empty" in capsys.readouterr().out
    status, told = verified(capsys)
    assert status == 0 and "there is no log yet" in told


def test_folding_goes_on_with_a_log_that_cannot_be_read(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.log.mkdir()
    stops = iter((False, True))
    monkeypatch.setattr("aggregator.machine.signals.Ending.is_set", lambda event: next(stops, True))
    assert main(["fold"]) == 0
    assert "log was not read" in capsys.readouterr().err


def test_the_fold_worker_tells_the_store_every_minute(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `sottovoce keys --data DIR`, which has no store of its own."""
    with monkeypatch.context() as without:
        without.delenv("REDIS_URL")
        assert main(["keys", "rotate", "master"]) == 0
    assert "not seen this log yet" in verified(capsys)[1]
    stops = iter((False, True))
    with monkeypatch.context() as once:
        once.setattr("aggregator.machine.signals.Ending.is_set", lambda event: next(stops, True))
        assert main(["fold"]) == 0
    status, told = verified(capsys)
    assert status == 0 and "note" not in told
    keys = Keys.load(place.keys)
    store = Store.connect(ServerSettings.from_env(os.environ), keys.pseudonym_key)
    (note,) = store.history.since(0)
    assert note.counters == store.figures.counters()
    store.close()


def test_what_a_registry_charges_is_listed_with_its_unit(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], redis_url: str
) -> None:
    keys = Keys.load(place.keys)
    store = Store.connect(ServerSettings(redis_url=redis_url), keys.pseudonym_key)
    Catalogue(store, record=AdminLog.beside(place.keys, keys.pseudonym_key).record).register(
        """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 12
contact = "telemetry@example.org"
[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 3.0
epoch = "once"
starts = 2026-01-01
expires = 2100-01-01
"""
    )
    store.close()
    assert main(["log", "list", "--last", "1"]) == 0
    shown = capsys.readouterr().out
    assert 'epsilon per report, or reserved whole if memoized: {"crashed": ' in shown

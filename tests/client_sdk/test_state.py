"""The state fails closed: what is damaged is neither used nor replaced."""

import os
import random
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, StateError
from client_sdk.state import FILE_NAME, State, default_directory

Damage = Callable[[Path], object]


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    generator = random.Random(5)
    for _ in range(400):
        data[generator.randrange(len(data))] = generator.randrange(256)
    path.write_bytes(bytes(data))


def altered(statement: str) -> Damage:
    def damage(path: Path) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(statement)
        connection.close()

    return damage


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "one page left": lambda path: path.write_bytes(path.read_bytes()[:4096]),
    "random bytes": overwritten,
    "no database": lambda path: path.write_text("this is no database" * 400),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "other secret": altered("UPDATE device SET value = randomblob(32) WHERE name = 'secret'"),
    "lost secret": altered("DELETE FROM device WHERE name = 'secret'"),
    "secret of a wrong type": altered("UPDATE device SET value = 5 WHERE name = 'secret'"),
    "lost seal": altered("DELETE FROM device WHERE name = 'seal'"),
    "less spent": altered("UPDATE shares SET spent = 0"),
    "more reserved": altered("UPDATE shares SET reserved = reserved + 1"),
    "shares deleted": altered("DELETE FROM shares"),
    "text for a number": altered("UPDATE shares SET spent = 'none'"),
    "tables dropped": altered("DROP TABLE marks"),
    "schema of a later version": altered("PRAGMA user_version = 2"),
    "schema zero": altered("PRAGMA user_version = 0"),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_ends_reporting_and_is_never_replaced(
    damage: Damage,
    tmp_path: Path,
    client_of: Callable[..., Client],
    server: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = client_of()
    first.record("theme", "dark")
    assert first.flush()
    first.close(5)
    path = tmp_path / "state" / FILE_NAME
    damage(path)
    before = path.read_bytes() if path.is_file() else None

    client = client_of()
    client.record("theme", "dark")
    assert not client.flush()
    for _ in range(3):
        client.record("theme", "light")
    assert client.dropped["no_state"] == 4
    assert client.status().summary.startswith("disabled: no state, no report")
    assert len(server.bodies) == 1
    assert len([r for r in caplog.records if "no state, no report" in r.getMessage()]) == 1
    assert str(path) in caplog.text
    if before is not None and damage is not DAMAGES["tables dropped"]:
        assert path.read_bytes() == before


def test_a_state_that_was_cut_anywhere_ends_reporting_and_is_never_replaced(
    tmp_path: Path, client_of: Callable[..., Client], server: Any
) -> None:
    server.answer = server.dead
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    client.close(5)
    path = tmp_path / "state" / FILE_NAME
    whole = path.read_bytes()  # the last page holds a batch that waits
    for length in {0, 1, 15, 16, 99, 100, len(whole) - 1, *range(0, len(whole), 511)}:
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            State(tmp_path / "state")
        assert path.read_bytes() == whole[:length]
        for journal in path.parent.glob(f"{FILE_NAME}-*"):
            journal.unlink()


def test_flipped_bits_at_random_places_never_enlarge_the_budget(
    tmp_path: Path, client_of: Callable[..., Client]
) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    client.close(5)
    path = tmp_path / "state" / FILE_NAME
    whole = path.read_bytes()
    with_state = sqlite3.connect(path)
    shares = with_state.execute("SELECT metric, reserved, spent FROM shares").fetchall()
    with_state.close()
    generator = random.Random(7)
    refused = 0
    for _ in range(200):
        data = bytearray(whole)
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        path.write_bytes(bytes(data))
        try:
            state = State(tmp_path / "state")
        except StateError:
            refused += 1
            continue
        with state.transaction() as connection:
            assert connection.execute("SELECT metric, reserved, spent FROM shares").fetchall() == (
                shares
            )
        state.close()
        for journal in path.parent.glob(f"{FILE_NAME}-*"):
            journal.unlink()
    assert refused > 0


@pytest.mark.parametrize("place", ["file", "below a file", "null device"])
def test_a_place_where_nothing_can_be_written_ends_reporting(
    place: str,
    tmp_path: Path,
    client_of: Callable[..., Client],
    server: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("")
    directory = {
        "file": tmp_path / "file",
        "below a file": tmp_path / "file" / "below",
        "null device": Path("/dev/null/state"),
    }[place]
    client = client_of(state_dir=directory)
    client.record("theme", "dark")
    assert not client.flush()
    client.record("theme", "dark")
    client.opt_out()
    assert client.dropped == {"no_state": 2}
    assert server.bodies == []
    assert len(caplog.records) == 1


def test_a_journal_without_its_file_is_damage(tmp_path: Path) -> None:
    State(tmp_path).close()
    (tmp_path / FILE_NAME).rename(tmp_path / f"{FILE_NAME}-wal")
    with pytest.raises(StateError, match="the file itself is gone"):
        State(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


def test_a_new_state_is_private_and_leaves_no_draft(tmp_path: Path) -> None:
    state = State(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} <= {
        FILE_NAME,
        f"{FILE_NAME}-wal",
        f"{FILE_NAME}-shm",
    }
    for path in (tmp_path / "a" / "b").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(state.secret) == 32
    state.close()


def test_of_two_that_create_a_state_at_once_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link
    secrets = []

    def overtaken(draft: Path, path: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        other = State(tmp_path)  # another process is a moment faster
        secrets.append(other.secret)
        other.close()
        link(draft, path)

    monkeypatch.setattr(os, "link", overtaken)
    state = State(tmp_path)
    assert [state.secret] == secrets
    state.close()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_every_commit_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    """https://www.sqlite.org/pragma.html#pragma_synchronous: with a journal that is FULL, 2."""
    state = State(tmp_path)
    for _ in range(2):  # the setting belongs to a connection
        with state.transaction() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        state.rest()
    state.close()


def test_a_failed_transaction_changes_nothing(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(RuntimeError), state.transaction() as connection:
        connection.execute("INSERT INTO shares VALUES ('m', 5, 5, 1, 1, 5)")
        raise RuntimeError
    with state.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM shares").fetchone() == (0,)
    state.close()


def test_sequences_only_ever_rise(tmp_path: Path) -> None:
    taken = []
    for _ in range(2):
        state = State(tmp_path)
        for _ in range(2):
            with state.transaction():
                taken.append(state.next_sequence())
        state.close()
    assert taken == [1, 2, 3, 4]


def test_projects_do_not_share_a_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert default_directory("shop-app") == "/x/sottovoce/shop-app"
    names = ["a/b", "a_b", "a b", "..", ".a", "a", "../a", ""]
    places = {default_directory(name) for name in names}
    assert len(places) == len(names)
    assert all(os.path.dirname(place) == "/x/sottovoce" for place in places)


def test_a_user_without_a_home_gets_no_state_and_no_error(
    client_of: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it does without a home
    client = client_of(state_dir=None)
    client.record("theme", "dark")
    assert not client.flush()
    assert client.dropped == {"no_state": 1}
    client.opt_out()

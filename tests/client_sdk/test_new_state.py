"""A state is made whole or not at all, also where files behave as on other systems. (Bug 16.)"""

import os
from pathlib import Path
from typing import Any

import pytest

from client_sdk import StateError, new_state
from client_sdk.state import FILE_NAME, State, default_directory


def no_links(*arguments: object) -> None:
    raise OSError(95, "Operation not supported")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Makes waits end at once; returns how long they would have been."""
    slept: list[float] = []
    monkeypatch.setattr(new_state.time, "sleep", slept.append)
    return slept


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch, impatient: list[float]) -> list[float]:
    monkeypatch.setattr(os, "link", no_links)
    return impatient


def test_without_hard_links_a_draft_is_renamed(tmp_path: Path, without_links: Any) -> None:
    state = State(tmp_path)
    assert len(state.secret) == 32
    secret = state.secret
    state.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["create.lock", FILE_NAME]
    again = State(tmp_path)
    assert again.secret == secret
    again.close()


def test_a_system_that_has_no_links_at_all_is_served_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "link")
    state = State(tmp_path)
    assert len(state.secret) == 32
    state.close()


def test_a_busy_file_is_tried_again(
    tmp_path: Path, without_links: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virus scanner holds it for a while, as on Windows."""
    replace, busy = os.replace, [5]

    def scanned(source: Path, target: Path) -> None:
        if busy[0]:
            busy[0] -= 1
            raise PermissionError(13, "The process cannot access the file")
        replace(source, target)

    monkeypatch.setattr(os, "replace", scanned)
    state = State(tmp_path)
    assert len(without_links) == 5
    assert len(state.secret) == 32
    state.close()


def test_a_file_that_stays_busy_fails_closed(
    tmp_path: Path,
    without_links: list[float],
    monkeypatch: pytest.MonkeyPatch,
    client_of: Any,
    server: Any,
) -> None:
    def scanned(source: Path, target: Path) -> None:
        raise PermissionError(13, "The process cannot access the file")

    monkeypatch.setattr(os, "replace", scanned)
    client = client_of()
    client.record("theme", "dark")
    assert not client.flush()
    assert client.dropped == {"no_state": 1}
    assert server.bodies == []
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["create.lock"]
    assert len(without_links) == new_state.TRIES


def test_a_rename_never_replaces_the_state_of_who_was_faster(
    tmp_path: Path, without_links: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, secrets = new_state._name, []

    def overtaken(draft: Path, path: Path) -> None:
        monkeypatch.setattr(new_state, "_name", named)
        other = State(tmp_path)  # another process is a moment faster
        secrets.append(other.secret)
        other.close()
        named(draft, path)

    monkeypatch.setattr(new_state, "_name", overtaken)
    state = State(tmp_path)
    assert [state.secret] == secrets
    state.close()


def test_a_lock_that_nobody_gives_back_fails_closed(
    tmp_path: Path, without_links: list[float]
) -> None:
    from client_sdk.locks import ProcessLock

    other = ProcessLock(tmp_path / "create.lock")
    assert other.acquire()
    with pytest.raises(StateError, match="creating it for too long"):
        State(tmp_path)
    other.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["create.lock"]
    assert len(without_links) == new_state.TRIES


def test_a_draft_that_cannot_be_removed_is_left_not_raised(
    tmp_path: Path, impatient: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "The process cannot access the file")

    monkeypatch.setattr(Path, "unlink", held)
    state = State(tmp_path)
    assert len(state.secret) == 32
    state.close()


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {}, "home/.local/state/sottovoce/shop"),
        ("darwin", {}, "home/Library/Application Support/sottovoce/shop"),
        ("win32", {"LOCALAPPDATA": "appdata"}, "appdata/sottovoce/shop"),
        ("darwin", {"XDG_STATE_HOME": "xdg"}, "xdg/sottovoce/shop"),
    ],
)
def test_the_state_lies_where_the_system_keeps_such_things(
    platform: str, variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(os.path, "expanduser", lambda path: "home")
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_directory("shop") == place


def test_neither_import_nor_an_unused_client_writes_anything(host: Any) -> None:
    """Bug 18: what is made at install would be cloned with every image."""
    host.run("client = client_of()\nclient.status()\nclient.preview()\nclient.close()")
    assert not (host.folder / "home").exists()


def test_a_state_that_was_replaced_while_in_use_is_refused(tmp_path: Path) -> None:
    state = State(tmp_path / "one")
    other = State(tmp_path / "two")
    other.close()
    state.rest()
    os.replace(tmp_path / "two" / FILE_NAME, tmp_path / "one" / FILE_NAME)
    with pytest.raises(StateError, match="was replaced while it was in use"):
        state.queued()
    state.close()


def test_a_state_that_disappears_while_in_use_is_not_made_anew(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.rest()
    (tmp_path / FILE_NAME).unlink()
    with pytest.raises(StateError, match="No such file"), state.transaction():
        pass
    assert not (tmp_path / FILE_NAME).exists()
    state.close()

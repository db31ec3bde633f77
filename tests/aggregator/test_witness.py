"""The witness: its number only rises, whoever writes it."""

import json
import stat
import threading
from pathlib import Path

import pytest

from aggregator.connection import StoreRefused
from aggregator.recovery.witness import Witness


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "generation.json"


def test_it_lies_beside_the_key_file(tmp_path: Path) -> None:
    assert Witness.beside(tmp_path / "secrets" / "my.json").path == (
        tmp_path / "secrets" / "generation.json"
    )


def test_a_new_one_knows_nothing(path: Path) -> None:
    assert Witness(path).generation() is None
    assert not path.exists()


def test_what_is_remembered_is_on_disk_and_for_its_owner_only(path: Path) -> None:
    Witness(path).remember(7)
    assert json.loads(path.read_text()) == {"version": 1, "generation": 7}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["generation.json"]
    assert Witness(path).generation() == 7


def test_it_is_never_lowered(path: Path) -> None:
    behind, ahead = Witness(path), Witness(path)
    behind.remember(3)
    ahead.remember(9)
    for lower in (4, 0, 9):
        behind.remember(lower)
        assert behind.generation() == Witness(path).generation() == 9


def test_another_process_is_noticed(path: Path) -> None:
    one, other = Witness(path), Witness(path)
    for generation in range(1, 20):
        other.remember(generation)
        assert one.generation() == generation


def test_a_lower_file_does_not_make_a_running_process_forget(path: Path) -> None:
    witness = Witness(path)
    witness.remember(9)
    path.write_text('{"version": 1, "generation": 2}')
    assert witness.generation() == 9
    path.unlink()
    assert witness.generation() == 9


def test_racing_writers_leave_the_highest(path: Path) -> None:
    gate = threading.Barrier(8)

    def write(first: int) -> None:
        witness = Witness(path)
        gate.wait()
        for generation in range(first, 200, 8):
            witness.remember(generation)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Witness(path).generation() == 199


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 1}', '{"version": 2, "generation": 1}']
    + [f'{{"version": 1, "generation": {value}}}' for value in ("-1", "true", "1.5", '"7"')],
)
def test_a_spoilt_file_is_refused_and_never_replaced(path: Path, text: str) -> None:
    path.write_text(text)
    for act in (Witness.generation, lambda witness: witness.remember(5)):
        with pytest.raises(StoreRefused, match=r"generation\.json"):
            act(Witness(path))
    assert path.read_text() == text


def test_a_file_that_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="must be writable") as caught:
        Witness(tmp_path / "missing" / "generation.json").remember(1)
    assert str(tmp_path) not in str(caught.value)

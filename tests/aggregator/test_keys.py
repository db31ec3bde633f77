"""The key file: made once, private, and never quoted in an error."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aggregator.keyring.keys import Keys, KeysError
from aggregator.keyring.kinds import fresh_text

ENTRY = {"id": 1, "state": "active", "created": None, "since": None, "secret": "0a" * 32}


def test_a_key_file_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = Keys.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Keys.load_or_create(path) == made == Keys.load(path)
    assert list(tmp_path.iterdir()) == [path]


def test_processes_that_start_at_once_agree_on_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: Keys.load_or_create(path), range(16)))
    assert all(keys == made[0] for keys in made)
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_file_open_to_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    Keys.load_or_create(path)
    path.chmod(0o640)
    with pytest.raises(KeysError, match="0600"):
        Keys.load(path)


def test_a_missing_key_file_is_not_replaced_by_load(tmp_path: Path) -> None:
    with pytest.raises(KeysError, match="readable"):
        Keys.load(tmp_path / "keys.json")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"version": 2},
        {"version": 1},
        {"version": []},
        {"master_keys": []},
        {"master_keys": [{"id": "1", "key": "ab"}]},
        {"master_keys": [ENTRY, ENTRY]},
        {"master_keys": [ENTRY | {"state": "retiring"}]},
        {"master_keys": [ENTRY | {"secret": None}]},
        {"master_keys": 7},
        {"pseudonym_key": None},
        {"write_keys": [ENTRY | {"secret": "short"}]},
        {"write_keys": []},
        {"signing_keys": [ENTRY]},
        {"signing_keys": [ENTRY | {"public": "0" * 64}]},
        {"read_keys": [ENTRY | {"label": ""}]},
        {"another": 1},
    ],
)
def test_a_key_file_of_another_form_is_refused_without_quoting_it(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "keys.json"
    secret = Keys.load_or_create(path).pseudonym_key.hex()
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(KeysError) as caught:
        Keys.load(path)
    assert str(path) in str(caught.value) and secret not in str(caught.value)


def test_keys_are_not_shown(tmp_path: Path) -> None:
    keys = Keys.load_or_create(tmp_path / "keys.json")
    for secret in (keys.write_key, keys.pseudonym_key.hex(), repr(keys.pseudonym_key)):
        assert secret not in repr(keys)


def test_a_text_to_be_typed_never_looks_like_an_option() -> None:
    # Base64 texts would begin with a hyphen once in 64: all 2,000 would pass once in 10 ** 13 runs.
    assert all(fresh_text()[0].isalnum() for _ in range(2000))

"""What docs/operations.md says to type, with a stand-in for the engine's program."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.docker.conftest import DOCKER, ROOT, variables

ENGINE = """#!/bin/sh
# Plays `docker compose`: volumes are folders, and what it would do without them is noted.
echo "$*" >> "$PLACE/asked"
case "$2" in
    cp) cp -r "$PLACE/${3#*:/}" "$4" ;;
    exec) exec sh -c "$(echo "$7" | sed "s: /data: $PLACE/data:")" ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(ENGINE)
    (tmp_path / "bin" / "docker").chmod(0o755)
    shutil.copytree(DOCKER, tmp_path / "docker")
    return tmp_path


def blocks() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text[text.index("\n## With containers\n") + 1 :].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def run(block: str, place: Path, folder: Path) -> None:
    environment = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}", "PLACE": str(place)}
    subprocess.run(["sh", "-euc", block], cwd=folder, env=environment, check=True, timeout=60)


def test_the_first_start_makes_a_file_of_settings_that_only_its_owner_reads(place: Path) -> None:
    run(blocks()[0], place, place)
    made = place / "docker" / ".env"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{48}", variables(made)["STORE_PASSWORD"])
    asked = (place / "asked").read_text().splitlines()
    assert [each.split()[1] for each in asked] == ["build", "run", "up"]


def test_the_backup_is_whole_and_lacks_what_would_hide_it(place: Path) -> None:
    store = place / "data" / "appendonlydir"
    keys, releases = (place / "var/lib/sottovoce" / name for name in ("keys", "releases"))
    for folder in (store, keys, releases):
        folder.mkdir(parents=True)
    for path in (store / "a.aof.manifest", store / "a.aof", releases / "one"):
        path.write_text(path.name)
    for name in ("keys.json", "generation.json", "erased.txt"):
        (keys / name).write_text(name)
    run(blocks()[1], place, place / "docker")
    made = place / "docker"
    assert {path.name for path in (made / "backup").iterdir()} == {"a.aof.manifest", "a.aof"}
    assert {path.name for path in (made / "keys-backup").iterdir()} == {"keys.json", "erased.txt"}
    assert (made / "releases-backup" / "one").exists()

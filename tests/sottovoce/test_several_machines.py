"""The recipe of docs/operations.md, "Several machines", with directories for machines."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from aggregator.connection import StoreRefused
from aggregator.server import prepare
from aggregator.settings import ServerSettings

ROOT = Path(__file__).parents[2]


def recipe() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("\n## Several machines\n")[2].partition("\n## ")[0]
    return [dedent(b) for b in re.findall(r"^ +```sh\n(.*?)^ +```", section, re.DOTALL | re.M)]


def test_a_second_machine_starts_with_a_copy_of_the_firsts_keys_directory(
    redis_url: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (registry,) = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs" / "registry.md").read_text(), re.M | re.S
    )
    (first / "metrics.toml").write_text(registry)
    makes_keys, starts = recipe()
    command = f'sottovoce() {{ "{sys.executable}" -m sottovoce "$@"; }}\n{makes_keys}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    made = subprocess.run(
        ["sh", "-euc", command], cwd=first, env=environment, capture_output=True, text=True
    )
    assert "Ship this write key with the app" in made.stdout, made.stderr
    assert re.findall(r"export (\w+)=", makes_keys + starts) == [
        "SOTTOVOCE_KEYS_FILE",
        "REDIS_URL",
        "SOTTOVOCE_METRICS",
    ]

    def start(machine: Path) -> None:
        """What `sottovoce serve` does before it listens."""
        told = {"SOTTOVOCE_KEYS_FILE": str(machine / "keys" / "keys.json")}
        metrics = {"SOTTOVOCE_METRICS": str(first / "metrics.toml")}
        prepare(ServerSettings.from_env({"REDIS_URL": redis_url, **told, **metrics}))

    start(first)
    assert {path.name for path in (first / "keys").iterdir()} >= {"keys.json", "generation.json"}
    shutil.copytree(first / "keys", second / "keys")
    start(second)
    (second / "keys" / "generation.json").unlink()
    with pytest.raises(StoreRefused, match="copy the file from another machine"):
        start(second)

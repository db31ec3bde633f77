"""The benchmark of mechanisms works on ours, so that its tables are of mechanisms, not of bugs."""

import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client_sdk.mechanisms import CATALOGUE

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "mechanisms"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module, imported as its command does; gone again after the test."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARK), *sys.path])
    monkeypatch.delitem(sys.modules, "run", raising=False)
    yield importlib.import_module("run")
    for name in ("run", "child", "tasks"):
        sys.modules.pop(name, None)


@pytest.fixture
def child(run: Any) -> Any:
    return importlib.import_module("child")


def test_ours_is_measured_beside_the_limit_and_without_peers(
    run: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    asked = "--peers none --rounds 2 --seconds 0.001 --tasks RR,OUE-1024,RAPPOR".split()
    assert run.main([*asked, "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert run.line(run.CLIENT_HEADER) in shown and run.line(run.SERVER_HEADER) in shown
    found = json.loads(file.read_text())
    assert set(found["client_seconds"]) == {"RR", "OUE-1024", "RAPPOR"}
    assert {len(rounds) for rounds in found["server_seconds"]["OUE-1024"].values()} == {2}
    assert set(found["server_seconds"]["OUE-1024"]) == {"sottovoce", "sums", "limits"}


def test_ours_does_every_task(run: Any, child: Any) -> None:
    library = child.Library("sottovoce")
    assert set(library.adapter.MECHANISMS) == {task.name for task in run.TASKS}
    for task in run.TASKS:
        library.take_up(task)
        assert library.client_seconds(0) > 0
        if task.reports:
            assert all(library.server_seconds(kind, 0, 100) > 0 for kind in ("server", "tally"))


@pytest.mark.parametrize("name", ["OUE-128", "OLH-1024", "Hadamard-1024"])
def test_what_is_timed_finds_the_truth(name: str, run: Any, child: Any) -> None:
    library = child.Library("sottovoce")
    task = next(task for task in run.TASKS if task.name == name)
    library.take_up(task)
    library.server_seconds("server", 0, 3000)
    truth = Counter(importlib.import_module("tasks").values(task.domain, 3000))
    entries = library.server(library.reports).entries
    assert len(entries) == task.domain
    # 6.5 standard errors in 1024 places: false alarm of 1e-7 by the normal tail, over all of them.
    errors = [
        (entry.share - truth[index] / 3000) / entry.standard_error_reporters
        for index, entry in enumerate(entries)
    ]
    assert max(map(abs, errors)) < 6.5


def test_the_limits_are_of_the_same_arithmetic(run: Any, child: Any) -> None:
    limits = child.Library("limits").adapter
    words = np.random.default_rng(1).integers(0, 1 << 63, (999, 2), np.uint64)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    assert limits.column_sums(words).tolist() == bits.sum(axis=0).tolist()
    # The sum of the first row of signs is the number of + less that of -.
    assert limits.signs(np.array([0, 2, 2, 5]))[0] == 2


def test_ratios_are_those_within_a_round(run: Any) -> None:
    figures = run.Figures(run.TASKS[0])
    for ours, peer in ((1.0, 2.0), (10.0, 30.0), (2.0, 5.0)):
        figures.add("sottovoce", ours)
        figures.add("opendp", peer)
    figures.add("diffprivlib", None)
    assert figures.ratio("opendp", "sottovoce") == 2.5
    assert figures.fastest(run.PEERS) == "opendp"
    assert run.client_row(figures)[2:4] == ["0 (opendp)", "2.5x"]


def test_every_peer_is_pinned_to_one_version_and_knows_the_tasks(run: Any) -> None:
    tasks = {task.name for task in run.TASKS}
    for name in run.PEERS:
        pins = (BENCHMARK / "requirements" / f"{name}.txt").read_text().split()
        assert any(pin.startswith(f"{name}==") for pin in pins)
        assert all("==" in pin for pin in pins)
        adapter = (BENCHMARK / "adapters" / f"{name.replace('-', '_')}.py").read_text()
        known = re.findall(r'"([^"]*)": ', adapter.split("MECHANISMS = ")[1])
        assert known and set(known) <= tasks


def test_the_documented_tables_have_the_columns_that_are_printed(run: Any) -> None:
    page = (BENCHMARK.parents[1] / "docs" / "benchmarks.md").read_text()
    assert run.line(run.CLIENT_HEADER) in page and run.line(run.SERVER_HEADER) in page
    for task in run.TASKS:
        assert f"| {task.name} |" in page


def test_the_command_explains_itself() -> None:
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK / "run.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Markdown" in ran.stdout


def test_every_mechanism_of_the_catalogue_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARK), *sys.path])
    catalogue = importlib.import_module("catalogue")
    assert catalogue.main("--collections 2 --reports 40 --seconds 0.001".split()) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1].strip(" `") for row in rows] == list(CATALOGUE)
    assert [row[1].strip(" `") for row in rows if row[4].strip() == "-"] == ["square_wave"]
    assert all(float(row[3].split("-", 1)[1]) < 1e-9 for row in rows)  # below 1 by so much
    sys.modules.pop("catalogue", None)

"""The benchmark of the list of releases runs, and asks about all that it has put there."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "server" / "listing.py"


def test_the_list_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("listing", SCRIPT)
    assert spec is not None and spec.loader is not None
    listing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(listing)
    listing.main(["--metrics", "3", "--epochs", "4", "--asks", "2"])
    printed = capsys.readouterr().out
    assert printed.startswith("12 releases\n")
    assert len(re.findall(r"median +[\d.]+ ms", printed)) == 5

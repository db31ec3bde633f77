"""The benchmark of the dashboard runs, and looks at all that it has put there."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "dashboard" / "run.py"


def test_pages_and_pictures_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("dashboard_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    benchmark.main(["--metrics", "3", "--epochs", "4", "--looks", "2", "--alone", "0"])
    printed = capsys.readouterr().out
    assert printed.startswith("12 releases;")
    assert len(re.findall(r"first +\d+ +\d+ +\d+ +again", printed)) == 9

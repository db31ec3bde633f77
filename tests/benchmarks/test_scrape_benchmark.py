"""The benchmark of /metrics runs, and counts what it says."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "server" / "scrape.py"


def test_the_scrape_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("scrape", SCRIPT)
    assert spec is not None and spec.loader is not None
    scrape = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scrape)
    scrape.main(["--metrics", "5", "--scrapes", "2"])
    printed = capsys.readouterr().out
    series = re.match(r"5 metrics: (\d+) series", printed)
    assert series is not None and 10 < int(series[1]) < 200
    assert len(re.findall(r"median +[\d.]+ ms", printed)) == 2

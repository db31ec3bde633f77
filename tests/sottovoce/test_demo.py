"""The demo, run as a user runs it."""

import json
import signal
from pathlib import Path

import pytest

from estimator.ledger.lifetime import lifetime
from sottovoce.demo import Result
from sottovoce.fleet import Tour
from tests.sottovoce.conftest import processes_naming, wait_until


def test_the_demo_publishes_shares_near_the_truth_and_leaves_nothing_running(sottovoce, tmp_path):
    folder = tmp_path / "demo"
    demo = sottovoce("demo", "--devices", 600, "--complete", 20, "--json", "--output", folder)
    printed, progress = demo.communicate(timeout=100)
    assert demo.returncode == 0, progress
    assert "600 of 600 devices" in progress
    result = json.loads(printed)
    assert set(result["metrics"]) == {"carrier", "cancelled", "departure_hour", "browser"}
    entries = [
        entry
        for name, metric in result["metrics"].items()
        for entry in metric["estimates"]
        if name != "browser" or entry["value"] == "and_chr 157"
    ]
    # 39 entries, each within 6 standard errors but for 2e-9: together below 1e-7. A wrong
    # p_true or a lost metric is off by far more.
    for entry in entries:
        assert abs(entry["share"] - entry["truth"]) < 6 * entry["standard_error"], entry
    assert result["metrics"]["carrier"]["n"] == 600
    ledger = result["ledger"]
    assert ledger["devices"] == 600
    # carrier 2, cancelled 1.5, hour 2, and 2 values of the browser at 6 each.
    assert ledger["highest"] == 17.5 < ledger["cap"] == 40
    # Release files stay; keys and store do not.
    assert (folder / "releases" / "index.html").exists()
    assert len(list((folder / "releases").glob("*/*.json"))) == 4
    assert len(list((folder / "releases").glob("*/*.html"))) == 4
    verified, _ = sottovoce("releases", "verify", "--releases", folder / "releases").communicate()
    assert "4 releases, all good" in verified
    assert not (folder / "keys.json").exists() and not (folder / "store").exists()
    wait_until(lambda: not processes_naming(folder))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_running(sottovoce, tmp_path, number):
    folder = tmp_path / "demo"
    demo = sottovoce("demo", "--devices", 5000, "--output", folder)
    log = Path(folder / "logs" / "serve.log")
    wait_until(lambda: log.exists() and len(processes_naming(folder)) >= 4)
    demo.send_signal(number)
    assert demo.wait(20) == 130
    wait_until(lambda: not processes_naming(folder))


def test_the_demo_ends_with_the_page_to_open(tmp_path, capsys):
    nobody = lifetime([], 40_000_000)
    Result({}, {}, nobody, Tour(), 0, tmp_path / "releases").print()
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"Open in a browser: {tmp_path / 'releases' / 'index.html'}"
    )

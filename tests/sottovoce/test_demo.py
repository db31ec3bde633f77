"""The demo, run as a user runs it."""

import json
import re
import signal
from pathlib import Path

import pytest
import requests

from estimator.ledger.lifetime import lifetime
from sottovoce.connect import server_side
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("as_json", "number"), [(False, signal.SIGINT), (True, signal.SIGTERM)], ids=["text", "json"]
)
def test_a_demo_that_is_kept_shows_its_data_until_it_is_ended(
    sottovoce, tmp_path, monkeypatch, as_json, number
):
    # The schedule would end at once: nobody is to be told of a demo's releases.
    monkeypatch.setenv("SOTTOVOCE_SMTP_URL", "no mail server")
    folder = tmp_path / "demo"
    fleet = ("--devices", 200, "--complete", 2, "--output", folder)
    demo = sottovoce("demo", "--keep", *fleet, *["--json"] * as_json)
    if as_json:
        shown = json.loads("".join(iter(demo.stdout.readline, "}\n")) + "}")
        assert shown["devices"] == 200
    told = iter((demo.stderr if as_json else demo.stdout).readline, "")
    line = next(line for line in told if line.startswith("Dashboard"))
    match = re.fullmatch(r"Dashboard: (http://127\.0\.0\.1:\d+/)  \(Ctrl-C ends it\)\n", line)
    assert requests.get(f"{match[1]}livez", timeout=30).status_code == 200
    metrics = requests.get(f"{match[1]}v1/metrics", timeout=30).json()["metrics"]
    assert len(metrics) == 4
    page = requests.get(match[1], headers={"Accept": "text/html"}, timeout=30)
    assert page.status_code == 200 and "Which carrier did the last flight use?" in page.text
    monkeypatch.setenv("SOTTOVOCE_PLANNED_DEVICES", "200")  # as the demo plans
    with server_side(folder) as opened:
        wait_until(opened.store.figures.ledger_sample)
        assert opened.store.figures.ledger_sample().devices == 200
    assert "FAILED" not in (folder / "logs" / "schedule.log").read_text()
    demo.send_signal(number)
    _, progress = demo.communicate(timeout=60)
    assert demo.returncode in (0, 130), progress
    wait_until(lambda: not processes_naming(folder))
    assert len(list((folder / "releases").glob("*/*.json"))) == 4
    assert not (folder / "keys.json").exists() and not (folder / "store").exists()


def test_the_demo_ends_with_the_page_to_open(tmp_path, capsys):
    nobody = lifetime([], 40_000_000)
    Result({}, {}, nobody, Tour(), 0, tmp_path / "releases").print()
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"Open in a browser: {tmp_path / 'releases' / 'index.html'}"
    )

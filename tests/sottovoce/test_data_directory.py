"""Commands with --data: they work on what `sottovoce up` keeps, running or not."""

import json
import signal
import time

import pytest

from client_sdk.epochs import label
from client_sdk.pending import current_epoch
from sottovoce.__main__ import main
from tests.sottovoce.conftest import wait_until
from tests.sottovoce.test_ledger import Place

DEVICES = 300
"""More than a metric's min_reports, so that shares are published."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    for variable in ("REDIS_URL", "SOTTOVOCE_KEYS_FILE", "SOTTOVOCE_RELEASES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)  # where nothing must be written
    made = Place(tmp_path / "data")
    for device in range(DEVICES):
        made.send(f"{device:032x}", 1, "home_page")
    yield made
    made.stop()


@pytest.mark.parametrize("running", [True, False])
def test_an_epoch_is_closed_listed_and_verified_by_the_directory_alone(place, capsys, running):
    home_page = place.registry.metrics["home_page"]
    epoch = label("month", current_epoch(home_page, time.time()))
    data = ["--data", str(place.data)]
    if not running:
        place.stop()
    assert main(["publish", *data, "--dry-run"]) == 0
    assert "Nothing is due." in capsys.readouterr().out
    assert main(["publish", *data, "--close", "home_page", epoch]) == 0
    assert str(place.data / "releases" / "home_page") in capsys.readouterr().out
    assert main(["releases", *data, "--json"]) == 0
    (release,) = json.loads(capsys.readouterr().out)
    assert (release["metric"], release["epoch"], release["n"]) == ("home_page", epoch, DEVICES)
    assert main(["releases", *data, "verify"]) == 0
    assert f"1 releases, all good; keys: {place.data / 'keys.json'}" in capsys.readouterr().out
    assert not (place.data.parent / "releases").exists()
    if not running:
        place.start()


def when_published(place):
    """Return when the schedule last had nothing more to do, None before."""
    return place.store.figures.published()[1]


@pytest.mark.parametrize("command", ["publish", "schedule"])
def test_a_directory_that_is_none_of_ours_is_refused(tmp_path, capsys, command):
    assert main([command, "--data", str(tmp_path)]) == 2
    assert "has no keys" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_the_schedule_runs_on_the_directory_without_the_schedulers_chatter(place, sottovoce):
    process = sottovoce("schedule", "--data", place.data, "--every", 1)
    wait_until(lambda: when_published(place) is not None)
    first = when_published(place)
    wait_until(lambda: when_published(place) >= first + 2)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    assert "stopping" in told and "Running job" not in told and "Added job" not in told

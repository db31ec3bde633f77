"""`sottovoce ledger` on the server: the fleet, one device, and after a backup was restored."""

import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.catalogue import Catalogue
from aggregator.fold import Folder
from aggregator.intake import judge, parse
from aggregator.keyring.keys import Keys
from aggregator.machine.embedded import EmbeddedServer
from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk import loads
from client_sdk.epochs import day_of, epoch_of
from client_sdk.report import Report, encode_batch, report_to_json
from sottovoce.__main__ import main

REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 12
contact = "telemetry@example.org"
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
starts = 2026-01-01
expires = 2100-01-01
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 16, hashes = 2, cohorts = 4 }
epoch = "month"
"""
ADDED = (
    REGISTRY
    + """
[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 3.0
epoch = "once"
starts = 2026-01-01
expires = 2100-01-01
"""
)


class Place:
    """A data directory as `sottovoce up` has it, used without its processes."""

    def __init__(self, data: Path) -> None:
        self.data = data
        data.mkdir()
        self.keys = Keys.load_or_create(data / "keys.json")
        self.start()

    def start(self, *, restored: bool = False) -> None:
        self.server = EmbeddedServer.start(self.data / "store", appendfsync="no")
        settings = ServerSettings(redis_url=self.server.url, keys_file=self.data / "keys.json")
        self.store = Store.connect(settings, self.keys.pseudonym_key)
        if not restored:
            self.store.check()
        self.catalogue = Catalogue(self.store)
        self.registry = self.catalogue.register(REGISTRY)

    def stop(self) -> None:
        self.store.close()
        self.server.stop()

    def send(self, device: str, sequence: int, *names: str) -> None:
        now, reports = time.time(), []
        for name in names:
            metric = self.registry.metrics[name]
            epoch = epoch_of(metric.epoch, day_of(now))
            report = Report(name, metric.fingerprint, epoch, 0, 0)
            reports.append(report_to_json(report, metric.mechanism))
        body = encode_batch(device, sequence, "0" * 32, reports)
        versions = self.catalogue.current()
        self.store.apply(judge(parse(body), versions, now), versions.cap)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    made = Place(tmp_path / "data")
    yield made
    made.stop()


def ledger(place, capsys, *arguments, status=0):
    assert main(["ledger", "--data", str(place.data), *arguments]) == status
    printed = capsys.readouterr()
    return printed.err if status == 2 else printed.out


def test_the_fleet_as_json_and_in_words(place, capsys):
    place.send("a" * 32, 1, "theme", "home_page")
    place.send("b" * 32, 1, "theme")
    place.send("c" * 32, 1, "home_page")
    Folder(place.store).fold_once()
    found = json.loads(ledger(place, capsys, "--json"))
    assert (found["devices"], found["lowest"], found["median"], found["highest"]) == (3, 1, 8, 9)
    assert (found["cap"], found["exhausted"], found["p95"], found["mean"]) == (12, 0, 9, 6)
    fresh_stage = float(loads(REGISTRY).metrics["home_page"].mechanism.epsilon_instantaneous)
    changes = found["metrics"]["home_page"].pop("epsilon_covering_changes")
    assert changes == pytest.approx(2 * fresh_stage, abs=1e-5)
    assert found["metrics"] == {
        "home_page": {"reports": 2, "devices_paid": 2, "epsilon": 16.0},
        "theme": {
            "reports": 2,
            "devices_paid": None,
            "epsilon": 2.0,
            "epsilon_covering_changes": 2.0,
        },
    }
    highest = found["composition"]["highest"]
    assert (highest["spent"], highest["remembered"], highest["delta"]) == (9.0, 8.0, 1e-6)
    assert 8.0 < highest["epsilon"] <= 9.0
    words = ledger(place, capsys)
    assert "3 devices: lowest 1, median 8, 95th percentile 9, highest 9" in words
    assert "0 exhausted" in words and "not enforced" in words
    assert "\nThe median device: 8 by" in words and "The device that has spent most: 9" in words
    assert "home_page" in words and "by plain addition, which is what the cap holds" in words


def test_one_devices_life(place, capsys):
    place.send("a" * 32, 1, "theme", "home_page")
    found = json.loads(ledger(place, capsys, "--device", "a" * 32, "--json"))
    assert (found["spent_epsilon"], found["left_epsilon"], found["lifetime_epsilon"]) == (9, 3, 12)
    assert (found["batches"], found["remembered"]) == (1, ["home_page"])
    assert found["composition"]["remembered"] == 8.0
    words = ledger(place, capsys, "--device", "a" * 32)
    assert "spent 9 of 12 lifetime epsilon; 3 is left" in words and "home_page" in words
    told = ledger(place, capsys, "--device", "f" * 32, status=1)
    assert "no record" in told
    assert "32 hex digits" in ledger(place, capsys, "--device", "f", status=2)


def test_a_device_is_erased_by_its_id(place, capsys):
    place.send("a" * 32, 1, "theme", "home_page")
    place.send("b" * 32, 1, "theme")
    Folder(place.store).fold_once()
    found = json.loads(ledger(place, capsys, "--erase", "a" * 32, "--json"))
    assert found == {"verdict": "erased", "had_record": True}
    assert "no record" in ledger(place, capsys, "--device", "a" * 32, status=1)
    assert "no record of this device" in ledger(place, capsys, "--erase", "a" * 32)
    assert "is erased; nothing is taken from it" in ledger(place, capsys, "--erase", "b" * 32)
    assert json.loads(ledger(place, capsys, "--json"))["devices"] == 0
    metric = place.registry.metrics["theme"]
    assert place.store.tallies.of(metric, 0).reports.sum() == 2  # releases lose nothing
    assert "32 hex digits" in ledger(place, capsys, "--erase", "A" * 32, status=2)


def test_a_fleet_of_none(place, capsys):
    assert "no device has reported yet; the cap is 12" in ledger(place, capsys)
    assert json.loads(ledger(place, capsys, "--json"))["highest"] is None


def test_after_a_backup_was_restored(place, capsys, tmp_path):
    now = time.time()
    day = datetime.now(UTC).date().isoformat()
    place.store.raise_generation(now)
    place.send("a" * 32, 1, "theme")
    shutil.copytree(place.data / "store" / "appendonlydir", tmp_path / "backup")
    for _ in range(3):
        place.store.raise_generation(now)
    added = tmp_path / "metrics.toml"
    added.write_text(ADDED)
    place.stop()
    shutil.rmtree(place.data / "store" / "appendonlydir")
    shutil.copytree(tmp_path / "backup", place.data / "store" / "appendonlydir")

    told = ledger(place, capsys, status=2)
    assert f"sottovoce ledger --restored-from {day}" in told
    assert "must be a day" in ledger(place, capsys, "--restored-from", "yesterday", status=2)
    assert "run this with" in ledger(place, capsys, "--restored-from", "2026-01-01", status=2)
    arguments = ("--restored-from", day, "--metrics", str(added))
    found = json.loads(ledger(place, capsys, *arguments, "--json"))
    # It had reported theme; it may since have paid for home_page (8) and reported crashed (3).
    assert (found["devices"], found["devices_charged"], found["charged_epsilon"]) == (1, 1, 11.0)
    assert (found["floor_epsilon"], found["restored_from"]) == (12.0, day)
    assert "done already" in ledger(place, capsys, *arguments, status=2)
    assert "highest 12," in ledger(place, capsys)
    place.start()
    assert place.store.accounts.spent("a" * 32) == 12_000_000


def test_metrics_are_for_a_recovery_only(place, capsys, tmp_path):
    assert "goes with --restored-from" in ledger(place, capsys, "--metrics", "x.toml", status=2)


def test_a_directory_that_is_none_of_ours_is_refused(place, capsys, tmp_path):
    assert main(["ledger", "--data", str(tmp_path)]) == 2
    assert "has no keys" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()

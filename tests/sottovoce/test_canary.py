"""The canary: devices of known truth, and that they leave users' figures alone."""

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from aggregator.catalogue import Versions
from aggregator.purposes import for_apps, require_apart
from aggregator.recovery.restore import possible_since
from aggregator.settings import ServerSettings
from client_sdk import loads
from client_sdk.epochs import day_of, label
from client_sdk.errors import RegistryError, TransportError
from client_sdk.pending import current_epoch
from estimator.canary import truth
from estimator.canary.monitor import survey
from estimator.publish import publish_epoch
from estimator.source import StoreSource
from sottovoce import canary
from sottovoce.__main__ import main
from sottovoce.canary import Canary, registry_text, truth_of
from sottovoce.fleet import Plan, run_here
from sottovoce.population import uniform
from sottovoce.system import free_port, running
from tests.sottovoce.canaries import APPS, NAMES, registry
from tests.sottovoce.conftest import processes_naming, wait_until

# Of APPS, but alive whenever the tests run.
LIVING = APPS.replace("2026-11-02", "2020-01-06").replace("2027-12-31", "2099-01-01")
LIVING = LIVING.replace("lifetime_epsilon = 100", "lifetime_epsilon = 1000").replace(
    'epoch = "week"', 'epoch = "month"\nsample = 1'
)
LIVING = LIVING.replace("epsilon = 1.0", "epsilon = 0.5")


def test_the_monitor_finds_a_real_system_as_right_as_it_says(tmp_path, monkeypatch, capsys):
    """Real clients and light ones, server, store, fold, closing, release, comparison."""
    monkeypatch.setattr(canary, "_LAST_SECONDS", 0.0)
    apps = loads(LIVING)
    settings = ServerSettings(port=free_port(), fold_interval_seconds=0.2)
    now = time.time()
    with running(
        LIVING, tmp_path, settings=settings, with_schedule=False, log_directory=tmp_path
    ) as system:
        theme = {"theme": uniform(apps.metrics["theme"])}
        users = run_here(Plan(LIVING, system.endpoint, system.write_key, theme), 5, 0)
        assert users.reports == {"accepted": 5}
        flock = Canary(
            system.store,
            system.catalogue,
            system.endpoint,
            system.write_key,
            system.releases,
            devices=100,
        )
        assert flock.run() == dict.fromkeys(NAMES, 100)
        assert flock.run() == {}  # that was all for today

        source = StoreSource(system.store, system.catalogue)
        day = label("day", current_epoch(registry().metrics["canary.text"], now))
        for name in NAMES:
            publish_epoch(source, system.releases, now, name, day, early=True)
        # Users' figures: their ledger, cap and project, and nothing of theirs is the canary's.
        assert sorted(system.store.accounts.every_spent()) == [500_000] * 5
        assert system.catalogue.current().cap == 1_000_000_000
        assert source.project() == "shop-app"
        assert source.lifetime().devices == 5
        assert system.store.figures.counters()["accepted"] == 5 + 4 * 100

    rows = survey(system.releases, day_of(now), 0.01)
    assert [row.metric for row in rows] == sorted(NAMES)
    for row in rows:
        assert row.n == 100 and row.score is not None
        # 11 p-values: one of them below 5e-8 in an estimator that works once in 2 million runs.
        assert row.score.p_coverage > 5e-8 and row.score.p_error > 5e-8
        assert row.score.p_standard_error is None or row.score.p_standard_error > 5e-8
        assert not any(
            "reports are missing" in alarm or "devices:" in alarm for alarm in row.alarms
        )
    main(["monitor", "--releases", str(system.releases)])  # 1 once in some thousand runs
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES) and "s/n to direct" in shown


def test_what_was_interrupted_goes_on_where_it_ended(tmp_path, monkeypatch):
    asked = []

    def breaks(plan: Plan, devices: int, complete: int):
        asked.append((next(iter(plan.populations)), devices))
        if len(asked) == 2:
            raise TransportError("the server is away")
        return type("Tour", (), {"reports": Counter(accepted=devices)})

    monkeypatch.setattr(canary, "run_here", breaks)
    place = ("http://127.0.0.1:9", "k", tmp_path)
    noon = 1_796_040_000.0
    clock = [noon]
    parts = (Registered(APPS), Registered(APPS), *place, 250)
    flock = Canary(*parts, clock=lambda: clock[-1])
    with pytest.raises(TransportError):
        flock.run()
    metric = registry().metrics["canary.yes_no"]
    known = truth_of(metric, current_epoch(metric, noon))
    path = truth.path_of(tmp_path, known.metric, known.epoch, known.fingerprint)
    half = truth.read(path)
    # Of the second hundred nobody knows how many were taken: any n from 100 to 200 is right.
    assert (half.begun, half.delivered) == (200, 100)
    assert [half.mismatch(n) == "" for n in (99, 100, 200, 201)] == [False, True, True, False]
    assert flock.run()["canary.yes_no"] == 50
    assert asked[2] == ("canary.yes_no", 50)
    done = truth.read(path)
    assert (done.begun, done.delivered) == (250, 150)
    # Ten minutes before a day ends nothing begins: its reports might come too late.
    clock.append(noon + 86_400 / 2 - 300)
    assert flock.run() == {}


def test_a_day_that_ends_meanwhile_is_left(tmp_path, monkeypatch):
    asked = []

    def takes_long(plan: Plan, devices: int, complete: int):
        asked.append(plan.now)
        return type("Tour", (), {"reports": Counter(accepted=devices)})

    monkeypatch.setattr(canary, "run_here", takes_long)
    evening = 1_796_040_000.0 + 86_400 / 2 - 700
    clock = iter([evening, evening, *([evening + 200] * 4)])
    parts = (Registered(APPS), Registered(APPS), "http://127.0.0.1:9", "k", tmp_path, 250)
    flock = Canary(*parts, clock=lambda: next(clock))
    assert flock.run() == {"canary.yes_no": 100} and asked == [evening]


class Registered:
    """A store, and a catalogue, that know one registry of an app."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def registries(self) -> "Registered":
        return self

    def texts(self) -> list[str]:
        return [self.text]

    def register(self, text: str):
        return loads(text)


def test_a_cap_below_a_canary_devices_charge_is_refused(tmp_path):
    text = APPS.replace("epsilon = 1.0", "epsilon = 0.01").replace("= 100", "= 3.5")
    flock = Canary(Registered(text), Registered(text), "http://127.0.0.1:9", "k", tmp_path, 100)
    flock = replace(flock, clock=lambda: 1_796_040_000.0)
    with pytest.raises(ValueError, match=r"lifetime_epsilon of at least 4 in .*, got 3.5"):
        flock.run()


def test_the_canarys_registry_changes_neither_cap_nor_prices_nor_recoveries():
    apps, birds = loads(APPS), registry()
    alone, both = Versions.of([apps]), Versions.of([apps, birds])
    assert (alone.cap, alone.cheapest) == (both.cap, both.cheapest)
    assert set(both.metrics) - set(alone.metrics) == {
        (name, metric.fingerprint) for name, metric in birds.metrics.items()
    }
    noon = 1_796_040_000.0
    assert possible_since(both.metrics.values(), {}, noon) == possible_since(
        alone.metrics.values(), {}, noon
    )


def test_a_file_of_an_app_with_a_metric_of_the_canarys_is_refused():
    other = APPS[APPS.index("[metrics") :].replace("s.theme", 's."canary.theme"')
    mixed = (APPS + other).replace("lifetime_epsilon = 100", "lifetime_epsilon = 200")
    assert for_apps(loads(APPS)) and for_apps(loads(mixed)) and not for_apps(registry())
    for fine in (APPS, registry().text):
        require_apart(loads(fine))
    with pytest.raises(RegistryError, match=r"metrics\.canary\.theme: must not begin with canary"):
        require_apart(loads(mixed))


def test_halves_of_years_and_keys_to_seal_to_make_no_new_version():
    sealed = loads(APPS.replace("\n\n[", f'\nseal = {{ key = 3, public = "{9:064x}" }}\n\n[', 1))
    later = loads(registry_text(sealed, date(2027, 3, 1)))
    assert later.seal == sealed.seal is not None
    assert {name: metric.fingerprint for name, metric in later.metrics.items()} == {
        name: metric.fingerprint for name, metric in registry().metrics.items()
    }
    assert later.metrics["canary.text"].starts == registry().metrics["canary.text"].expires


def test_a_canary_that_is_off_says_how_to_switch_it_on(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SOTTOVOCE_CANARY_DEVICES", "20")
    assert main(["canary"]) == 2
    assert "SOTTOVOCE_CANARY_DEVICES must be 0 or at least 100" in capsys.readouterr().err


@pytest.mark.slow
def test_up_keeps_a_canary_when_told_to(sottovoce, tmp_path: Path, monkeypatch):
    (tmp_path / "metrics.toml").write_text(LIVING)
    monkeypatch.setenv("SOTTOVOCE_CANARY_DEVICES", "100")
    data = tmp_path / "data"
    system = sottovoce(
        "up", "--metrics", tmp_path / "metrics.toml", "--data", data, "--port", free_port()
    )
    # In the last ten minutes of a day nothing begins, by design: then only that it runs.
    late = 86_400 - time.time() % 86_400 < 700
    wait_until(lambda: any("canary" in p.cmdline() for p in processes_naming(data)), 60)
    if not late:
        wait_until(lambda: len(list(data.glob("releases/canary.*/*.truth"))) == 4, 120)
    os.kill(system.pid, signal.SIGINT)
    assert system.wait(60) in (0, 130)
    wait_until(lambda: not processes_naming(data), 40)

"""`sottovoce simulate`: devices take part as real ones do, and what was true is printed."""

import json
import time
from datetime import date
from fractions import Fraction

import pytest

from aggregator.settings import ServerSettings
from client_sdk import loads
from client_sdk.epochs import label
from client_sdk.pending import current_epoch
from estimator.publish import publish_epoch
from estimator.releases.files import read
from estimator.source import StoreSource
from sottovoce.__main__ import main
from sottovoce.population import UNLISTED, Population, recordable, truth, uniform
from sottovoce.system import free_port, running

TODAY = date.today()
REGISTRY = f"""
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
[metrics.load]
question = "How long does the start take?"
type = "number"
range = [18, 30]
buckets = 4
missing = 20
sensitivity = "product"
epsilon = 4.0
epoch = "month"
min_reports = 50
starts = {TODAY.year}-01-01
expires = {TODAY.year + 1}-12-31
[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
when_absent = false
sensitivity = "product"
epsilon = 2.0
epoch = "month"
starts = {TODAY.year}-01-01
expires = {TODAY.year + 1}-12-31
[metrics.seldom]
question = "Is the seldom feature used?"
type = "boolean"
every = 2
sample = 0.5
sensitivity = "product"
epsilon = 2.0
epoch = "month"
min_reports = 10
starts = {TODAY.year}-01-01
expires = {TODAY.year + 1}-12-31
[metrics.start_page]
question = "Which site is the start page?"
type = "string"
candidates = ["a.example", "b.example"]
sensitivity = "product"
epsilon = 2.0
memoize = {{ epsilon_permanent = 4.0, distinct_values = 1 }}
rappor = {{ bits = 16, hashes = 2, cohorts = 4 }}
epoch = "month"
starts = {TODAY.year}-01-01
expires = {TODAY.year + 1}-12-31
"""
DEVICES, COMPLETE = 400, 6


@pytest.fixture
def metrics(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    return path


def test_devices_take_part_as_in_the_field_and_nobody_waits_for_an_epochs_end(
    metrics, tmp_path, capsys
):
    settings = ServerSettings(port=free_port(), fold_interval_seconds=0.2)
    ages = tmp_path / "ages.csv"
    ages.write_text("value,count\n18.5,3\n29.9,1\n1000,1\n")
    with running(REGISTRY, tmp_path / "data", settings=settings, with_schedule=False) as system:
        arguments = [
            *("simulate", "--metrics", str(metrics), "--endpoint", system.endpoint),
            *("--write-key", system.write_key, "--complete", str(COMPLETE)),
        ]
        begun = time.monotonic()
        assert main([*arguments, "--devices", str(DEVICES), "--json"]) == 0
        assert time.monotonic() - begun < 59, "it waited for what may not leave yet"
        found = json.loads(capsys.readouterr().out)
        assert (found["devices"], found["held"]) == (DEVICES, COMPLETE)
        assert set(found["reports"]) == {"accepted"}
        # 400 draws at 1/4, and at 1/2 for the sample: beyond 100 +- 53 once in ten million runs.
        assert loads(REGISTRY).metrics["seldom"].inclusion == Fraction(1, 4)
        reported = found["reports"]["accepted"] + found["held"] - 3 * DEVICES
        assert abs(reported - DEVICES / 4) < 53
        assert set(found["dropped"]) == {"not_sampled", "not_its_turn"}
        assert sum(found["dropped"].values()) == DEVICES - reported
        assert found["truth"]["load"] == dict.fromkeys(
            ("[18, 21)", "[21, 24)", "[24, 27)", "[27, 30]"), 0.25
        )

        assert main([*arguments, "--devices", "20", "--population", f"load={ages}"]) == 0
        told = capsys.readouterr().out
        assert "20 devices delivered their reports" in told and "values were not reported" in told
        assert f"{COMPLETE} reports of full clients were held back" in told
        assert "clamped" not in told  # 1000 counts as 30, and is reported
        rows = [line.split() for line in told.splitlines()]
        assert ["load", "[18,", "21)", "60.00", "%"] in rows
        assert ["load", "[27,", "30]", "40.00", "%"] in rows  # 1000 is beyond the last bucket

        source = StoreSource(system.store, system.catalogue)
        now = time.time()
        seldom = system.catalogue.current().metrics[
            "seldom", loads(REGISTRY).metrics["seldom"].fingerprint
        ]
        epoch = label("month", current_epoch(seldom, now))
        (outcome,) = publish_epoch(source, system.releases, now, "seldom", epoch, early=True)
        published = read(outcome.path)
        assert published.estimates.n >= reported


def test_a_buckets_middle_is_recorded_for_the_bucket():
    load = loads(REGISTRY).metrics["load"]
    assert [recordable(load, value) for value in uniform(load).values] == [19.5, 22.5, 25.5, 28.5]
    assert all(
        load.encode(recordable(load, bucket)) == (index, False)
        for index, bucket in enumerate(load.labels)
    )


def test_what_is_true_is_told_by_the_values_that_a_release_lists():
    import numpy as np

    page = loads(REGISTRY).metrics["start_page"]
    drawn = Population(("b.example", "c.example", UNLISTED), np.array([0.5, 0.2, 0.3]))
    assert truth(page, drawn) == {"a.example": 0, "b.example": 0.5, UNLISTED: 0.5}
    assert truth(page, uniform(page)) == {"a.example": 0.5, "b.example": 0.5}


@pytest.mark.parametrize(
    ("population", "message"),
    [
        ("load=nope.csv", "nope.csv: no such file, and no shipped population of that name"),
        ("load=airline_carrier", "load takes a number, got "),
        ("nosuch=airline_carrier", "with a known metric"),
    ],
)
def test_a_population_that_does_not_fit_is_named(metrics, capsys, population, message):
    arguments = ["--metrics", str(metrics), "--write-key", "k", "--population", population]
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err

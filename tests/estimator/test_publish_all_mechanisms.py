"""Every mechanism of the catalogue: from a file to a release that is read, drawn and surveyed."""

import json
import random
from datetime import date

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.mechanisms import CATALOGUE, MEMOIZED
from client_sdk.metric import Metric
from client_sdk.randomness import Coin
from client_sdk.registry import loads
from estimator.canary.monitor import survey
from estimator.due import due_at
from estimator.estimate import estimate
from estimator.publish import publish_epoch
from estimator.publish_figures import summary
from estimator.releases.across_epochs import average
from estimator.releases.files import check_tables, read, schema_text
from tests.registries import registry

WEEK = parse("week", "2026-W49")
REPORTS = 400
VALIDATOR = Draft202012Validator(json.loads(schema_text()))
SHAPES = {
    "one": ("ordinal", "values = [1, 2, 3, 4, 5, 6, 7, 8]\nmissing = 1", range(1, 9)),
    "number": ("number", "range = [0, 120]\nmissing = 0", (0.0, 12.5, 30, 31, 118)),
    "several": ("multi_select", 'values = ["a", "b", "c", "d", "e"]\nmost = 3', (["a", "c"], [])),
    "string": ("string", 'candidates = ["x", "y", "z"]', ("x", "x", "y")),
}
"""By what a mechanism encodes: the type, its keys, and what devices record."""
PLAIN = {memoized: plain for plain, memoized in MEMOIZED.items()}


def declared(name: str) -> tuple[Metric, tuple[object, ...]]:
    """A metric with that mechanism, and values for it."""
    kind = CATALOGUE[name]
    type, keys, values = SHAPES[kind.encodes]
    if name == "randomized_response":
        type, keys, values = "boolean", "", (True, False)
    more = f'mechanism = "{PLAIN.get(name, name)}"'
    if kind.memoizes:
        permanent = 3.0 if name == "d_bit_flip" else 6.0  # that one sends what it remembers
        more += f"\nmemoize = {{ epsilon_permanent = {permanent}, distinct_values = 2 }}"
    if name == "rappor":
        more = more.replace(
            'mechanism = "rappor"', "rappor = { bits = 16, hashes = 1, cohorts = 2 }"
        )
    text = f"""
[metrics.asked]
question = "What?"
type = "{type}"
{keys}
{more}
sensitivity = "product"
epsilon = 3.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-11-23
expires = 2027-02-01
"""
    return loads(registry(text, lifetime=200)).metrics["asked"], tuple(values)


def reported(metric: Metric, values: tuple[object, ...], seed: int) -> Tally:
    """What devices send, by a source that repeats: no alarm may depend on the day."""
    chance, mechanism = random.Random(seed), metric.mechanism
    coin = Coin(chance.randbytes)
    reports = np.zeros(mechanism.cohorts, np.int64)
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    for number in range(REPORTS):
        value, _ = metric.encode(values[number % len(values)])
        cohort = chance.randrange(mechanism.cohorts)
        response = mechanism.instantaneous(mechanism.permanent(value, cohort, coin), coin)
        reports[cohort] += 1
        counts[cohort, list(mechanism.support(response))] += 1
    return Tally(reports, counts)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_release_of_every_mechanism_is_whole(name, make_source, tmp_path):
    metric, values = declared(name)
    assert metric.mechanism.name == name
    source = make_source(metric)
    for place in range(2):
        source.add(metric, WEEK + place, reported(metric, values, place))
        due = due_at([metric], WEEK + place)
        (outcome,) = publish_epoch(
            source, tmp_path, due, "asked", f"2026-W{49 + place}", early=False
        )
        assert outcome.status == "OK", outcome
        release = read(outcome.path)
        VALIDATOR.validate(release.to_dict())
        assert release.estimates == estimate(metric, source.tally(metric, WEEK + place))
        assert release.text() == outcome.path.read_text()
        assert len(outcome.path.with_suffix(".html").read_text()) > 8_000
    assert not list(check_tables(tmp_path))
    found = [read(path) for path in sorted(tmp_path.glob("*/*.json"))]
    both = average(found)
    assert bool(both.entries) == bool(release.estimates.entries)
    assert (both.mean is None) == (release.estimates.mean is None)
    (row,) = survey(tmp_path, date(2026, 12, 20), 0.01)
    assert row.alarms == ()
    assert row.half_width is not None
    assert summary([release]).halfwidth == row.half_width

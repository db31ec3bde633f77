"""Every mechanism of the catalogue, the whole way: file, device, server, store, release."""

import json
import os
from dataclasses import dataclass

import numpy as np
import pytest

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.fold import Folder
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk import Client, loads
from client_sdk.authentication import batch_mac
from client_sdk.epochs import label
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Metric
from client_sdk.new_state import SECRET_BYTES
from client_sdk.pending import current_epoch
from client_sdk.report import encode_batch
from client_sdk.testing import WsgiTransport
from estimator.inversion.distribution import matrix, maximum_likelihood
from estimator.publish import publish_epoch
from estimator.releases.caveats import SMOOTHED
from estimator.releases.files import check_tables, read
from estimator.source import StoreSource
from sottovoce.fleet import report_of
from sottovoce.population import UNLISTED, Population, recordable, true_mean, truth
from tests.registries import registry

NOW = 1_796_040_000.0  # 30 November 2026, 12:00 UTC, a Monday
DEVICES, COMPLETE = 1500, 2
SIGMAS = 6.0

BOOLEAN = 'type = "boolean"'
CATEGORY = 'type = "category"\nvalues = ["red", "green", "blue", "black", "other"]\n'
CATEGORY += 'catch_all = "other"'
ORDINAL = 'type = "ordinal"\nvalues = [1, 2, 3, 4, 5]\nmissing = 1'
BUCKETS = 'type = "number"\nrange = [0, 60]\nbuckets = 12\nmissing = 0'
MEAN = 'type = "number"\nrange = [-20, 60]\nmissing = 0'
SEVERAL = 'type = "multi_select"\nvalues = ["camera", "gps", "mail", "files"]\nmost = 2'
STRING = 'type = "string"\ncandidates = ["a.example", "b.example", "c.example"]'
MEMOIZED = "memoize = { epsilon_permanent = 4.0, distinct_values = 2 }"
CONSTANT = "memoize = { epsilon_permanent = 2.0, distinct_values = 2 }"

ASKED = {
    "crashed": (BOOLEAN, "randomized_response"),
    "colour_kary": (CATEGORY, "generalized_randomized_response"),
    "colour_even_bits": (CATEGORY, "symmetric_unary"),
    "colour_bits": (CATEGORY, '{ name = "optimized_unary" }'),
    "colour_hashed": (CATEGORY, '{ name = "optimized_local_hashing", cells = 4 }'),
    "level_two_cells": (ORDINAL, "binary_local_hashing"),
    "level_sign": (ORDINAL, "hadamard_response"),
    "colour_blocks": (CATEGORY, '{ name = "block_hadamard_response", blocks = 2 }'),
    "colour_sets": (CATEGORY, '{ name = "subset_selection", size = 2 }'),
    "level_near": (ORDINAL, "exponential"),
    "rights_bits": (SEVERAL, "multi_hot_unary"),
    "rights_one": (SEVERAL, "padding_and_sampling"),
    "degrees_bit": (MEAN, "one_bit_mean"),
    "degrees_window": (MEAN, '{ name = "piecewise", steps = 16 }'),
    "degrees_laplace": (MEAN, "discrete_laplace"),
    "minutes_window": (BUCKETS, "square_wave"),
    "minutes_tree": (BUCKETS, '{ name = "hierarchical_histogram", branching = 3 }'),
    "site": (f"{STRING}\n{MEMOIZED}\nrappor = {{ bits = 32, cohorts = 4 }}", ""),
    "search": (STRING, '{ name = "count_mean_sketch", cells = 64, hashes = 16 }'),
    "search_sign": (STRING, '{ name = "hadamard_count_mean_sketch", cells = 64, hashes = 16 }'),
    "colour_kept_kary": (f"{CATEGORY}\n{MEMOIZED}", "generalized_randomized_response"),
    "colour_kept_even_bits": (f"{CATEGORY}\n{MEMOIZED}", "symmetric_unary"),
    "minutes_kept_bits": (f"{BUCKETS}\n{MEMOIZED}", "optimized_unary"),
    "colour_kept_hash": (f"{CATEGORY}\n{MEMOIZED}", "loloha"),
    "minutes_constant": (f"{BUCKETS}\n{CONSTANT}", '{ name = "d_bit_flip", bits = 6 }'),
}
"""Questions: keys of the type, and the mechanism as a file names it."""
EPOCHS = ("week", "once", "day", "month")


def _table(name: str, place: int) -> str:
    keys, mechanism = ASKED[name]
    chosen = mechanism if mechanism.startswith("{") else f'"{mechanism}"'
    return f"""
[metrics.{name}]
question = "What is the answer of this device to {name}?"
{keys}
{f"mechanism = {chosen}" if mechanism else ""}
sensitivity = "product"
epsilon = 2.0
epoch = "{EPOCHS[place % len(EPOCHS)]}"
owners = ["ui-team@example.org"]
starts = 2026-11-30
expires = 2027-01-04
"""


FILE = registry(*(_table(name, place) for place, name in enumerate(ASKED)))


def _population(**counts: float) -> Population:
    shares = np.array([*counts.values()])
    return Population(tuple(counts), shares / shares.sum())


ANSWERS = {
    "crashed": _population(true=1, false=3),
    "colour": _population(red=4, green=3, blue=2, mauve=1),
    "level": _population(**{"1": 4, "2": 3, "5": 3}),
    "rights": _population(**{"camera|gps": 4, "gps": 2, "camera|mail": 2, "": 2}),
    "degrees": _population(**{"-30": 5, "-2.5": 3, "11": 1, "44.4": 1}),  # -30 is clamped
    # A slope, since square_wave smears spikes.
    "minutes": _population(**{str(5 * step + 1): 14 - step for step in range(12)}),
    "site": _population(**{"a.example": 5, "b.example": 3, UNLISTED: 2}),
    "search": _population(**{"a.example": 5, "b.example": 3, UNLISTED: 2}),
}
"""What devices hold, by the first word of a question's name."""


def _held(name: str) -> Population:
    return ANSWERS[name.split("_")[0]]


@dataclass
class World:
    """The server's parts in this process, over a real store."""

    store: Store
    keys: Keys
    catalogue: Catalogue
    transport: WsgiTransport


@pytest.fixture
def world(redis_url, tmp_path):
    settings = ServerSettings(
        redis_url=redis_url, keys_file=tmp_path / "keys.json", planned_devices=8192
    )
    keys = Keys.load_or_create(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    catalogue = Catalogue(store)
    catalogue.register(FILE)
    app = create_app(store=store, keys=keys, catalogue=catalogue, clock=lambda: NOW)
    yield World(store, keys, catalogue, WsgiTransport(app.test_client(), keys.write_key))
    store.close()


def test_no_mechanism_type_or_epoch_is_left_out():
    metrics = loads(FILE).metrics
    assert {metric.mechanism.name for metric in metrics.values()} == set(CATALOGUE)
    assert {metric.epoch for metric in metrics.values()} == set(EPOCHS)
    assert len({metric.type for metric in metrics.values()}) == 6


def test_what_is_taken_for_true_is_what_devices_hold():
    metrics = loads(FILE).metrics
    true = {name: truth(metric, _held(name)) for name, metric in metrics.items()}
    assert true["crashed"] == {"false": 0.75, "true": 0.25}
    assert true["colour_kary"] == dict(red=0.4, green=0.3, blue=0.2, black=0, other=0.1)
    assert true["level_near"] == {"1": 0.4, "2": 0.3, "3": 0, "4": 0, "5": 0.3}
    assert true["rights_one"] == pytest.approx(dict(camera=0.6, gps=0.6, mail=0.2, files=0))
    assert true["site"] == {"a.example": 0.5, "b.example": 0.3, "c.example": 0, UNLISTED: 0.2}
    assert list(true["minutes_tree"].values()) == pytest.approx([n / 102 for n in range(14, 2, -1)])
    assert true_mean(metrics["degrees_bit"], _held("degrees_bit")) == pytest.approx(-5.21, abs=1e-6)


def test_the_truth_comes_back_from_every_mechanism(world, tmp_path):
    # By chance once in a million runs: 6 standard errors (each at least those of a rare value,
    # counts of 100 and more), 140 figures.
    metrics = loads(FILE).metrics
    answers = _answers(metrics)
    for row in range(COMPLETE):
        _record(world, metrics, answers, row, tmp_path / f"device-{row}")
    for row in range(COMPLETE, DEVICES):
        _send(world, metrics, answers, row)
    Folder(world.store).fold_once()
    source = StoreSource(world.store, world.catalogue)
    far = {}
    for name, metric in metrics.items():
        epoch = label(metric.epoch, current_epoch(metric, NOW))
        (outcome,) = publish_epoch(source, tmp_path, NOW, name, epoch, early=True)
        assert outcome.status == "OK", outcome
        release = read(outcome.path)
        assert (release.channels.mechanism, release.estimates.n) == (metric.mechanism.name, DEVICES)
        assert not release.plausibility.alarm
        far |= _off(metric, release.estimates)
    assert len(far) >= 130
    assert {figure: sigmas for figure, sigmas in far.items() if abs(sigmas) > SIGMAS} == {}
    assert not list(check_tables(tmp_path))
    assert _send(world, metrics, answers, 0) == {"epoch_closed"}


def _answers(metrics) -> dict[str, list[str]]:
    """What each device answers."""
    chance = np.random.default_rng(8)
    return {name: _held(name).draw(DEVICES, chance) for name in metrics}


def _record(world, metrics, answers, row, directory) -> None:
    """Let a complete client record and deliver."""
    client = Client(
        loads(FILE),
        transport=world.transport,
        enabled=True,
        respect_environment=False,
        state_dir=directory,
        clock=lambda: NOW,
    )
    for name, metric in metrics.items():
        client.record(name, recordable(metric, answers[name][row]))
    assert client.flush(timeout_seconds=60)
    status = client.status()
    client.close()
    assert not status.refused and set(status.dropped) <= {"clamped"}


def _send(world, metrics, answers, row) -> set[str]:
    """Send all answers of a new device in one batch, as a fleet's devices do."""
    secret, (device, key) = os.urandom(SECRET_BYTES), world.keys.enrol()
    reports = [
        report_of(metric, secret, answers[name][row], NOW) for name, metric in metrics.items()
    ]
    body = encode_batch(device, 1, os.urandom(16).hex(), reports)
    reply = world.transport.send(body, batch_mac(key, body))
    assert reply.status == 200, reply
    return set(json.loads(reply.body)["reports"])


def _off(metric: Metric, found) -> dict[tuple[str, object], float]:
    """How many standard errors each figure of a release lies from the truth."""
    held = _held(metric.name)
    if found.mean is not None:
        error = found.mean.standard_error
        return {(metric.name, "mean"): (found.mean.value - true_mean(metric, held)) / error}
    true = truth(metric, held)
    if metric.mechanism.name in SMOOTHED:
        # Of infinitely many reports: smoothing moves shares, which errors are not about.
        channel = matrix(metric.mechanism)
        law = maximum_likelihood(channel, 1e6 * channel @ np.array([*true.values()]))
        true = dict(zip(true, law.tolist(), strict=True))
    least = (metric.mechanism.rare_variance / found.n) ** 0.5
    return {
        (metric.name, entry.value): (
            (entry.share - true[_name(entry.value)]) / max(entry.standard_error, least)
        )
        for entry in found.all_entries
    }


def _name(value: object) -> str:
    if value is None:
        return UNLISTED
    return str(value).lower() if isinstance(value, bool) else str(value)

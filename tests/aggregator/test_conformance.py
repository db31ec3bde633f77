"""schemathesis against the server as it runs: all its checks, on uploads that are signed."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from aggregator.keyring.kinds import OpeningKey
from aggregator.keyring.rotation import rotate
from client_sdk.epochs import day_of
from tests.aggregator import contract
from tests.aggregator.contract import DOCUMENT
from tests.aggregator.respondents import Hall
from tests.fuzzing import Run

HOOKS = "tests.aggregator.signing_hooks"
CONFIG = """
[checks.positive_data_acceptance]
# What a schema cannot say: a budget of bytes, who signed, and which sequences a device has used.
expected-statuses = ["2xx", 401, 409, 410, 413]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 405, 411, 413, 415]

[[operations]]
include-path = "/v1/erase"
# Sealed bodies are made per type, not per address: these are batches.
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 413]

[[operations]]
include-path-regex = "^/v1/surveys/"
# Nor which surveys and invitations there are, and what is below a survey's modulus.
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 403, 404, 409, 413]
# Who knows no such survey says that before it looks at the rest.
[operations.checks.negative_data_rejection]
expected-statuses = [400, 404, 405, 411, 413, 415]
"""
INVITATION = "0f2d4b6987a5c3e11e3c5a7896b4d2f0"  # of the contract's example


def run_schemathesis(
    world: Any, server: Any, directory: Path, examples: int, seed: int
) -> Counter[str]:
    """Fuzz every operation; return how many batches, reports and so on the server counted."""
    environment = {
        "SCHEMATHESIS_HOOKS": HOOKS,
        "SOTTOVOCE_KEYS_FILE": str(world.settings.keys_file),
        "SOTTOVOCE_FUZZ_REPORT": world.report("theme", 1),
    }
    run = Run(str(contract.PATH), server.url, CONFIG, environment, examples, seed)
    run.in_directory(directory)
    return world.store.figures.counters()


@pytest.fixture
def server(world: Any, serve: Callable[[Any], Any]) -> Any:
    world.keys = rotate(world.settings.keys_file, OpeningKey, date(2026, 11, 30)).keys
    hall = Hall(world, around=day_of(time.time()))
    world.store.invitations.add("habits", [INVITATION])
    assert hall.survey.name == DOCUMENT["components"]["parameters"]["Survey"]["example"]
    return serve(world)


def test_generated_requests_are_answered_as_the_contract_says(
    world: Any, server: Any, tmp_path: Path
) -> None:
    counted = run_schemathesis(world, server, tmp_path, examples=35, seed=1)
    # It was not only the front door that was tried. What is generated from a seed changes with the
    # code (constants in it are tried as values): an unknown metric, or a version of one.
    unknown = counted["unknown_metric"] + counted["unknown_fingerprint"]
    assert counted["accepted"] >= 3 and unknown and counted["clones"]
    assert world.store.invitations.figures("habits").used == 1


@pytest.mark.slow
def test_many_generated_requests_are_answered_as_the_contract_says(
    world: Any, server: Any, tmp_path: Path
) -> None:
    counted = run_schemathesis(world, server, tmp_path, examples=400, seed=2)
    assert counted["accepted"] >= 40 and counted["clones"]

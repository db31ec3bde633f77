"""schemathesis against the dashboard as it runs: all its checks, among releases that exist."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from tests.estimator.dashboard.conftest import Desk
from tests.fuzzing import Run

CONFIG = """
[checks.positive_data_acceptance]
# What a schema cannot say: which releases and devices there are.
expected-statuses = ["2xx", 404, 409]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 404, 405]
"""


def fuzz(desk: Desk, url: str, directory: Path, examples: int, seed: int) -> None:
    device = desk.world.device()
    desk.world.charged(device, desk.world.report("theme"))
    cursor = desk.get("/v1/releases?limit=3").json["next"].rpartition("=")[2]
    known = {
        "metric": ["theme", "home_page"],
        "epoch": ["2026-W49", "2026-W50", "2026-W51", "2026-12-01"],
        "fingerprint": ["pooled", desk.world.metric("theme").fingerprint],
        "device": [device.id],
        "cursor": [cursor],
    }
    environment = {
        "SCHEMATHESIS_HOOKS": "tests.estimator.dashboard.read_hooks",
        "SOTTOVOCE_FUZZ_KNOWN": json.dumps(known),
    }
    contract = str(files("estimator.dashboard").joinpath("openapi.yaml"))
    Run(contract, url, CONFIG, environment, examples, seed).in_directory(directory)


def test_generated_questions_are_answered_as_the_contract_says(
    full: Desk, serve: Callable[..., str], tmp_path: Path
) -> None:
    fuzz(full, serve(full), tmp_path, examples=15, seed=1)
    assert "a request failed" not in (tmp_path / "dashboard.log").read_text()


@pytest.mark.slow
def test_many_generated_questions_are_answered_as_the_contract_says(
    full: Desk, serve: Callable[..., str], tmp_path: Path
) -> None:
    fuzz(full, serve(full), tmp_path, examples=300, seed=2)
    assert "a request failed" not in (tmp_path / "dashboard.log").read_text()

"""The examples are examples: their questions pass review, and each has a test that runs it."""

from pathlib import Path

import pytest

from client_sdk import load
from client_sdk.review import review
from sottovoce.__main__ import main

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/metrics.toml"))


def test_every_example_is_run_by_a_test() -> None:
    tests = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert set(NAMES) == tests - {"registries"} and len(NAMES) == 3


@pytest.mark.parametrize("name", NAMES)
def test_the_registry_of_an_example_passes_the_check(
    name: str, capsys: pytest.CaptureFixture
) -> None:
    path = EXAMPLES / name / "metrics.toml"
    assert main(["check", str(path)]) == 0
    registry = load(path)
    starts = max(metric.starts for metric in registry.metrics.values())
    # Years ahead, so that the examples last; silence, because they are short.
    allowed = {"expiry", "silence", "memoize"}
    assert {found.rule for found in review(registry, starts)} <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_an_example_fits_on_a_screen_and_makes_one_client(name: str) -> None:
    (program,) = (EXAMPLES / name).glob("*.py")
    text = program.read_text()
    assert len(text.splitlines()) <= 60
    assert text.count("Client(\n") == 1 and "enabled=" in text

"""`sottovoce preview`: what a device's user sees."""

import json
from pathlib import Path

import pytest

from client_sdk import Client
from client_sdk.testing import RecordingTransport
from sottovoce.__main__ import main
from tests.registries import Date, registry, theme

METRICS = registry(
    theme(
        "light", "dark", "system", "other", starts=Date("2026-12-01"), expires=Date("2027-01-01")
    ),
    lifetime=24.0,
)


@pytest.fixture
def device(tmp_path: Path) -> list[str]:
    """The arguments that show a device on which one report waits."""
    metrics, state = tmp_path / "metrics.toml", tmp_path / "state"
    metrics.write_text(METRICS)
    client = Client(
        metrics,
        enabled=True,
        respect_environment=False,
        state_dir=state,
        transport=RecordingTransport(),
        upload_within_seconds=1e9,
        clock=lambda: 1_796_126_400.0,
    )
    client.record("theme", "dark")
    client.close(5)
    return ["--state", str(state), "--metrics", str(metrics)]


def test_the_report_is_shown_in_words(
    device: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", *device]) == 0
    shown = capsys.readouterr().out
    assert '{"metric":"theme","fingerprint":"' in shown
    assert "theme, week 2026-W49: you may or may not have answered '" in shown
    assert "theme: epsilon 1 spent, 5 reserved, 4 left" in shown
    assert "This device has spent 1 of 24 lifetime epsilon." in shown


def test_json_holds_the_same(device: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", *device, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (report,) = document["reports"]
    assert report["report"]["metric"] == "theme"
    assert report["words"].startswith("theme, week 2026-W49: you may or may not")
    assert document["metrics"] == {
        "theme": {"spent": 1.0, "spent_covering_changes": 1.0, "reserved": 5.0, "left": 4.0}
    }
    assert document["lifetime_epsilon"] == 24.0


def test_the_file_is_optional(device: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", *device[:2]]) == 0
    assert "theme, epoch number 2970: " in capsys.readouterr().out


def test_a_directory_without_a_state_is_bad_input_and_gets_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "--state", str(tmp_path / "nothing")]) == 2
    assert "--state must hold a state.sqlite3" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()

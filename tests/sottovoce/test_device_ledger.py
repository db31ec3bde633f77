"""A device's own ledger, as its user sees it."""

import json
from pathlib import Path

import pytest

from client_sdk import loads
from client_sdk.erasure import erase
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.state import State
from sottovoce.__main__ import main

START = 1_796_083_200.0  # 2026-12-01
TEXT = """
schema = 1
[project]
name = "a"
lifetime_epsilon = 20
contact = "c"
[metrics.theme]
question = "Q?"
type = "boolean"
sensitivity = "product"
epsilon = 1
epoch = "day"
starts = 2026-12-01
expires = 2026-12-08
[metrics.page]
question = "Q?"
type = "string"
sensitivity = "product"
epsilon = 1
memoize = { epsilon_permanent = 4, distinct_values = 2 }
epoch = "day"
"""


@pytest.fixture
def device(tmp_path: Path) -> Path:
    registry = loads(TEXT)
    state = State(tmp_path / "state")
    for day in range(3):
        now = START + day * 86_400
        recorder = Recorder(state, registry, now, Coin())
        recorder.store(
            [
                Pending(registry.metrics[name], current_epoch(registry.metrics[name], now), value)
                for name, value in (("theme", 1), ("page", "x"))
            ]
        )
    state.close()
    return tmp_path / "state"


def test_a_device_states_both_figures(device, capsys):
    assert main(["ledger", "--state", str(device), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    theme, page = found["metrics"]["theme"], found["metrics"]["page"]
    assert (theme["reports"], theme["spent"], theme["reserved"], theme["left"]) == (3, 3, 7, 4)
    assert theme["spent_covering_changes"] == 3
    assert (page["reports"], page["spent"], page["left"]) == (3, 8, 0)
    # Three reports, each of 128 bits that may all have been drawn anew.
    mechanism = loads(TEXT).metrics["page"].mechanism
    fresh = float(mechanism.epsilon_instantaneous)
    assert page["spent_covering_changes"] == pytest.approx(3 * fresh, abs=1e-5)
    assert found["spent_epsilon"] == 11
    assert found["spent_epsilon_covering_changes"] == pytest.approx(3 + 3 * fresh, abs=1e-5)
    assert found["queued"] == 6


def test_a_device_explains_itself_in_words(device, capsys):
    assert main(["ledger", "--state", str(device)]) == 0
    shown = capsys.readouterr().out
    assert "spent 11 of its lifetime epsilon" in shown
    assert "with changes" in shown and "never comes back" in shown


def test_after_an_erasure_a_device_knows_a_total_only(device, tmp_path, capsys):
    state = State(device)
    state.enrolled("a" * 32, bytes(32))
    erase(state, loads(TEXT), START)
    state.close()
    assert main(["ledger", "--state", str(device), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"].keys() == {"elsewhere"}
    assert (found["spent_epsilon"], found["queued"], found["leaving"]) == (11, 0, True)
    assert found["spent_epsilon_covering_changes"] > 11
    assert main(["ledger", "--state", str(device)]) == 0
    shown = capsys.readouterr().out
    assert "(erased, or known to the server only)" in shown and "spent 11 of" in shown
    assert "not confirmed yet that it has erased" in shown
    assert main(["preview", "--state", str(device)]) == 0
    shown = capsys.readouterr().out
    assert "Nothing waits to be sent." in shown
    assert "not confirmed yet that it has erased" in shown and "page" not in shown


def test_a_folder_without_state_is_refused(tmp_path, capsys):
    assert main(["ledger", "--state", str(tmp_path)]) == 2
    assert "must hold a" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

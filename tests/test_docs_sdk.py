"""docs/sdk.md is executed: its snippets run one after another, and its tables are complete."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.consent import MACHINES
from client_sdk.state import FILE_NAME, default_directory

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "sdk.md").read_text()
NOON = 1_796_126_400.0
"""1 December 2026: a day on which the example of docs/registry.md is asked."""


def test_the_snippets_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = re.search(
        r"^```toml\n(.*?)^```",
        (ROOT / "docs" / "registry.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert registry is not None
    (tmp_path / "metrics.toml").write_text(registry[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SOTTOVOCE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "clock", lambda: NOON)
    for name in MACHINES:  # the page's app does not run under pytest
        monkeypatch.delenv(name, raising=False)
    first, *others = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(first, "sdk.md", "exec"), names)
    # Three lines record something: the example has begun, and its first answer waits.
    assert names["client"].preview().waiting and not names["client"].dropped
    for snippet in others:
        exec(compile(snippet, "sdk.md", "exec"), names)
    assert len(others) == 3 and names["status"].summary == "collecting"
    assert names["client"].status().summary.startswith("disabled: erased")
    assert Path(default_directory("shop-app"), FILE_NAME).exists()
    names["client"].close()


def test_every_argument_and_every_reason_is_on_the_page() -> None:
    for name in set(inspect.signature(Client).parameters) - {"transport", "clock"}:
        assert f"| `{name}` |" in PAGE, name
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    told = re.search(r"`dropped`: (.*?): clamped", str(Client.record.__doc__), re.DOTALL)
    assert told is not None
    reasons = re.findall(r"\b[a-z]+(?:_[a-z]+)*\b", told[1].partition(". There too")[0])
    assert len(reasons) > 15
    for reason in [*reasons, "clamped"]:
        assert f"`{reason}`" in rows, reason

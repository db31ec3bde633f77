"""docs/testing.md is executed: each snippet is a test file of a host app, and passes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "testing.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as a host app does whose environment has the SDK installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "client_sdk.pytest_plugin"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with the registry of docs/registry.md, and one test file per snippet."""
    (registry,) = blocks(ROOT / "docs" / "registry.md", "toml")
    (tmp_path / "metrics.toml").write_text(registry)
    for number, snippet in enumerate(blocks(PAGE, "python")):
        (tmp_path / f"test_snippet_{number}.py").write_text(snippet)
    return tmp_path


def test_every_snippet_of_the_page_passes_as_a_test(app: Path) -> None:
    ran = run_pytest(app)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tests = sum(snippet.count("def test_") for snippet in blocks(PAGE, "python"))
    assert f"{tests} passed" in ran.stdout


def test_every_fixture_is_on_the_page() -> None:
    from client_sdk import pytest_plugin

    fixtures = [name for name in vars(pytest_plugin) if name.startswith("sottovoce_")]
    assert len(fixtures) >= 4
    for name in fixtures:
        assert name in PAGE.read_text(), name

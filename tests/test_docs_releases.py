"""docs/releases.md is executed: commands and snippets run on real releases; tables are whole."""

import json
import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.keyring.keys import Keys
from aggregator.tally import Tally
from client_sdk import load
from client_sdk.epochs import parse
from estimator.estimate import estimate
from estimator.ledger.lifetime import lifetime
from estimator.plausibility import Plausibility
from estimator.releases import signatures
from estimator.releases.failures import note
from estimator.releases.files import schema_text, write
from estimator.releases.pages import write_index, write_pages
from estimator.releases.release import compose
from sottovoce.__main__ import main
from tests.estimator.conftest import expected_tally

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "releases.md").read_text()
SCHEMA = json.loads(schema_text())
PUBLISHED = 1_797_336_000.0
"""15 December 2026: all epochs of the fixture are over."""


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An analyst's directory: releases, metrics.toml, and the public keys from elsewhere."""
    (registry,) = blocks("toml", (ROOT / "docs" / "registry.md").read_text())
    (tmp_path / "metrics.toml").write_text(registry)
    metrics = load(tmp_path / "metrics.toml").metrics
    theme, home = metrics["theme"], metrics["home_page"]
    signing = Keys.fresh(date(2026, 11, 30)).signing
    folder = tmp_path / "releases"
    spent = lifetime([13_000_000] * 9, 24_000_000)
    for week, n in (("W46", 9000), ("W47", 9000), ("W48", 9000), ("W49", 99)):
        tally = expected_tally(theme, n, [0.5, 0.3, 0.15, 0.05])
        epoch, found = parse("week", f"2026-{week}"), estimate(theme, tally)
        seen = Plausibility(None, None, None)
        release = compose(theme, "shop-app", epoch, found, seen, spent, now=PUBLISHED)
        write_pages(write(release, folder, signing)[0], folder)
    mechanism = home.mechanism
    even = Tally(np.full(mechanism.cohorts, 100), np.full((mechanism.cohorts, mechanism.cells), 50))
    release = compose(
        home, "shop-app", parse("week", "2026-W48"), estimate(home, even), now=PUBLISHED
    )
    write_pages(write(release, folder, signing)[0], folder)
    note(folder, "theme", "2026-W45", [(theme.fingerprint, "no space left")], 1.0)
    write_index(folder, "shop-app")
    signatures.write_public_keys(folder, signing.public)
    signatures.write_public_keys(tmp_path, signing.public)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines() -> list[str]:
    shown = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(shown) > 8 and all(line.startswith("sottovoce ") for line in shown)
    return [line for line in shown if " monitor" not in line]


def test_the_commands_of_the_page_do_what_it_says(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for line in lines():
        assert main(shlex.split(line)[1:]) == 0, line
        said[line] = capsys.readouterr().out
    assert said["sottovoce releases"].index("FAILED") < said["sottovoce releases"].index("WITHHELD")
    assert "all good" in said["sottovoce releases verify --keys signing_keys.json"]
    assert (desk / "all.csv").read_text().count("theme,") == 3 * 4 + 1


def test_the_monitor_of_the_page_sees_no_alarm_but_what_it_should(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # home_page's bits are no mixture of anything, so there is one.
    assert main(["monitor"]) == 1
    assert "ALARM home_page" in capsys.readouterr().out
    for path in (desk / "releases" / "home_page").iterdir():
        path.unlink()
    assert main(["monitor", "--target", "0.5"]) == 0
    assert "n for +-0.5 %" in capsys.readouterr().out


def test_a_forger_of_releases_and_keys_is_found_with_the_separate_copy(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Keys.fresh(date(2026, 11, 30)).signing
    for path in (desk / "releases").glob("*/*.json"):
        signatures.sign_document(path, path.read_bytes(), forged.sign)
    signatures.write_public_keys(desk / "releases", forged.public)
    assert main(["releases", "verify"]) == 0
    assert main(["releases", "verify", "--keys", "signing_keys.json"]) == 1
    capsys.readouterr()


def test_the_snippets_of_the_page_run(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, notebook = blocks("python")
    names: dict[str, Any] = {}
    exec(compile(files, "releases.md", "exec"), names)
    assert re.search(r"^2026-W48 dark 30\.\d% \[", capsys.readouterr().out, re.MULTILINE)
    exec(compile(notebook, "releases.md", "exec"), names)
    assert [row["value"] for row in names["rows"]] == ["light", "dark", "system", "other"]


def test_every_file_is_on_the_page(desk: Path) -> None:
    found = [path.name for path in (desk / "releases").glob("*/*")]
    endings = {name[name.index(".", name.index(".") + 1) :] for name in found}
    assert {".json", ".csv", ".sig", ".html", ".shares.svg", ".trend.png"} <= endings
    assert all(ending in PAGE for ending in endings)
    assert all(f"`{path.name}`" in PAGE for path in (desk / "releases").iterdir() if path.is_file())


def test_every_field_is_on_the_page() -> None:
    entry, number = map(json.loads, blocks("json"))
    assert list(entry) == list(SCHEMA["$defs"]["entry"]["properties"])
    assert list(number["mean"]) == list(SCHEMA["$defs"]["mean"]["properties"])
    for quantile in number["quantiles"]:
        assert list(quantile) == list(SCHEMA["$defs"]["quantile"]["properties"])
    assert number.keys() <= SCHEMA["properties"].keys()
    for name in SCHEMA["$defs"]["entry"]["properties"]:
        assert f"`{name}`" in PAGE, name
    told = {"schema", "project", "metric", "type", "question", "epoch", "fingerprint", "epsilon"}
    for name in set(SCHEMA["properties"]) - told - {"code_version"}:
        assert f"`{name}`" in PAGE, name

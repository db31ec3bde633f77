"""docs/web.md is executed: Python states the metric of the page, and node draws its report."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from client_sdk import load
from client_sdk.web_definition import MECHANISMS
from tests.client_sdk.test_web_module import nodes

PAGE = (Path(__file__).parent.parent / "docs" / "web.md").read_text()
RUN = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (path) => ({ json: async () => JSON.parse(readFileSync(path, "utf8")) });
const { text } = await import("./page.js");
console.log(text);
"""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_snippets_of_the_page_draw_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.toml").write_text(block("toml"))
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "web.md", "exec"), {})
    page = tmp_path / "page"
    (page / "page.js").write_text(block("js"))
    (page / "package.json").write_text('{"type": "module"}')
    (page / "run.js").write_text(RUN)
    answer = subprocess.run(
        [nodes()[0], "run.js"], cwd=page, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    metric = load("metrics.toml").metrics["ever_late"]
    head = {"metric": "ever_late", "fingerprint": metric.fingerprint, "epoch": 0, "cohort": 0}
    texts = {json.dumps({**head, "response": bit}, separators=(",", ":")) for bit in "01"}
    assert answer.stdout.strip() in texts


def test_every_mechanism_of_browsers_is_on_the_page() -> None:
    for name in MECHANISMS:
        assert f"`{name}`" in PAGE, name

"""docs/web.md is executed: Python states the page's metric, node draws its report and sends it."""

import json
import re
import subprocess
from datetime import date
from pathlib import Path

import pytest
import requests

from aggregator.settings import ServerSettings
from client_sdk import load
from client_sdk.web_definition import MECHANISMS
from sottovoce.system import free_port, running
from tests.client_sdk.test_web_module import nodes

PAGE = (Path(__file__).parent.parent / "docs" / "web.md").read_text()
RUN = """
import { readFileSync } from "node:fs";
globalThis.fetch = async (path) => ({ json: async () => JSON.parse(readFileSync(path, "utf8")) });
const { text } = await import("./page.js");
console.log(text);
"""


SEND = """
const { deliver, pack } = await import("./sending.js");
const batch = await pack([text]);
const pauses = [];
console.log(JSON.stringify([await deliver(batch, (pause) => pauses.push(pause)), pauses]));
globalThis.fetch = async () => { throw new TypeError("Failed to fetch"); };
console.log(JSON.stringify([await deliver(batch, (pause) => pauses.push(pause)), pauses]));
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str) -> str:
    (found,) = blocks(language)
    return found


def ran(page: Path) -> list[str]:
    """Return the lines that run.js prints."""
    answer = subprocess.run(
        [nodes()[0], "run.js"], cwd=page, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def made_page(text: str) -> Path:
    """Make the page as its snippets do, here, of a metrics.toml."""
    Path("metrics.toml").write_text(text)
    exec(compile(block("python"), "web.md", "exec"), {})
    page = Path("page").resolve()
    (page / "page.js").write_text(blocks("js")[0])
    (page / "package.json").write_text('{"type": "module"}')
    return page


def test_the_snippets_of_the_page_draw_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = made_page(block("toml"))
    (page / "run.js").write_text(RUN)
    (text,) = ran(page)
    metric = load("metrics.toml").metrics["ever_late"]
    head = {"metric": "ever_late", "fingerprint": metric.fingerprint, "epoch": 0, "cohort": 0}
    texts = {json.dumps({**head, "response": bit}, separators=(",", ":")) for bit in "01"}
    assert text in texts


def test_the_snippets_of_the_page_send_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    year = date.today().year
    text = block("toml").replace("2026-12-01", f"{year}-01-01")
    text = text.replace("2027-03-01", f"{year + 1}-12-31")
    origin = "https://app.example.org"
    settings = ServerSettings(port=free_port(), workers=1, web_origins=(origin,))
    with running(text, tmp_path / "data", settings=settings, with_schedule=False) as system:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        leave = requests.options(f"{system.endpoint}/v1/reports", headers=asked, timeout=30)
        assert leave.headers["Access-Control-Allow-Origin"] == origin
        page = made_page(text)
        sending = blocks("js")[1].replace("https://telemetry.example.org", system.endpoint)
        sending = sending.replace("the project's write key", system.write_key)
        (page / "sending.js").write_text(sending)
        (page / "run.js").write_text(f"const real = fetch;{RUN}globalThis.fetch = real;{SEND}")
        _, *told = map(json.loads, ran(page))
    assert told == [[["accepted"], []], [None, [3600]]]


def test_every_mechanism_of_browsers_is_on_the_page() -> None:
    for name in MECHANISMS:
        assert f"`{name}`" in PAGE, name

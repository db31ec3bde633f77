"""docs/web.md is executed: Python states the page's metric, node draws its report and sends it."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import requests

from aggregator.settings import ServerSettings
from client_sdk import load
from client_sdk.report import MAX_BATCH_BYTES, MAX_BATCH_REPORTS
from client_sdk.web_definition import MECHANISMS
from sottovoce.__main__ import main
from sottovoce.system import System, free_port, running
from tests.javascript import WEB, bytes_with_comments, bytes_without_comments, loaded_with, node

PAGE = (Path(__file__).parent.parent / "docs" / "web.md").read_text()
ORIGIN = "https://app.example.org"
WEB_TESTS = Path(__file__).parent / "web"
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
APP = """
import { readFileSync } from "node:fs";
import { Machine } from "./machine.js";

const { places } = new Machine(); // node has no IndexedDB
globalThis.indexedDB = places.indexedDB;
Object.defineProperty(globalThis, "navigator", { value: { locks: places.locks } });
const real = fetch;
globalThis.fetch = async (url, how) =>
  url.startsWith("http") ? real(url, how) : new Response(readFileSync(url));
console.log(JSON.stringify(await import("./app.js")));
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str) -> str:
    (found,) = blocks(language)
    return found


def ran(page: Path) -> list[str]:
    """Return the lines that run.js prints."""
    return node("run.js", cwd=page).splitlines()


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, str]]:
    """All of it, and its metrics.toml: the page's, in these years."""
    year = date.today().year
    text = block("toml").replace("2026-12-01", f"{year}-01-01")
    text = text.replace("2027-03-01", f"{year + 1}-12-31")
    data = tmp_path_factory.mktemp("web") / "data"
    settings = ServerSettings(port=free_port(), workers=1, web_origins=(ORIGIN,))
    with running(text, data, settings=settings, with_schedule=False) as system:
        yield system, text


def aimed(snippet: str, system: System) -> str:
    """Return a snippet with the server and the key of a system."""
    snippet = snippet.replace("https://telemetry.example.org", system.endpoint)
    return snippet.replace("the project's write key", system.write_key)


def test_the_snippets_of_the_page_send_the_report(
    server: tuple[System, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    system, text = server
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    leave = requests.options(f"{system.endpoint}/v1/reports", headers=asked, timeout=30)
    assert leave.headers["Access-Control-Allow-Origin"] == ORIGIN
    page = made_page(text)
    (page / "sending.js").write_text(aimed(blocks("js")[1], system))
    (page / "run.js").write_text(f"const real = fetch;{RUN}globalThis.fetch = real;{SEND}")
    _, *told = map(json.loads, ran(page))
    assert told == [[["accepted"], []], [None, [3600]]]


def test_the_snippets_of_the_page_report_as_an_app(
    server: tuple[System, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    system, text = server
    page = made_page(text)
    (command,) = block("sh").splitlines()
    assert main(shlex.split(command)[1:]) == 0
    (page / "app.js").write_text(aimed(blocks("js")[2], system))
    shutil.copy(WEB_TESTS / "machine.js", page)
    (page / "run.js").write_text(APP)
    told = json.loads(ran(page)[0])
    (waiting,) = told["preview"]["waiting"]
    assert json.loads(waiting)["metric"] == "ever_late"
    assert {name: told[name] for name in ("sent", "summary", "spent", "left", "dropped")} == {
        "sent": True,
        "summary": "collecting",
        "spent": 1,
        "left": 1,
        "dropped": {},
    }


def test_the_sizes_of_the_page_are_those_of_the_modules() -> None:
    randomizers, client = loaded_with("sottovoce.js"), loaded_with("telemetry.js")
    (most,) = re.findall(r"a build step, below (\d+) KiB by gzip", PAGE)
    assert int(most) - 1 < bytes_with_comments(randomizers) / 1024 < int(most)
    told = r"below (\d+) KiB by gzip without comments, of which the randomizers are (\d+)\."
    ((most, part),) = re.findall(told, PAGE)
    assert int(most) - 1 < bytes_without_comments(client) / 1024 < int(most)
    assert round(bytes_without_comments(randomizers) / 1024) == int(part)


def test_a_batch_takes_as_much_as_the_page_says() -> None:
    assert f"up to {MAX_BATCH_REPORTS} reports in {MAX_BATCH_BYTES // 1024} KiB" in PAGE


def test_every_option_and_call_of_the_client_is_on_the_page() -> None:
    types = (WEB / "types.d.ts").read_text()
    for interface in ("Options", "Client"):
        body = re.search(rf"interface {interface} \{{\n(.*?)\n\}}", types, re.DOTALL)
        assert body is not None
        names = re.findall(r"^  (\w+)\??: ", body[1], re.MULTILINE)
        assert len(names) > 5
        for name in names:
            assert re.search(rf"^\| .*`{name}[(`]", PAGE, re.MULTILINE), name


def test_every_mechanism_of_browsers_is_on_the_page() -> None:
    for name in MECHANISMS:
        assert f"`{name}`" in PAGE, name

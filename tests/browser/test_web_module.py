"""The browser module in a real Chromium, under the strictest policy that lets a script run."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask, Response, send_file, send_from_directory

from tests.browser.checks import assert_sound
from tests.browser.visits import Open, wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WEB = ROOT / "client_sdk" / "web"
VECTORS = ROOT / "tests" / "client_sdk" / "web_vectors.json"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HTML = (
    '<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,">'
    '<script type="module" src="/run.js"></script></head>'
    "<body><main><h1>A page</h1><p id='equal'></p><p id='drawn'></p></main></body></html>"
)
SCRIPT = """
import { coinOf, load, newSecret } from "./web/sottovoce.js";

const bytes = (hex) => new Uint8Array((hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
const { reports } = await (await fetch("/vectors.json")).json();
let equal = 0;
for (const { definition, draws } of reports) {
  const metric = load(definition);
  for (const { answer, epoch, secret, words, report } of draws) {
    let left = bytes(words);
    const coin = coinOf((count) => {
      const taken = left.slice(0, count);
      left = left.slice(count);
      return taken;
    });
    const drawn = await metric.report(answer, { epoch, secret: bytes(secret), coin });
    equal += drawn === report && left.length === 0;
  }
}
const drawn = [];
for (const { definition } of reports) {
  drawn.push(await load(definition).report(null, { epoch: 1, secret: newSecret() }));
}
document.querySelector("#drawn").textContent = drawn.length;
document.querySelector("#equal").textContent = equal;
"""


def test_chromium_makes_the_same_reports_under_a_strict_policy(
    site: Callable[[Flask], str], visit: Open
) -> None:
    app = Flask(__name__)

    @app.get("/")
    def page() -> Response:
        return Response(HTML, headers={"Content-Security-Policy": POLICY})

    @app.get("/run.js")
    def script() -> Response:
        return Response(SCRIPT, mimetype="text/javascript")

    @app.get("/web/<name>")
    def module(name: str) -> Response:
        return send_from_directory(WEB, name)

    @app.get("/vectors.json")
    def vectors() -> Response:
        return send_file(VECTORS)

    seen = visit(site(app))
    wait_until(seen.page, "document.querySelector('#equal').textContent !== ''")
    text = VECTORS.read_text()
    assert seen.page.text_content("#equal") == str(text.count('"report":'))
    assert seen.page.text_content("#drawn") == str(text.count('"draws":'))
    assert_sound(seen)

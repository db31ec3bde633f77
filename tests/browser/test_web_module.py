"""The browser module in a real Chromium, under the strictest policy that lets a script run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from tests.browser.checks import assert_sound
from tests.browser.modules import page_of
from tests.browser.visits import Open, wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "client_sdk" / "web_vectors.json"
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
    app = page_of(SCRIPT, {"/vectors.json": lambda: json.loads(VECTORS.read_text())})
    seen = visit(site(app))
    wait_until(seen.page, "document.querySelector('#equal').textContent !== ''")
    text = VECTORS.read_text()
    assert seen.page.text_content("#equal") == str(text.count('"report":'))
    assert seen.page.text_content("#drawn") == str(text.count('"draws":'))
    assert_sound(seen)

"""A real Chromium sends to a server of another origin: from a page that it names, or another."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from aggregator.enrolment.limits import EnrolmentLimits
from client_sdk.web_definition import definition
from tests.aggregator.conftest import make_world
from tests.aggregator.test_web_sender import REGISTRY
from tests.browser.modules import page_of
from tests.browser.visits import Open, Visit

pytestmark = pytest.mark.slow

SCRIPT = """
import { enrol, finished, send } from "./web/sender.js";
import { load } from "./web/sottovoce.js";

const { server, writeKey, stated } = await (await fetch("/page.json")).json();
const told = [];
const note = async (act) => {
  try {
    told.push(await act());
  } catch ({ kind, reason, pauseSeconds, message }) {
    told.push(kind ? [kind, reason, pauseSeconds > 0] : message);
  }
};
let batch;
await note(() => enrol(server, { writeKey: "wrong" }));
await note(async () => {
  const identity = await enrol(server, { writeKey });
  const reports = [await load(stated).report(true, { epoch: 0 })];
  const made = { ...identity, sequence: 1, reports };
  batch = { ...made, ...(await finished(made)) };
  return (await send(server, batch)).verdict;
});
await note(() => enrol(server, { writeKey }));
if (batch) await note(async () => (await send(server, batch)).verdict);
document.querySelector("#drawn").textContent = JSON.stringify(told);
"""


def test_a_page_of_another_origin_sends_only_where_it_is_named(
    redis_url: str, tmp_path: Path, site: Callable[[Flask], str], visit: Open
) -> None:
    world = make_world(redis_url, tmp_path, REGISTRY)
    told: dict[str, Any] = {
        "writeKey": world.keys.write_key,
        "stated": definition(world.metric("ever_late")),
    }
    named, other = (
        site(page_of(SCRIPT, {"/page.json": lambda: told}, lambda: told["server"]))
        for _ in range(2)
    )
    told["server"] = site(
        world.app_with(
            clock=time.time,
            limits=EnrolmentLimits(1, 1),
            allowed_origins=[named],
        )
    )
    nobody = ["later", "network", False]
    before = world.contents()
    seen = visit(other)
    assert answers_of(seen) == [nobody] * 3
    assert world.contents() == before

    seen = visit(named)
    assert answers_of(seen) == [
        ["refused", "bad_write_key", False],
        "accepted",
        ["later", "rate_limited", True],
        "duplicate",
    ]
    assert seen.errors == [] and seen.violations == []
    assert {url.removeprefix(told["server"]) for url in seen.elsewhere} == {
        "/v1/devices",
        "/v1/reports",
    }
    world.store.close()


def answers_of(seen: Visit) -> Any:
    seen.page.wait_for_selector("#drawn:not(:empty)")
    return json.loads(seen.page.text_content("#drawn") or "")

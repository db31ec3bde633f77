"""The browser's sender, run by node, against the server as it is run."""

import json
import signal
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.problems import RETRY_AFTER_SECONDS
from client_sdk.web_definition import definition
from tests.aggregator.conftest import Gunicorn, World
from tests.javascript import WEB, node

YEAR = date.today().year
REGISTRY = "".join(
    f"""
[metrics.{name}]
question = "What does {name} ask?"
sensitivity = "census"
epsilon = 1.0
epoch = "once"
owners = ["survey@example.org"]
starts = {YEAR}-01-01
expires = {YEAR + 1}-12-31
{shape}
"""
    for name, shape in (
        ("ever_late", 'type = "boolean"'),
        ("colour", 'type = "category"\nvalues = ["red", "green", "blue"]\ncatch_all = "blue"'),
        (
            "sites",
            'type = "string"\nmemoize = { epsilon_permanent = 4.0, distinct_values = 1 }\n'
            "rappor = { bits = 16, hashes = 2, cohorts = 4 }",
        ),
    )
)
REGISTRY = f"""
schema = 1
[project]
name = "survey"
lifetime_epsilon = 10
contact = "survey@example.org"
{REGISTRY}"""
ACTS = """
import { enrol, finished, send } from "./sender.js";
import { load, newSecret } from "./sottovoce.js";

const { endpoint, writeKey, definitions, act, kept } = JSON.parse(process.argv[2]);

async function batch() {
  const identity = await enrol(endpoint, { writeKey });
  const reports = [];
  for (const [stated, answer] of definitions) {
    reports.push(await load(stated).report(answer, { epoch: 0, secret: newSecret() }));
  }
  const made = { ...identity, sequence: 1, reports };
  return { ...made, ...(await finished(made)) };
}

const tampered = (change) => ({
  fetch: async (...request) => {
    const answer = await fetch(...request);
    const told = change(await answer.json());
    return new Response(JSON.stringify(told), { status: answer.status });
  },
});

const acts = {
  batch,
  send: async () => send(endpoint, kept),
  twice: async () => {
    const made = await batch();
    return [await send(endpoint, made), await send(endpoint, { ...made })];
  },
  raised: async () => send(endpoint, kept, tampered((told) => ({ ...told, spent: 9e9 }))),
  silenced: async () => send(endpoint, kept, tampered(({ mac, ...told }) => told)),
  clone: async () => send(endpoint, { ...kept, ...(await finished(kept)) }),
  stranger: async () => send(endpoint, { ...kept, mac: "0".repeat(64) }),
  unknown: async () => {
    const one = kept.reports[0].replace('"ever_late"', '"never_asked"');
    const next = await finished({ ...kept, sequence: 2, reports: [one] });
    return send(endpoint, { ...kept, ...next });
  },
  redirected: async () => {
    const { createServer } = await import("node:http");
    const port = createServer((_, answer) => {
      answer.writeHead(307, { Location: endpoint + "/v1/reports" }).end();
    }).listen(0, "127.0.0.1");
    await new Promise((done) => port.on("listening", done));
    try {
      return await send(`http://127.0.0.1:${port.address().port}`, kept);
    } finally {
      port.close();
    }
  },
};
if (kept) kept.key = Uint8Array.from(kept.key);
try {
  const told = await acts[act]();
  if (told.key) told.key = [...told.key];
  console.log(JSON.stringify(told));
} catch ({ kind, reason, pauseSeconds, message }) {
  console.log(JSON.stringify(kind ? [kind, reason, pauseSeconds] : message));
}
"""
Act = Callable[..., Any]


@pytest.fixture
def survey(redis_url: str, new_world: Callable[..., World]) -> Any:
    made = new_world(redis_url, registry=REGISTRY, workers=1)
    yield made
    made.store.close()


@pytest.fixture
def act(survey: World, tmp_path: Path) -> Act:
    """Have node do something: act(endpoint, name, kept=None, write_key=...) -> what it tells."""
    script = tmp_path / "acts.js"
    script.write_text(ACTS.replace('"./', f'"{WEB.as_uri()}/'))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    metrics = survey.registry.metrics
    answers = {"ever_late": True, "colour": "green", "sites": "a.example"}

    def run(endpoint: str, name: str, kept: Any = None, write_key: str | None = None) -> Any:
        told = {
            "endpoint": endpoint,
            "writeKey": survey.keys.write_key if write_key is None else write_key,
            "definitions": [(definition(metrics[each]), said) for each, said in answers.items()],
            "act": name,
            "kept": kept,
        }
        return json.loads(node(script, json.dumps(told)))

    return run


Serve = Callable[..., Gunicorn]


def test_reports_of_a_browser_are_taken_once(survey: World, serve: Serve, act: Act) -> None:
    first, again = act(serve(survey).url, "twice")
    assert first == {"verdict": "accepted", "spent": 6_000_000, "reports": ["accepted"] * 3}
    assert again == {**first, "verdict": "duplicate"}


def test_a_kept_batch_meets_every_kind_of_answer(survey: World, serve: Serve, act: Act) -> None:
    server = serve(survey, SOTTOVOCE_ENROL_LIMIT="1")
    assert act(server.url, "batch", write_key="wrong") == ["refused", "bad_write_key", None]
    kept = act(server.url, "batch")
    assert isinstance(kept, dict), kept
    kind, reason, pause = act(server.url, "batch")
    assert (kind, reason) == ("later", "rate_limited") and 1 <= pause <= 7200
    untouched = survey.contents()

    assert act(server.url, "stranger", kept) == ["refused", "bad_mac", None]
    assert act(server.url, "redirected", kept) == ["later", "network", None]
    with redis.Redis.from_url(survey.redis_url) as client:
        client.config_set("maxmemory", "1mb")
        kind, reason, pause = act(server.url, "send", kept)
        client.config_set("maxmemory", "1gb")
    assert (kind, reason) == ("later", "unavailable") and pause in RETRY_AFTER_SECONDS
    assert survey.contents() == untouched

    # It is counted, and whoever sits in between hides that; so the same bytes are sent again.
    assert act(server.url, "raised", kept) == ["untrusted", "mac", None]
    assert act(server.url, "silenced", kept) == ["untrusted", "mac", None]
    assert act(server.url, "send", kept)["verdict"] == "duplicate"
    refused = {"verdict": "accepted", "spent": 6_000_000, "reports": ["unknown_metric"]}
    assert act(server.url, "unknown", kept) == refused
    assert act(server.url, "clone", kept) == ["refused", "clone_suspected", None]

    server.process.send_signal(signal.SIGTERM)
    server.process.wait(15)
    assert act(server.url, "send", kept) == ["later", "network", None]
    assert act(server.url, "batch") == ["later", "network", None]

// The sender against servers that are away, busy, wrong, or somebody else.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { enrol, finished, send, SendError } from "../../client_sdk/web/sender.js";

const file = new URL("../client_sdk/web_vectors.json", import.meta.url);
const { batches } = JSON.parse(readFileSync(file, "utf8"));
const key = Uint8Array.from(Buffer.from(batches[1].key, "hex"));
const batch = { ...batches[1], key };
const [accepted, , duplicate, , revoked, clone, erased] = batches[1].answers;
const device = "8f14e45fceea167a5a36dedd4bea2543";
const granted = JSON.stringify({ device, key: batches[1].key });
const problem = (kind) => ({ type: `urn:sottovoce:problem:${kind}`, title: "No" });

/** A fetch that gives one answer, and notes what it was asked. */
function answering(body, status = 200, headers = {}) {
  const calls = [];
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const fetch = async (...call) => calls.push(call) && new Response(text, { status, headers });
  return { fetch, calls };
}

const failure = (kind, reason, pause = null) => new SendError(kind, reason, pause);

async function meets(server, error) {
  await assert.rejects(send("https://a.example", batch, server), error);
  assert.equal(server.calls.length, 1, "it was tried again");
}

test("a request says what it must and nothing of who asks", async () => {
  const server = answering(accepted.answer);
  await send("https://a.example/", batch, server);
  const [[url, { signal, ...how }]] = server.calls;
  assert.equal(url, "https://a.example/v1/reports");
  assert.ok(signal instanceof AbortSignal);
  assert.deepEqual(how, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Sottovoce-MAC": batch.mac },
    body: batch.body,
    keepalive: true,
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
    cache: "no-store",
  });
});

test("beyond 60 kB a request does not outlive its page", async () => {
  for (const [length, keepalive] of [[59_999, true], [60_000, false]]) {
    const server = answering(accepted.answer);
    const body = batch.body.padEnd(length);
    await send("", { ...batch, body }, server);
    assert.equal(server.calls[0][1].keepalive, keepalive);
  }
});

test("a device shows the write key, or an admission, and is given an identity", async () => {
  for (const [shown, header] of [
    [{ writeKey: "w" }, "Bearer w"],
    [{ admission: "m.s" }, "Admission m.s"],
  ]) {
    const server = answering(granted, 201);
    assert.deepEqual(await enrol("", shown, server), { device, key });
    const [[url, { headers, body }]] = server.calls;
    assert.deepEqual([url, headers.Authorization, body], ["/v1/devices", header, "{}"]);
  }
});

const MISREAD = ["", "{}", "[]", "null", "7", "<html>", granted.replace("8", "G"), granted.slice(2)];
for (const text of [...MISREAD, granted.replace(device, `["${device}"]`).slice(0, 99)]) {
  test(`an enrolment that reads ${text.slice(0, 16)} gives no identity`, async () => {
    const told = enrol("", { writeKey: "w" }, answering(text, 201));
    await assert.rejects(told, failure("untrusted", "unreadable"));
  });
}

test("an enrolment is refused with the problem's word, and a page in between with its status", async () => {
  const wrong = enrol("", { writeKey: "w" }, answering(problem("bad_write_key"), 401));
  await assert.rejects(wrong, failure("refused", "bad_write_key"));
  const many = answering(problem("rate_limited"), 429, { "Retry-After": "61" });
  await assert.rejects(enrol("", { writeKey: "w" }, many), failure("later", "rate_limited", 61));
  const odd = enrol("", { writeKey: "w" }, answering("no", 403));
  await assert.rejects(odd, failure("refused", "status_403"));
});

test("a batch has at most 256 reports in 64 KiB, and at least one", async () => {
  const made = (reports) => finished({ device, key, sequence: 1, reports });
  const room = 65_536 - (await made(["0"])).body.length + 1;
  assert.equal((await made(["0".repeat(room)])).body.length, 65_536);
  await made(new Array(256).fill("{}"));
  for (const reports of [[], new Array(257).fill("{}"), ["0".repeat(room + 1)]]) {
    await assert.rejects(made(reports), /^RangeError: a batch has 1\.\.256 reports in 64 KiB, got /);
  }
  // Two bytes a letter.
  await assert.rejects(made(["\u00fc".repeat(room / 2 + 1)]), RangeError);
});

test("each batch has its own nonce, and holds the reports as they are", async () => {
  const reports = ['{"a" : 1}', '{ "b":2 }'];
  const bodies = new Set();
  for (let count = 0; count < 9; count++) {
    const { body } = await finished({ device, key, sequence: 3, reports });
    assert.ok(body.endsWith(`,"reports":[${reports[0]},${reports[1]}]}`));
    bodies.add(JSON.parse(body).nonce);
  }
  assert.equal(bodies.size, 9);
  for (const nonce of bodies) assert.match(nonce, /^[0-9a-f]{32}$/);
});

test("without the browser's chance there is no batch", async (t) => {
  t.mock.method(crypto, "getRandomValues", () => { throw new Error("no entropy"); });
  await assert.rejects(finished({ device, key, sequence: 1, reports: ["{}"] }), /no entropy/);
});

for (const [pause, seconds] of [
  [null, null],
  ["0", 0],
  ["17", 17],
  ["86401", 86_400],
  ["9".repeat(400), 86_400],
  ["Wed, 21 Oct 2026 07:28:00 GMT", 3600],
  ["-1", 3600],
  ["1e3", 3600],
  ["", 3600],
]) {
  test(`a server that asks for ${pause} is given that time`, async () => {
    const headers = pause === null ? {} : { "Retry-After": pause };
    for (const [status, kind] of [[429, "rate_limited"], [503, "unavailable"]]) {
      await meets(answering(problem(kind), status, headers), failure("later", kind, seconds));
    }
  });
}

test("a server that fails is asked again later, whoever says so", async () => {
  await meets(answering(problem("internal"), 500), failure("later", "internal"));
  await meets(answering("<h1>Bad Gateway</h1>", 502), failure("later", "status_502"));
  // A MAC makes it no answer.
  await meets(answering(accepted.answer, 504), failure("later", "status_504"));
});

test("no connection, or one that breaks, is no answer", async () => {
  const away = async () => { throw new TypeError("Failed to fetch"); };
  await assert.rejects(send("", batch, { fetch: away }), failure("later", "network"));
  const broken = new ReadableStream({ pull: (stream) => stream.error(new Error("reset")) });
  const half = async () => new Response(broken);
  await assert.rejects(send("", batch, { fetch: half }), failure("later", "network"));
});

test("after ten seconds nobody waits, be it for the first byte or for the last", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const until = (signal) =>
    new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  const silent = (_, { signal }) => until(signal);
  const slow = async (_, { signal }) => ({ text: () => until(signal) });
  for (const fetch of [silent, slow]) {
    const told = send("", batch, { fetch });
    let over = false;
    told.catch(() => (over = true));
    await new Promise(setImmediate);
    t.mock.timers.tick(9999);
    await new Promise(setImmediate);
    assert.equal(over, false);
    t.mock.timers.tick(1);
    await assert.rejects(told, failure("later", "network"));
  }
});

test("an answered request leaves no timer behind", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const server = answering(accepted.answer);
  await send("", batch, server);
  t.mock.timers.tick(10_000);
  assert.equal(server.calls[0][1].signal.aborted, false);
});

test("the first answer to the same bytes counts", async () => {
  const told = await send("", batch, answering(duplicate.answer));
  assert.deepEqual(told, { verdict: "duplicate", spent: 0, reports: duplicate.answer.reports });
});

const untrusted = failure("untrusted", "mac");
const { answer } = accepted;
const [first, ...rest] = answer.reports;
for (const [what, change] of Object.entries({
  "nothing spent": { spent: 0 },
  "spent as text": { spent: String(answer.spent) },
  "spent not whole": { spent: answer.spent + 0.5 },
  "spent beyond counting": { spent: 2 ** 53 },
  "no spent": { spent: undefined },
  "another verdict": { verdict: "duplicate" },
  "a verdict of another status": { verdict: "erased" },
  "a verdict of JavaScript": { verdict: "constructor" },
  "no verdict": { verdict: null },
  "a report's reason changed": { reports: ["unknown_metric", ...rest] },
  "a report less": { reports: rest },
  "reports run together": { reports: [`${first}\0${rest[0]}`, ...rest.slice(1)] },
  "a report in a list": { reports: [[first], ...rest] },
  "reports that are none": { reports: answer.reports.join("\0") },
  "no reports": { reports: undefined },
  "no MAC": { mac: undefined },
  "an empty MAC": { mac: "" },
  "half a MAC": { mac: answer.mac.slice(0, 32) },
  "more than a MAC": { mac: answer.mac + "0" },
  "the MAC in capitals": { mac: answer.mac.toUpperCase() },
  "the MAC in a list": { mac: [answer.mac, ""] },
  "another answer's MAC": { mac: duplicate.answer.mac },
  "the request's MAC": { mac: batch.mac },
})) {
  test(`an answer with ${what} is not believed`, async () => {
    await meets(answering({ ...answer, ...change }), untrusted);
  });
}

test("an answer to another batch is not believed", async () => {
  const { answers } = batches[0];
  await meets(answering(answers[0].answer), untrusted);
  const { body, mac } = await finished(batch);
  const other = send("", { ...batch, body, mac }, answering(answer));
  await assert.rejects(other, untrusted);
  const stranger = send("", { ...batch, key: new Uint8Array(32) }, answering(answer));
  await assert.rejects(stranger, untrusted);
});

for (const text of ["", "null", "[]", "7", '"accepted"', "{}", "<html>Log in</html>", "[".repeat(9e4)]) {
  test(`an answer that reads ${text.slice(0, 9)} is not believed`, async () => {
    for (const status of [200, 202]) await meets(answering(text, status), untrusted);
  });
}

test("the end of an identity is the server's word or nobody's", async () => {
  for (const { status, answer } of [revoked, clone, erased]) {
    const told = { ...problem(answer.verdict), ...answer };
    await meets(answering(told, status), failure("refused", answer.verdict));
    await meets(answering({ ...told, mac: batch.mac }, status), untrusted);
    await meets(answering(problem(answer.verdict), status), untrusted);
    await meets(answering(told, 200), untrusted);
    // It goes with one status; with others not even the word is passed on.
    await meets(answering(told, 400), failure("refused", "status_400"));
    await meets(answering(told, 503), failure("later", "status_503"));
  }
});

test("any other refusal is told by the problem's word, or by its status", async () => {
  for (const [status, kind] of [[400, "malformed"], [401, "bad_mac"], [415, "sealing_required"]]) {
    await meets(answering(problem(kind), status), failure("refused", kind));
  }
  for (const [status, body] of [
    [404, "Not here"],
    [403, { type: "urn:sottovoce:problem:<b>" }],
    [418, { type: "https://example.org/problem" }],
    [409, { type: ["urn:sottovoce:problem:"] }],
    [404, problem("constructor")],
    [410, null],
  ]) {
    await meets(answering(body, status), failure("refused", `status_${status}`));
  }
});

test("an error says what happened and holds no key", () => {
  const error = failure("later", "unavailable", 5);
  assert.ok(error instanceof Error);
  assert.equal(error.message, "later: unavailable");
  assert.deepEqual({ ...error }, { kind: "later", reason: "unavailable", pauseSeconds: 5 });
});

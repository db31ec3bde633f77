// The telemetry client between a page, a state and a server, each by itself: what it does with all.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { newLife } from "../../client_sdk/web/life.js";
import { read } from "../../client_sdk/web/project.js";
import { store } from "../../client_sdk/web/recorder.js";
import { DAY, Machine, START, Server, definitions, eventually, page, pass, settled, timers } from "./world.js";

const SECRET = "https://canary.example/Zürich";

/** A document that a test hides. */
function leavable() {
  const listeners = [];
  return {
    visibilityState: "visible",
    addEventListener: (_, listener) => listeners.push(listener),
    turn(visibilityState) {
      this.visibilityState = visibilityState;
      listeners.forEach((listener) => listener());
    },
    hide() {
      this.turn("hidden");
    },
  };
}

test.beforeEach(() => timers.clear());

test("a report is charged, kept, sent and forgotten, and the server's figure is adopted", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  assert.equal(client.record("theme", "dark"), undefined);
  let status = await client.status();
  assert.deepEqual([status.summary, status.spent, status.left, status.queued], ["collecting", 1, 999, 1]);
  const { upload, waiting } = await client.preview();
  assert.equal(upload, null);
  server.spent = 3_000_000;
  assert.equal(await client.flush(), true);
  assert.deepEqual(JSON.parse(server.bodies()[0]).reports, waiting.map((text) => JSON.parse(text)));
  assert.ok(server.bodies()[0].includes(waiting[0]));
  status = await client.status();
  assert.deepEqual([status.spent, status.left, status.queued, status.dropped], [3, 997, 0, {}]);
});

test("the length of an upload does not tell how many reports are in it", async () => {
  const lengths = new Set();
  for (const values of [["theme"], ["theme", "mood"], ["theme", "mood", "home_page"]]) {
    const [machine, server] = [new Machine(), new Server()];
    const client = page(machine, server);
    for (const name of values) client.record(name, { theme: "dark", mood: true }[name] ?? null);
    await client.flush();
    const [body] = server.bodies();
    assert.equal(JSON.parse(body).reports.length, values.length);
    lengths.add(body.length);
  }
  assert.deepEqual([...lengths], [1024]);
});

test("many reports go in batches that a page can send as it goes", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  for (let day = 0; day < 60; day++, machine.now += DAY) {
    client.record("theme", "dark");
    client.record("mood", true);
    client.record("home_page", `${day}`);
    await client.status();
  }
  for (const each of machine.device.spool) each.until = machine.now + DAY; // as of one epoch
  assert.equal(await client.flush(), true);
  const bodies = server.bodies();
  assert.ok(bodies.length > 1 && bodies.every(({ length }) => length <= 16_384));
  const sequences = bodies.map((body) => JSON.parse(body).sequence);
  assert.deepEqual(sequences, sequences.map((_, index) => index + 1));
  const reports = bodies.flatMap((body) => JSON.parse(body).reports);
  assert.equal(reports.length, 180);
});

test("before consent nothing is opened, kept, charged or sent", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server, { enabled: false });
  client.record("theme", "dark");
  assert.equal(await client.flush(), false);
  await settled();
  assert.deepEqual([machine.opened, machine.kept.size, server.requests], [0, 0, []]);
  const status = await client.status();
  assert.deepEqual(status.dropped, { disabled: 1 });
  assert.equal(status.summary, "disabled: not enabled by the app");
  await client.setEnabled(true);
  client.record("theme", "dark");
  assert.equal(await client.flush(), true);
  assert.equal(server.bodies().length, 1);
});

for (const wish of [{ doNotTrack: "1" }, { globalPrivacyControl: true }, { webdriver: true }]) {
  const [name] = Object.keys(wish);
  test(`${name} keeps it off, unless the app has asked its user better`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    const client = page(machine, server, {}, { navigator: wish });
    client.record("theme", "dark");
    await client.setEnabled(true);
    client.record("theme", "dark");
    await client.flush();
    assert.deepEqual([machine.kept.size, server.requests.length], [0, 0]);
    const { summary, dropped } = await client.status();
    assert.deepEqual([summary, dropped], [`disabled: ${name} is set`, { disabled: 2 }]);
    const asked = page(machine, server, { respectEnvironment: false }, { navigator: wish });
    asked.record("theme", "dark");
    assert.equal(await asked.flush(), true);
    assert.equal(server.bodies().length, 1);
  });
}

test("what says that it does not object does not", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const navigator = { doNotTrack: "0", globalPrivacyControl: false, webdriver: false };
  assert.equal((await page(machine, server, {}, { navigator }).status()).summary, "collecting");
});

test("of many tabs one reports, once an epoch; the others are told why not", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const tabs = Array.from({ length: 5 }, () => page(machine, server));
  for (const tab of tabs) for (let turn = 0; turn < 3; turn++) tab.record("theme", "dark");
  const reasons = await Promise.all(tabs.map(async (tab) => (await tab.flush(), tab.status())));
  const told = reasons.map(({ dropped }) => dropped.already_reported);
  assert.deepEqual(told.sort(), [2, 3, 3, 3, 3]);
  assert.equal(server.bodies().flatMap((body) => JSON.parse(body).reports).length, 1);
  machine.now += DAY;
  tabs[3].record("theme", "dark");
  await tabs[3].flush();
  assert.equal((await tabs[0].status()).spent, 2);
});

test("what cannot be reported is counted by its reason, and nothing throws", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const told = { mood: { starts: "2026-12-02" }, home_page: { expires: "2026-12-01" } };
  const client = page(machine, server, { definitions: definitions(told) });
  const trap = new Proxy({}, { get: () => assert.fail(SECRET), has: () => assert.fail(SECRET) });
  for (const value of [17, {}, trap, Symbol(SECRET), 1n, () => {}, [SECRET]]) client.record("theme", value);
  client.record("mood", true);
  client.record("home_page", SECRET);
  for (const name of ["nothing", "__proto__", undefined, trap, Symbol("x")]) client.record(name, SECRET);
  const { dropped, summary } = await client.status();
  assert.deepEqual(dropped, { wrong_type: 7, not_started: 1, expired: 1, unknown_metric: 5 });
  assert.equal(summary, "collecting");
});

test("a value that comes again touches no state", async () => {
  const machine = new Machine();
  const client = page(machine, new Server());
  client.record("theme", "dark");
  await client.status();
  const { writes } = machine;
  for (let turn = 0; turn < 9; turn++) {
    client.record("theme", "light");
    await client.status();
  }
  assert.deepEqual([machine.writes, (await client.status()).dropped], [writes, { already_reported: 9 }]);
});

test("a page records 1,000 values at once, and no more", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  for (let turn = 0; turn < 1500; turn++) client.record("theme", "dark");
  assert.deepEqual((await client.status()).dropped, { already_reported: 999, queue_full: 500 });
});

for (const [many, length, left] of [[1000, 1, 1000], [10, 60_000, 9]]) {
  test(`of ${many} reports that wait, ${length} characters each, the oldest go for a new one`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    const client = page(machine, server);
    client.record("theme", "dark");
    await client.status();
    const [{ until }] = machine.device.spool;
    const texts = Array.from({ length: many }, (_, age) => String(age).padEnd(length));
    machine.device.spool = texts.map((text) => ({ text, until }));
    client.record("mood", true);
    const { queued, dropped, spent } = await client.status();
    assert.deepEqual([queued, dropped, spent], [left, { spool_full: many + 1 - left }, 2]);
    const { waiting } = await client.preview();
    assert.deepEqual(waiting.slice(0, -1), texts.slice(many + 1 - left));
    assert.equal(JSON.parse(waiting.at(-1)).metric, "mood");
  });
}

test("a page that dies while it sends leaves the same bytes to the next", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const normal = server.answer.reports;
  server.answer.reports = () => new Promise(() => {}); // the page is gone before the answer
  const gone = page(machine, server);
  gone.record("theme", "dark");
  void gone.flush();
  await eventually(() => server.bodies().length === 1);
  machine.held.clear(); // a browser lets go of the locks of a page that is gone
  server.answer.reports = normal;
  const client = page(machine, server);
  const { upload } = await client.preview();
  client.record("theme", "light");
  assert.equal(await client.flush(), true);
  assert.deepEqual(server.bodies(), [upload, upload]);
  assert.equal(server.requests[1].headers["Sottovoce-MAC"], server.requests[2].headers["Sottovoce-MAC"]);
  assert.deepEqual((await client.status()).dropped, { already_reported: 1 });
  assert.equal((await client.status()).spent, 1);
});

test("there is one upload a window, at a moment of chance, also for later pages", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const first = page(machine, server);
  first.record("theme", "dark");
  await first.status();
  assert.equal(server.requests.length, 0);
  const { at } = machine.device.plan;
  assert.ok(machine.now <= at && at <= machine.now + 3600);
  machine.now = at + 1;
  page(machine, server);
  await eventually(() => server.bodies().length === 1 && machine.device.plan.uploaded);
  const uploaded = machine.now;
  first.record("mood", true);
  await first.status();
  const next = machine.device.plan.at;
  assert.ok(uploaded + 3600 <= next && next <= uploaded + 7200, `${next - uploaded}`);
  await pass(machine, 7300);
  await eventually(() => server.bodies().length === 2);
});

test("moments differ", async () => {
  const moments = new Set();
  for (let turn = 0; turn < 10; turn++) {
    const machine = new Machine();
    const client = page(machine, new Server());
    client.record("theme", "dark");
    await client.status();
    moments.add(machine.device.plan.at);
  }
  assert.equal(moments.size, 10); // of 2**32 moments: two equal ones by chance: 1e-8
});

test("a page that is left sends what waits, but once a window", async () => {
  const [machine, server, document] = [new Machine(), new Server(), leavable()];
  const client = page(machine, server, {}, { document });
  client.record("theme", "dark");
  document.turn("visible");
  await settled();
  assert.equal(server.requests.length, 0);
  document.hide();
  await eventually(() => machine.device?.plan.uploaded);
  client.record("mood", true);
  document.hide();
  await settled();
  assert.equal(server.bodies().length, 1);
  machine.now += 3601;
  document.hide();
  await eventually(() => server.bodies().length === 2);
});

test("a page that is left does not try sooner after a failure", async () => {
  const [machine, server, document] = [new Machine(), new Server(), leavable()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server, {}, { document });
  client.record("theme", "dark");
  document.hide();
  await eventually(() => server.bodies().length === 1 && machine.device.plan.failures);
  machine.device.plan.at = machine.now + 20;
  document.hide();
  await settled();
  assert.equal(server.bodies().length, 1);
  machine.now += 21;
  document.hide();
  await eventually(() => server.bodies().length === 2);
});

test("a pause that the server asks for is kept by every page, even if asked", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => server.problem(503, "store_unavailable", {}, { "Retry-After": "7200" });
  const client = page(machine, server);
  client.record("theme", "dark");
  assert.equal(await client.flush(), false);
  server.answer.reports = (body) => server.signed(body);
  machine.now += 7190;
  assert.equal(await page(machine, server).flush(), false);
  assert.equal(server.bodies().length, 1);
  machine.now += 20;
  assert.equal(await page(machine, server).flush(), true);
  assert.equal(new Set(server.bodies()).size, 1);
});

test("after failures it tries ever more rarely, not for ever", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server);
  client.record("theme", "dark");
  let longest = 0;
  for (let turn = 0; turn < 25; turn++) {
    await client.flush();
    longest = Math.max(longest, machine.device.plan.at - machine.now);
    assert.ok(machine.device.plan.at - machine.now <= Math.min(30 * 2 ** turn, 6 * 3600));
  }
  assert.ok(longest > 3600);
  assert.equal(new Set(server.bodies()).size, 1);
  machine.now += 12 * DAY;
  await client.flush();
  assert.deepEqual((await client.status()).refused, { too_old: 1 });
  assert.equal((await client.status()).queued, 0);
});

test("what failed is tried again by the page itself", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.flush();
  server.answer.reports = (body) => server.signed(body);
  assert.ok([...timers.values()].every(({ seconds }) => seconds <= 30));
  await pass(machine, 31);
  await eventually(() => machine.device.plan.uploaded);
  assert.equal(server.bodies().length, 2);
});

test("a batch does not tell what was recorded first, and waits as long as the last of it", async () => {
  const names = ["theme", "mood", "home_page"];
  for (const order of [names, [...names].reverse()]) {
    const [machine, server] = [new Machine(), new Server()];
    server.answer.reports = () => Promise.reject(new TypeError("no network"));
    const client = page(machine, server, { definitions: definitions({ theme: { grace_days: 1 } }) });
    for (const name of order) client.record(name, null);
    await client.flush();
    machine.now = START + 2 * DAY + 1; // too late for the theme, if it went alone
    await client.flush();
    const [body, same, ...more] = server.bodies();
    assert.deepEqual([same, more], [body, []]);
    const sent = JSON.parse(body).reports.map(({ metric }) => metric);
    assert.deepEqual(sent, ["theme", "home_page", "mood"]);
    machine.now = START + 4 * DAY + 1;
    await client.flush();
    assert.deepEqual((await client.status()).refused, { too_old: 3 });
    assert.deepEqual([machine.device.identity, machine.device.former.length], [undefined, 1]);
  }
});

test("a clock that was set back silences nobody", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  machine.now += 300 * DAY;
  client.record("mood", true); // expired by then
  machine.now = START + DAY;
  client.record("theme", "dark");
  await client.status();
  machine.device.plan.at += 100 * DAY;
  machine.device.plan.paused = machine.now + 100 * DAY;
  page(machine, server);
  await eventually(() => server.bodies().length === 1);
});

test("reports wait no longer than the server wants them", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.status();
  const { until } = machine.device.spool[0];
  assert.equal(until, START + 4 * DAY);
  machine.now = until + 1;
  assert.equal(await client.flush(), true);
  assert.deepEqual([server.requests.length, (await client.status()).refused], [0, { too_old: 1 }]);
  assert.equal((await client.status()).spent, 1);
});

test("a device whose key was retired enrols anew; what was spent stays spent", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  client.record("home_page", "example.org");
  await client.flush();
  server.answer.reports = (body) => server.signed(body, "identity_revoked", 401);
  client.record("theme", "dark");
  assert.equal(await client.flush(), true);
  assert.deepEqual((await client.status()).refused, { identity_revoked: 1 });
  assert.equal(machine.device.former.length, 1);
  assert.equal(machine.device.plan.failures, 1); // it enrols with the next run, not at once
  server.answer.reports = (body) => server.signed(body);
  client.record("mood", true);
  assert.equal(await client.flush(), true);
  assert.deepEqual(server.bodies().map((body) => JSON.parse(body).sequence), [1, 2, 1]);
  assert.equal(server.bodies("devices").length, 2);
});

for (const [verdict, status] of [["clone_suspected", 409], ["erased", 410]]) {
  test(`${verdict} ends a state for good, by the server's word only`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    const client = page(machine, server);
    client.record("theme", "dark");
    server.answer.reports = (body) => {
      const told = { sequence: body.sequence, verdict, spent: 0, reports: [], mac: "0".repeat(64) };
      return server.problem(status, verdict, told);
    };
    assert.equal(await client.flush(), false);
    assert.equal(machine.device.suspended, undefined);
    server.answer.reports = (body) => server.signed(body, verdict, status);
    assert.equal(await client.flush(), false);
    assert.match((await client.status()).summary, /^disabled: /);
    machine.now += DAY;
    client.record("theme", "dark");
    assert.deepEqual((await client.status()).dropped, { suspended: 1 });
    assert.deepEqual([machine.device.spool, machine.device.batch], [[], undefined]);
  });
}

for (const passed of [2 * DAY, -DAY]) {
  test(`a refusal that may be anybody's is not believed, nor in the way after ${passed} s`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    server.answer.reports = () => server.problem(401, "bad_mac");
    const client = page(machine, server);
    client.record("theme", "dark");
    await client.flush();
    assert.ok(machine.device.plan.at >= machine.now + 12 * 3600);
    machine.now += 6;
    await client.flush(); // an app that asks may try soon
    assert.equal(server.bodies().length, 2);
    machine.device.plan.paused = 0;
    machine.now += passed; // a clock may be set back
    await client.flush();
    assert.deepEqual((await client.status()).refused, { unanswered: 1 });
    assert.equal(new Set(server.bodies()).size, 1);
    assert.deepEqual([machine.device.identity, machine.device.former.length], [undefined, 1]);
  });
}

test("what the server refuses is counted by its reason", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = (body) => server.signed(body, "accepted", 200, "epoch_closed");
  const client = page(machine, server);
  client.record("theme", "dark");
  assert.equal(await client.flush(), true);
  assert.deepEqual((await client.status()).refused, { epoch_closed: 1 });
});

for (const [what, harm] of Object.entries({
  "no database": (machine) => (machine.places.indexedDB = null),
  "no locks": (machine) => (machine.places.locks = null),
  "a database that is blocked": (machine) => (machine.fault = new DOMException(SECRET, "SecurityError")),
  "a full disk": (machine) => (machine.writeFault = new DOMException(SECRET, "QuotaExceededError")),
  "a state of another version": (machine) =>
    machine.kept.set("telemetry.shop-app,device", { ...newLife(), version: 2, shares: 7 }),
})) {
  test(`${what}: nothing is sent, and nothing throws`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    harm(machine);
    const client = page(machine, server, {}, machine.places);
    client.record("theme", "dark");
    assert.equal(await client.flush(), false);
    client.record("mood", true);
    const { summary, dropped } = await client.status();
    assert.match(summary, /^disabled: no state: [A-Za-z]+$/);
    assert.deepEqual(dropped, { no_state: 2 });
    assert.deepEqual(await client.preview().then(({ waiting }) => waiting), []);
    assert.equal(server.requests.length, 0);
    await client.setEnabled(false);
    await client.erase();
    assert.equal(server.bodies().length, 0);
  });
}

test("a page whose state is lost reports nothing more; the next page begins anew", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.status();
  machine.kept.clear();
  client.record("mood", true);
  await client.flush();
  assert.deepEqual((await client.status()).dropped, { no_state: 1 });
  assert.equal(server.requests.length, 0);
  const next = page(machine, server);
  next.record("theme", "dark");
  assert.equal(await next.flush(), true);
  assert.equal((await next.status()).spent, 1);
});

for (const [what, options] of Object.entries({
  "a file that is not there": { definitions: undefined, url: "/none.json" },
  "another version": { definitions: { ...definitions(), version: 2 } },
  "a law without noise": {
    definitions: (() => {
      const broken = definitions();
      broken.metrics[0].definition.mechanism.parameters.keep = String(1n << 64n);
      return broken;
    })(),
  },
  "no lifetime": { definitions: { ...definitions(), lifetime: undefined } },
  ...Object.fromEntries(
    ["every", "starts", "expires", "grace_days", "distinct_values", "charge"].map((figure) => [
      `no ${figure}`,
      { definitions: definitions({ mood: { [figure]: undefined } }) },
    ]),
  ),
  "a charge of 0": { definitions: definitions({ mood: { charge: 0 } }) },
})) {
  test(`definitions that cannot be used collect nothing: ${what}`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    const world = { fetch: async () => new Response("", { status: 404 }) };
    const client = page(machine, server, options, world);
    client.record("theme", "dark");
    assert.equal(await client.flush(), false);
    const { summary, dropped, spent } = await client.status();
    assert.match(summary, /^disabled: no definitions: /);
    assert.deepEqual([dropped, spent, machine.opened], [{ no_definitions: 1 }, 0, 0]);
    await client.setEnabled(false);
    assert.equal(await client.erase(), false);
  });
}

test("strings beyond the paid ones repeat a paid one, and no string is kept or sent", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const told = { home_page: { distinct_values: 2 } };
  const client = page(machine, server, { definitions: definitions(told) });
  const sent = [];
  for (const each of ["a", "b", "c", "a", SECRET, "d"]) {
    client.record("home_page", `${SECRET}/${each}`);
    await client.status();
    sent.push(machine.dump());
    await client.flush();
    machine.now += DAY;
  }
  assert.equal([...machine.device.memory.values()][0].size, 2);
  const all = [...sent, machine.dump(), JSON.stringify(server.requests)].join();
  for (const part of ["canary", "Zürich", "Z\\u00fcrich", Buffer.from(SECRET).toString("base64")]) {
    assert.ok(!all.includes(part), part);
  }
  assert.equal((await client.status()).queued, 0);
  assert.equal(server.bodies().length, 6);
});

test("beyond the paid strings the latest paid one is repeated", async () => {
  const { reports } = JSON.parse(readFileSync(new URL("../client_sdk/web_vectors.json", import.meta.url)));
  // Its noise is none, so that responses can be compared.
  const { definition } = reports.find(({ name }) => name === "rappor thresholds 0 and 2**64");
  const stated = definitions({ home_page: { definition, distinct_values: 2 } });
  const project = read({ ...stated, metrics: stated.metrics.slice(2) });
  const [metric] = project.metrics.values();
  const kept = newLife();
  for (const [epoch, value] of ["a", "b", "a", "c", "d", "b"].entries()) {
    assert.deepEqual(await store(kept, project, [{ metric, epoch, value }], START), []);
  }
  const [a, b, ...rest] = kept.spool.map(({ text }) => JSON.parse(text).response);
  assert.notEqual(a, b);
  assert.deepEqual(rest, [a, b, b, b]);
});

test("no promise is left to fail by itself", async () => {
  // node fails a test file whose rejections nobody handles; each of these has one inside.
  const [machine, server] = [new Machine(), new Server()];
  machine.fault = new DOMException("x", "SecurityError");
  for (const act of ["flush", "status", "preview", "erase"]) await page(machine, server)[act]();
  for (const wanted of [true, false]) await page(machine, server).setEnabled(wanted);
  const document = leavable();
  page(machine, server, {}, { document }).record("theme", "dark");
  document.hide();
  await settled();
});

// Opt-outs and erasures: what a page, other tabs and the server then have, and what nobody sends.

import assert from "node:assert/strict";
import test from "node:test";

import { DAY, Machine, Server, definitions, eventually, page, pass, timers } from "./world.js";

const SECRET = "https://canary.example/Zürich";

test.beforeEach(() => timers.clear());

test("an opt-out empties the queue at once, and refunds nothing", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.flush();
  client.record("mood", true);
  const { spent: before } = await client.status();
  client.record("home_page", "example.org"); // not even stored
  await client.setEnabled(false);
  const { queued, dropped, spent } = await client.status();
  assert.deepEqual([queued, dropped, spent], [0, { opted_out: 3 }, before]);
  assert.deepEqual([machine.device.spool, machine.device.batch], [[], undefined]);
  const requests = server.requests.length;
  client.record("home_page", "example.org");
  await pass(machine, 10 * 3600);
  assert.equal(server.requests.length, requests);
  await client.setEnabled(true);
  client.record("theme", "dark");
  await client.flush();
  assert.equal((await client.status()).dropped.already_reported, 1);
});

for (const [looks, moment, sent] of [
  [1, "while it looks which reports are overdue", []],
  [2, "while it makes a batch", ["devices"]],
]) {
  test(`an upload that has begun ends with an opt-out ${moment}`, async () => {
    const [machine, server] = [new Machine(), new Server()];
    let [looked, leaving] = [0, undefined];
    const now = () => {
      if (machine.device?.plan.failures && ++looked === looks) leaving = client.setEnabled(false);
      return machine.now;
    };
    const client = page(machine, server, {}, { now });
    client.record("theme", "dark");
    assert.equal(await client.flush(), false);
    await leaving;
    assert.deepEqual(server.requests.map(({ path }) => path), sent);
    assert.deepEqual([machine.device.spool, machine.device.batch], [[], undefined]);
  });
}

test("consent that is withdrawn in one tab is withdrawn in all, until one is told otherwise", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const [tab, other] = [page(machine, server), page(machine, server)];
  other.record("theme", "dark");
  assert.equal(await other.flush(), true);
  await tab.setEnabled(false);
  const requests = server.requests.length;
  other.record("mood", true); // before it has looked
  assert.equal(await other.flush(), false);
  const { summary, spent, dropped } = await other.status();
  assert.deepEqual([summary, spent], ["disabled: withdrawn in another tab", 1]);
  assert.deepEqual(dropped, { opted_out: 1 });
  await pass(machine, 10 * 3600);
  assert.equal(server.requests.length, requests);
  await other.setEnabled(true);
  other.record("mood", true);
  assert.equal(await other.flush(), true);
  assert.equal(JSON.parse(server.bodies().at(-1)).reports[0].metric, "mood");
  await other.erase();
  await tab.setEnabled(true);
  await other.setEnabled(true);
  await other.erase();
  tab.record("home_page", "example.org");
  assert.equal(await tab.flush(), false);
});

test("an identity whose first batch is given up is not used again, and is erased with the others", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.flush();
  await client.setEnabled(false);
  assert.deepEqual([machine.device.identity, machine.device.former.length], [undefined, 1]);
  server.answer.reports = (body) => server.signed(body);
  const first = server.device;
  server.device = "0".repeat(32);
  await client.setEnabled(true);
  client.record("mood", true);
  await client.flush();
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  client.record("home_page", "example.org");
  await client.flush();
  await client.setEnabled(false); // the second batch of its identity
  assert.equal(machine.device.identity.device, server.device);
  assert.equal(await client.erase(), true);
  const erased = server.bodies("erase").map((body) => JSON.parse(body).device);
  assert.deepEqual(erased, [first, server.device]);
});

test("an erasure keeps a total, refunds nothing, and tells the server before anything else", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  client.record("theme", "dark");
  client.record("home_page", SECRET);
  await client.flush();
  const { secret } = machine.device;
  const { spent } = await client.status();
  const answer = server.answer.erase;
  server.answer.erase = () => server.say(200, { verdict: "erased", mac: "0".repeat(64) });
  assert.equal(await client.erase(), false);
  const { shares, memory, paid, identity, farewell, marks } = machine.device;
  assert.deepEqual([[...shares.keys()], memory.size, paid.size, identity], [[""], 0, 0, undefined]);
  assert.equal(farewell.length, 1);
  assert.deepEqual([...marks.keys()], ["theme day", "home_page day"]);
  assert.notDeepEqual(machine.device.secret, secret);
  assert.equal((await client.status()).spent, spent);
  server.answer.erase = answer;
  const later = page(machine, server);
  later.record("theme", "light");
  later.record("mood", true);
  await later.flush();
  assert.deepEqual((await later.status()).dropped, { already_reported: 1 });
  const paths = server.requests.map(({ path }) => path);
  assert.deepEqual(paths, ["devices", "reports", "erase", "erase", "devices", "reports"]);
  assert.equal(await later.erase(), true);
  assert.deepEqual(machine.device.farewell, []);
});

test("an erasure withdraws consent, and drops what waited", async () => {
  const [machine, server] = [new Machine(), new Server()];
  server.answer.reports = () => Promise.reject(new TypeError("no network"));
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.flush();
  client.record("mood", true); // not even stored
  assert.equal(await client.erase(), true);
  client.record("home_page", "example.org");
  assert.equal(await client.flush(), false);
  const { summary, queued, dropped } = await client.status();
  assert.equal(summary, "disabled: erased, and not enabled by the app since");
  assert.deepEqual([queued, dropped], [0, { opted_out: 2, disabled: 1 }]);
  assert.deepEqual([machine.device.batch, server.bodies().length], [undefined, 1]);
});

test("an erasure that nobody confirmed is told again by a later page that has nothing else to say", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const client = page(machine, server);
  client.record("theme", "dark");
  await client.flush();
  const answer = server.answer.erase;
  server.answer.erase = () => Promise.reject(new TypeError("no network"));
  for (let turn = 0; turn < 2; turn++) assert.equal(await client.erase(), false);
  server.answer.erase = answer;
  page(machine, server);
  await eventually(() => timers.size);
  await pass(machine, 3600);
  await eventually(() => !machine.device.farewell.length);
  const told = server.bodies("erase").map((body) => JSON.parse(body).device);
  assert.deepEqual(told, Array(3).fill(server.device));
});

test("an erasure forgets epochs that nobody can report any more, but for what is asked once", async () => {
  const [machine, server] = [new Machine(), new Server()];
  const told = { mood: { epoch: "once" }, theme: { every: 3 } };
  const client = page(machine, server, { definitions: definitions(told) });
  for (let day = 0; day < 40; day++, machine.now += DAY) {
    for (const [name, value] of [["mood", true], ["theme", "dark"], ["home_page", "a"]]) {
      client.record(name, value);
    }
    await client.status();
  }
  const today = Math.floor(machine.now / DAY);
  assert.equal(machine.device.marks.get("home_page day").length, 40);
  await client.erase();
  const { marks } = machine.device;
  assert.deepEqual(marks.get("mood once"), [0]);
  assert.equal(Math.min(...marks.get("home_page day")), today - 31);
  const block = Math.floor(Math.min(...marks.get("theme day")) / 3);
  assert.ok(3 * block + 3 + 31 > today && 3 * block + 31 <= today, `${today - 3 * block}`);
});

test("without a state there is nothing to erase", async () => {
  const [machine, server] = [new Machine(), new Server()];
  assert.equal(await page(machine, server).erase(), true);
  assert.deepEqual([machine.kept.size, server.requests.length], [0, 0]);
});

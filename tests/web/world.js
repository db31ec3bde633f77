// A page, and what is outside of it, in memory: timers, definitions, a server by script, `Machine`.

import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

import { start } from "../../client_sdk/web/telemetry.js";
import { DAY, Machine, START } from "./machine.js";

export { DAY, Machine, START };

const { lives } = JSON.parse(
  readFileSync(new URL("../client_sdk/web_lives.json", import.meta.url), "utf8"),
);

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const macOf = (key, of, text) =>
  createHmac("sha256", key).update(`sottovoce ${of} v1\0`).update(text).digest("hex");

// Timers do not run by themselves: a test says when.
export const timers = new Map();
const { setTimeout: later } = globalThis;
let timersMade = 0;
globalThis.setTimeout = (act, milliseconds, ...given) => {
  timers.set(++timersMade, { act: () => act(...given), seconds: milliseconds / 1000 });
  return timersMade;
};
globalThis.clearTimeout = (timer) => timers.delete(timer);

/** Let everything happen that does not wait for a timer. */
export const settled = () => new Promise((done) => later(done, 30));

/** Wait until something holds, for half a minute. */
export async function eventually(holds) {
  for (let turn = 0; !holds(); turn++) {
    assert.ok(turn < 1000, `in vain: ${holds}`);
    await settled();
  }
}

/** The metrics of some life's file, each to be changed at will. */
export function definitions(changes = {}, lifetime = 1_000_000_000) {
  const all = lives.flatMap(({ files }) => files).flatMap(({ metrics }) => metrics);
  const found = (name) => structuredClone(all.find(({ definition }) => definition.metric === name));
  const whole = { starts: "2026-12-01", expires: "2027-03-01", every: 1, sample: String(1n << 64n) };
  const metrics = ["theme", "mood", "home_page"].map((name) => ({
    ...found(name),
    ...whole,
    epoch: "day",
    grace_days: 3,
    ...changes[name],
  }));
  return { version: 1, project: "shop-app", lifetime, metrics };
}

/** A server that a test writes: it keeps each request, and answers as `answer` says. */
export class Server {
  constructor() {
    this.requests = [];
    this.key = randomBytes(32);
    this.device = hex(randomBytes(16));
    this.spent = 0;
    this.answer = {
      devices: () => this.say(201, { device: this.device, key: hex(this.key) }),
      reports: (body) => this.signed(body),
      erase: ({ nonce }) => this.say(200, { verdict: "erased", mac: macOf(this.key, "erased", nonce) }),
    };
    this.fetch = async (url, { body, headers }) => {
      const path = String(url).split("/v1/")[1];
      this.requests.push({ path, body, headers });
      return this.answer[path](JSON.parse(body));
    };
  }

  bodies(path = "reports") {
    return this.requests.filter((each) => each.path === path).map(({ body }) => body);
  }

  say(status, document, headers = {}) {
    return new Response(JSON.stringify(document), { status, headers });
  }

  problem(status, reason, more = {}, headers = {}) {
    return this.say(status, { type: `urn:sottovoce:problem:${reason}`, ...more }, headers);
  }

  /** An answer under the MAC of the server. */
  signed({ nonce, sequence, reports }, verdict = "accepted", status = 200, each = "accepted") {
    const told = verdict === "accepted" ? reports.map(() => each) : [];
    const fields = [nonce, sequence, verdict, this.spent, ...told].join("\0");
    const mac = macOf(this.key, "answer", fields);
    const answer = { sequence, verdict, spent: this.spent, reports: told, mac };
    return status === 200 ? this.say(200, answer) : this.problem(status, verdict, answer);
  }
}

/** The client of a page, on a machine, that its user has agreed to. */
export function page(machine, server, options = {}, world = {}) {
  const given = { definitions: definitions(), endpoint: "https://t.example", enabled: true };
  return start(
    { ...given, writeKey: "w", ...options },
    { ...machine.places, fetch: server.fetch, now: () => machine.now, navigator: {}, ...world },
  );
}

/** Run the timers of pages that are due within some seconds. */
export async function pass(machine, seconds) {
  machine.now += seconds;
  for (const [timer, { act, seconds: wait }] of [...timers]) {
    if (wait <= seconds && timers.delete(timer)) act();
  }
  await settled();
}

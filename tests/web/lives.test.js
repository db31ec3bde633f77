// The browser's ledger lives the lives that the Python client has lived: same reasons, same shares.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { endOf, epochOf } from "../../client_sdk/web/epochs.js";
import { raiseTo } from "../../client_sdk/web/ledger.js";
import { store } from "../../client_sdk/web/recorder.js";
import { isTurn, takesPart } from "../../client_sdk/web/spreading.js";
import { newLife } from "../../client_sdk/web/life.js";
import { read } from "../../client_sdk/web/project.js";

const file = new URL("../client_sdk/web_lives.json", import.meta.url);
const { epochs, spreading, lives } = JSON.parse(readFileSync(file, "utf8"));
const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

test("epochs are numbered as in Python, and end on the same day", () => {
  for (const { length, day, epoch, end } of epochs) {
    assert.equal(epochOf(length, day), epoch, `${length} ${day}`);
    assert.equal(endOf(length, epoch), end ?? Infinity, `${length} ${day}`);
  }
});

test("turns and samples follow from the secret as in Python", async () => {
  for (const { secret, name, every, sample, first, turns, takes_part } of spreading) {
    const metric = { name, every, sample: BigInt(sample) };
    const drawn = [];
    for (let epoch = first; epoch < first + turns.length; epoch++) {
      drawn.push(Number(await isTurn(bytes(secret), metric, epoch)));
    }
    assert.equal(drawn.join(""), turns);
    assert.equal(await takesPart(bytes(secret), metric), takes_part);
  }
});

for (const [number, { secret, files, steps }] of lives.entries()) {
  test(`life ${number} is refused, charged and remembered as in Python`, async () => {
    const kept = { ...newLife(), secret: bytes(secret) };
    const projects = files.map(read);
    for (const [step, each] of steps.entries()) {
      const project = projects[each.file];
      const metric = project.metrics.get(each.name);
      if (each.server !== null) raiseTo(kept, each.server);
      const pending = [{ metric, epoch: each.epoch, value: each.answer }];
      const reasons = await store(kept, project, pending, each.seconds);
      assert.deepEqual(reasons, each.reasons, `step ${step}`);
      if (each.kept) assert.deepEqual(seen(kept), each.kept, `step ${step}`);
    }
  });
}

function seen({ shares, spool, memory }) {
  const rows = [...shares].map(([name, { reserved, spent, fits }]) => [name, reserved, spent, +fits]);
  const paid = [...memory].flatMap(([channel, responses]) =>
    [...responses.values()].map((response) => [channel, String(response)]),
  );
  return {
    shares: rows.sort(([one], [other]) => (one < other ? -1 : 1)),
    queued: spool.length,
    until: spool.length ? Math.max(...spool.map(({ until }) => until)) : null,
    memory: paid,
  };
}

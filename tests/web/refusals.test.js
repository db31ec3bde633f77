// What the module refuses: chance that is not chance, laws without noise, strangers' types.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { coinOf, load, newSecret, randomBytes } from "../../client_sdk/web/sottovoce.js";

const file = new URL("../client_sdk/web_vectors.json", import.meta.url);
const { reports } = JSON.parse(readFileSync(file, "utf8"));
const definitionOf = (name) =>
  structuredClone(reports.find((each) => each.name === name).definition);
const once = { epoch: 0 };

async function withCrypto(crypto, act) {
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value: crypto, configurable: true });
  try {
    await act();
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
}

for (const missing of [undefined, {}, { getRandomValues: null }]) {
  test(`without getRandomValues nothing is drawn: ${JSON.stringify(missing)}`, async () => {
    const { random } = Math;
    Math.random = () => assert.fail("Math.random was asked");
    try {
      await withCrypto(missing, async () => {
        for (const name of ["rr epsilon 1", "grr domain 3", "oue domain 8", "mean epsilon 1"]) {
          const metric = load(definitionOf(name));
          await assert.rejects(metric.report(null, once), /getRandomValues is missing/);
        }
        assert.throws(newSecret, /getRandomValues is missing/);
      });
    } finally {
      Math.random = random;
    }
  });
}

test("an error of the generator ends the draw", async () => {
  const broken = { getRandomValues: () => { throw new Error("no entropy"); } };
  await withCrypto(broken, async () => {
    await assert.rejects(load(definitionOf("rr epsilon 1")).report(true, once), /no entropy/);
  });
});

test("strings need crypto.subtle, and say so", async () => {
  const { getRandomValues } = globalThis.crypto;
  const insecure = { getRandomValues: getRandomValues.bind(globalThis.crypto) };
  const metric = load(definitionOf("rappor"));
  await withCrypto(insecure, async () => {
    const drawing = { epoch: 0, secret: newSecret() };
    await assert.rejects(metric.report("a", drawing), /crypto.subtle is missing/);
  });
});

const broken = {
  "another version": ["rr epsilon 1", (d) => (d.version = 2)],
  "a name with a quote": ["rr epsilon 1", (d) => (d.metric = 'a"')],
  "a short fingerprint": ["rr epsilon 1", (d) => (d.fingerprint = "0")],
  "no channel": ["rr epsilon 1", (d) => delete d.channel],
  "a type of its own": ["rr epsilon 1", (d) => (d.type = "multi_select")],
  "an unknown mechanism": ["rr epsilon 1", (d) => (d.mechanism.name = "toString")],
  "another kind": ["rr epsilon 1", (d) => (d.mechanism.kind = "cell")],
  "more cells than there are": ["oue domain 8", (d) => (d.mechanism.cells = 9)],
  "cohorts where there are none": ["oue domain 8", (d) => (d.mechanism.cohorts = 2)],
  "a missing parameter": ["rr epsilon 1", (d) => delete d.mechanism.parameters.yes_if_no],
  "a further parameter": ["rr epsilon 1", (d) => (d.mechanism.parameters.more = "1")],
  "a label too few": ["grr domain 3", (d) => d.labels.pop()],
  "a catch_all that is no index": ["grr domain 3", (d) => (d.catch_all = 3)],
  "a missing that is no index": ["grr domain 3", (d) => (d.missing = -1)],
  "edges that descend": ["mean epsilon 1", (d) => d.edges.reverse()],
  "an edge too many": ["mean epsilon 1", (d) => d.edges.push("100")],
  "an edge that is no decimal": ["mean epsilon 1", (d) => (d.edges[0] = "1e-7")],
};
for (const value of ["-1", "1.5", "0x10", "01", "1e3", "", " 1", "18446744073709551617", 1, null]) {
  const change = (d) => (d.mechanism.parameters.yes_if_no = value);
  broken[`a threshold of ${JSON.stringify(value)}`] = ["rr epsilon 1", change];
}
const ONE = String(1n << 64n);
const lawless = {
  "rr epsilon 1": [{ yes_if_yes: ONE }, { yes_if_no: "0" }, { yes_if_yes: "7", yes_if_no: "7" }],
  "grr domain 3": [{ keep: ONE }, { keep: "6148914691236517205" }, { domain: "1" }],
  "oue domain 8": [{ one_if_one: ONE }, { one_if_zero: "0" }, { one_if_one: "1" }],
  "olh domain 5, 2 cells": [{ keep: ONE }, { keep: "1" }, { seeds: "0" }, { modulus: "1" }],
  "mean epsilon 1": [{ one_if_lowest: "0", step: "4294967296" }, { step: "1" }],
  rappor: [{ one_if_unset: "0" }, { report_if_zero: ONE }, { hashes: "0" }, { cohorts: "65537" }],
};
for (const [name, all] of Object.entries(lawless)) {
  for (const change of all) {
    const put = (d) => Object.assign(d.mechanism.parameters, change);
    broken[`${name} with ${JSON.stringify(change)}`] = [name, put];
  }
}
for (const [what, [name, change]] of Object.entries(broken)) {
  test(`a definition with ${what} is refused`, () => {
    const definition = definitionOf(name);
    load(definition);
    change(definition);
    assert.throws(() => load(definition), /^RangeError: definition: .*, got /);
  });
}

test("an answer of the wrong type is refused without telling it", async () => {
  for (const [name, answer] of [
    ["rr epsilon 1", "secret"],
    ["grr domain 3", 17_171],
    ["mean epsilon 1", "17171"],
    ["rappor", 17_171],
  ]) {
    const metric = load(definitionOf(name));
    await assert.rejects(metric.report(answer, { epoch: 0, secret: newSecret() }), (error) => {
      assert.match(String(error), /^TypeError: asked\.once_2 takes [a-z]+ or null$/);
      return true;
    });
  }
});

test("an epoch is an integer, and a secret has 32 bytes", async () => {
  const yes = load(definitionOf("rr epsilon 1"));
  for (const epoch of [-1, 0.5, NaN, "0", undefined]) {
    await assert.rejects(yes.report(true, { epoch }), /epoch must be an integer from 0/);
  }
  const strings = load(definitionOf("rappor"));
  for (const secret of [undefined, "x".repeat(32), new Uint8Array(31)]) {
    await assert.rejects(strings.report("a", { epoch: 0, secret }), /secret must be 32 bytes/);
  }
});

test("a bound that would never end is refused", async () => {
  for (const bound of [0n, -1n, (1n << 64n) + 1n]) {
    await assert.rejects(coinOf().uniform(bound), /bound must lie in 1\.\.2\*\*64/);
  }
});

test("what a page changes afterwards changes no law", async () => {
  const definition = definitionOf("rappor thresholds 0 and 2**64");
  const metric = load(definition);
  const drawing = { epoch: 0, secret: new Uint8Array(32) };
  const before = await metric.report("a", drawing);
  definition.mechanism.parameters.report_if_one = "1";
  definition.mechanism.cells = 1;
  definition.channel = "0".repeat(32);
  assert.equal(await metric.report("a", drawing), before);
});

test("the same draws are asked whatever the answer is", async () => {
  for (const { name, definition, draws } of reports) {
    const metric = load(definition);
    const asked = new Set();
    for (const { answer } of draws) {
      const counts = [];
      const source = (count) => {
        counts.push(count);
        return new Uint8Array(count).fill(7);
      };
      const drawing = { epoch: 0, secret: new Uint8Array(32), coin: coinOf(source) };
      await metric.report(answer, drawing);
      asked.add(counts.join());
    }
    assert.equal(asked.size, 1, name);
  }
});

test("real draws have the stated frequency", async () => {
  // 20,000 lanes at P = 3/16; |C - nP| <= 5 sqrt(nP(1-P)) fails by chance with probability 5.7e-7.
  const [threshold, lanes] = [3n << 60n, 20_000];
  let ones = 0;
  for (let call = 0; call < 10; call++) {
    const drawn = await coinOf().flipBits(0n, lanes / 10, 0n, threshold);
    ones += drawn.toString(2).replaceAll("0", "").length;
  }
  const p = 3 / 16;
  assert.ok(Math.abs(ones - lanes * p) <= 5 * Math.sqrt(lanes * p * (1 - p)), `${ones} ones`);
});

test("of an endless string the beginning is looked at, in whole characters", () => {
  const { encode } = load(definitionOf("rappor thresholds 0 and 2**64"));
  const real = String.prototype[Symbol.iterator];
  const looked = [];
  String.prototype[Symbol.iterator] = function () {
    looked.push(this.length);
    return real.call(this);
  };
  try {
    assert.equal(encode("ab".repeat(1 << 20)), "ab".repeat(512));
    assert.equal(encode(`a${"😀".repeat(1 << 20)}`), `a${"😀".repeat(1023)}`);
    assert.equal(encode("😀".repeat(1 << 20)), "😀".repeat(1024));
  } finally {
    String.prototype[Symbol.iterator] = real;
  }
  assert.ok(Math.max(...looked) <= 2048, String(looked));
});

test("the browser's generator is the default source", async () => {
  const asked = [];
  const real = globalThis.crypto;
  const counting = {
    subtle: real.subtle,
    getRandomValues: (array) => asked.push(array.length) && real.getRandomValues(array),
  };
  await withCrypto(counting, async () => {
    await load(definitionOf("oue domain 8")).report(null, once);
    assert.equal(randomBytes(5).length, 5);
  });
  assert.deepEqual(asked, [8 + 2 * 7, 5]);
});

// The module repeats what the Python client makes of the same random bytes: every byte is used.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { finished, send, SendError } from "../../client_sdk/web/sender.js";
import { coinOf, load, prfStream } from "../../client_sdk/web/sottovoce.js";

const file = new URL("../client_sdk/web_vectors.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8"));
const compared = { reports: 0, coins: 0, streams: 0, encodings: 0, answers: 0 };

const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const hex = (array) => Buffer.from(array).toString("hex");

function scripted(words) {
  let left = bytes(words);
  const source = (count) => {
    assert.ok(count <= left.length, `asked for ${count} bytes, ${left.length} are left`);
    const taken = left.slice(0, count);
    left = left.slice(count);
    return taken;
  };
  return [source, () => assert.equal(left.length, 0, "bytes are left over")];
}

for (const { name, definition, draws } of vectors.reports) {
  test(`reports of ${name} are byte-equal`, async () => {
    const metric = load(definition);
    for (const { answer, epoch, secret, words, report } of draws) {
      const [source, finished] = scripted(words);
      const drawing = { epoch, secret: bytes(secret), coin: coinOf(source) };
      assert.equal(await metric.report(answer, drawing), report);
      finished();
      compared.reports++;
    }
  });
}

test("every decision of a coin is equal", async () => {
  const acts = {
    bernoulli: async (coin, threshold) => BigInt(await coin.bernoulli(threshold)),
    uniform: (coin, bound) => coin.uniform(bound),
    flip_bits: (coin, bits, width, one, zero) => coin.flipBits(bits, Number(width), one, zero),
  };
  for (const { act, arguments: numbers, words, result } of vectors.coins) {
    const [source, finished] = scripted(words);
    const decided = await acts[act](coinOf(source), ...numbers.map(BigInt));
    assert.equal(decided, BigInt(result), `${act} ${numbers}`);
    finished();
    compared.coins++;
  }
});

test("repeatable streams are equal however they are cut", async () => {
  for (const { secret, context, cuts, bytes: expected } of vectors.streams) {
    const stream = prfStream(bytes(secret), ...context.map(bytes));
    for (const [index, cut] of cuts.entries()) {
      assert.equal(hex(await stream(cut)), expected[index]);
    }
    compared.streams++;
  }
});

test("answers become the same values", () => {
  for (const { definition, answers } of vectors.encodings) {
    const { encode } = load(definition);
    for (const { answer, value } of answers) {
      const expected = typeof value === "string" ? value : BigInt(value);
      assert.equal(encode(answer), expected, `${definition.type}: ${JSON.stringify(answer)}`);
      compared.encodings++;
    }
  }
});

test("batches are byte-equal, and what is answered to them is believed", async (t) => {
  for (const { nonce, answers, ...batch } of vectors.batches) {
    const key = bytes(batch.key);
    t.mock.method(crypto, "getRandomValues", (array) => (array.set(bytes(nonce)), array));
    const { body, mac } = await finished({ ...batch, key });
    assert.deepEqual({ body, mac }, { body: batch.body, mac: batch.mac });
    for (const { status, answer } of answers) {
      const { verdict, spent, reports } = answer;
      const type = status === 200 ? {} : { type: `urn:sottovoce:problem:${verdict}` };
      const fetch = async () => new Response(JSON.stringify({ ...type, ...answer }), { status });
      const told = send("", { ...batch, key }, { fetch });
      if (status === 200) assert.deepEqual(await told, { verdict, spent, reports });
      else await assert.rejects(told, new SendError("refused", verdict));
      compared.answers++;
    }
  }
});

test("nothing in the file was passed over", () => {
  const sum = (cases, part) => cases.reduce((total, each) => total + each[part].length, 0);
  assert.deepEqual(compared, {
    reports: sum(vectors.reports, "draws"),
    coins: vectors.coins.length,
    streams: vectors.streams.length,
    encodings: sum(vectors.encodings, "answers"),
    answers: sum(vectors.batches, "answers"),
  });
  console.log(JSON.stringify(compared));
});

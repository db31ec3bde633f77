// Blinding against the vectors of RFC 9474, and what a server could do to know a respondent again.

import assert from "node:assert/strict";
import { createHash, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";

import { admit, surveyKey } from "../../client_sdk/web/admission.js";
import { blind } from "../../client_sdk/web/blind_signatures.js";
import { utf8 } from "../../client_sdk/web/bytes.js";
import { prfStream } from "../../client_sdk/web/randomness.js";

const { key, vectors } = JSON.parse(readFileSync(new URL("rfc9474.json", import.meta.url), "utf8"));
const publicKey = { modulus: key.n, exponent: 65537 };
const [n, d] = [BigInt(`0x${key.n}`), BigInt(`0x${key.d}`)];
const bytes = (text) => Uint8Array.from(Buffer.from(text, "hex"));
const hex = (number) => number.toString(16).padStart(key.n.length, "0");

function power(base, exponent) {
  let [result, square] = [1n, base];
  for (let left = exponent; left; left >>= 1n) {
    if (left & 1n) result = (result * square) % n;
    square = (square * square) % n;
  }
  return result;
}

function inverse(number) {
  let [rest, last, factor, before] = [number, n, 1n, 0n];
  while (rest) {
    [last, rest, before, factor] = [rest, last % rest, factor, before - (last / rest) * factor];
  }
  return ((before % n) + n) % n;
}

function given(...parts) {
  return (count) => {
    const part = parts.shift();
    assert.equal(part.length, count);
    return part;
  };
}

const sign = (blinded) => hex(power(BigInt(`0x${blinded}`), d));

for (const { name, salt, input_msg, inv, blinded_msg, blind_sig, sig } of vectors) {
  if (name.includes("PSSZERO")) continue; // no salt, which admissions have
  test(`the vector of ${name} comes out to the byte`, async () => {
    const mask = hex(inverse(BigInt(`0x${inv}`)));
    const source = given(bytes(salt), bytes(mask));
    const { blinded, finish } = await blind(publicKey, bytes(input_msg), source);
    assert.equal(blinded, blinded_msg);
    assert.equal(finish(blind_sig), sig);
  });
}

test("numbers from the modulus on, and 0, are drawn again", async () => {
  const { salt, input_msg, inv, blinded_msg } = vectors.find(({ name }) => name.endsWith("PSS-Deterministic"));
  const mask = bytes(hex(inverse(BigInt(`0x${inv}`))));
  const source = given(bytes(salt), bytes(key.n), new Uint8Array(mask.length), mask);
  assert.equal((await blind(publicKey, bytes(input_msg), source)).blinded, blinded_msg);
});

test("a signature that is not exactly the key's is thrown away", async () => {
  const { blinded, finish } = await blind(publicKey, new Uint8Array(32), prfStream(new Uint8Array(32)));
  const good = sign(blinded);
  const other = hex((BigInt(`0x${good}`) * 2n) % n);
  const beyond = (BigInt(`0x${good}`) + n).toString(16);
  for (const bad of [other, hex(0n), "", good.slice(2), `00${good}`, beyond.padStart(1026, "0"), good.toUpperCase(), null, 7]) {
    assert.throws(() => finish(bad), { kind: "untrusted", reason: "bad_signature" });
  }
  assert.equal(BigInt(`0x${finish(good)}`) > 0n, true);
});

// A server that knows the factors 3, 5, 7 would see which of them divide a message: blinding keeps that.
test("a key with small factors, or too large to try, is refused unasked", async () => {
  const fetch = () => assert.fail("asked");
  for (const modulus of [3n * n, 5n * 7n * n, 65537n * n, 131071n * n, n * n * n]) {
    const publicKey = { modulus: modulus.toString(16), exponent: 65537 };
    const asked = admit({ endpoint: "", survey: "habits", token: "0", publicKey }, { fetch });
    await assert.rejects(asked, { kind: "untrusted", reason: "bad_key" });
  }
});

test("a key that is short, even, of another exponent or no number is refused unasked", async () => {
  const fetch = () => assert.fail("asked");
  const odd = [
    { modulus: "ff".repeat(255), exponent: 65537 },
    { modulus: hex(n - 1n), exponent: 65537 },
    { modulus: key.n, exponent: 3 },
    { modulus: `0x${key.n}`, exponent: 65537 },
    { modulus: "", exponent: 65537 },
  ];
  for (const publicKey of odd) {
    const asked = admit({ endpoint: "", survey: "habits", token: "0", publicKey }, { fetch });
    await assert.rejects(asked, { kind: "untrusted", reason: "bad_key" });
  }
});

const keyDigest = createHash("sha256")
  .update(
    createPublicKey({
      key: { kty: "RSA", n: Buffer.from(key.n, "hex").toString("base64url"), e: "AQAB" },
      format: "jwk",
    }).export({ type: "spki", format: "der" }),
  )
  .digest("hex");
const asks = { endpoint: "https://s.example", survey: "habits", keyDigest };

test("the key of a survey is the one that the invitation names, or none", async () => {
  const seen = [];
  const showing = (shown) => async (address, options) => {
    seen.push([address, options]);
    return new Response(JSON.stringify(shown));
  };
  // What the server says of its digest decides nothing.
  const shown = { ...publicKey, survey: "habits", digest: "00" };
  assert.deepEqual(await surveyKey(asks, { fetch: showing(shown) }), publicKey);
  const padded = { ...publicKey, modulus: `0000${key.n}` };
  assert.deepEqual(await surveyKey(asks, { fetch: showing(padded) }), padded);
  const [[address, { method, body, credentials }]] = seen;
  assert.deepEqual([address, method, body, credentials], ["https://s.example/v1/surveys/habits/key", "GET", null, "omit"]);
  const others = [
    { modulus: hex(n - 2n), exponent: 65537 },
    { modulus: key.n, exponent: 3 },
    { modulus: "", exponent: 65537 },
    { modulus: key.n.slice(1), exponent: 65537 },
    { modulus: "ff".repeat(1 << 20), exponent: 65537 },
    { modulus: 7, exponent: 65537 },
    {},
  ];
  for (const other of others) {
    const asked = surveyKey(asks, { fetch: showing({ ...other, digest: keyDigest }) });
    await assert.rejects(asked, { kind: "untrusted", reason: "other_key" });
  }
});

test("a server that is busy is not one that is not trusted", async () => {
  const answering = (status) => async () => new Response("busy", { status, headers: { "Retry-After": "7" } });
  for (const status of [429, 500, 503]) {
    const asked = surveyKey(asks, { fetch: answering(status) });
    await assert.rejects(asked, { kind: "later", reason: `status_${status}`, pauseSeconds: 7 });
  }
  await assert.rejects(surveyKey(asks, { fetch: answering(404) }), { kind: "refused", reason: "status_404" });
  await assert.rejects(surveyKey(asks, { fetch: () => Promise.reject(new TypeError()) }), { reason: "network" });
});

const invitation = { endpoint: "https://s.example", survey: "habits", token: "0".repeat(32), publicKey };
const secret = new Uint8Array(32).fill(7);
const again = () => ({ source: prfStream(secret, utf8("admission"), utf8("habits")) });

test("the server is shown the invitation and a number, and an admission is what it never saw", async () => {
  const seen = [];
  const fetch = async (address, options) => {
    seen.push([address, options]);
    return new Response(JSON.stringify({ signature: sign(JSON.parse(options.body).blinded) }));
  };
  const admission = await admit(invitation, { fetch, ...again() });
  const [survey, message, signature] = admission.split(".");
  assert.equal(survey, "habits");
  assert.match(message, /^[0-9a-f]{64}$/);
  assert.match(signature, /^[0-9a-f]{1024}$/);
  const [[address, options]] = seen;
  assert.equal(address, "https://s.example/v1/surveys/habits/admissions");
  assert.deepEqual(Object.keys(JSON.parse(options.body)), ["invitation", "blinded"]);
  assert.ok(!options.body.includes(message) && !options.body.includes(signature));
  assert.equal(options.credentials, "omit");
  // The same secret gives the same request and the same admission: a page that was closed goes on.
  assert.equal(await admit(invitation, { fetch, ...again() }), admission);
  assert.equal(seen[1][1].body, options.body);
  // The browser's chance gives others.
  assert.notEqual(await admit(invitation, { fetch }), admission);
});

test("why there is no admission is said in the server's word", async () => {
  const answers = [
    [409, "invitation_used", "refused"],
    [403, "invitation_unknown", "refused"],
    [404, "unknown_survey", "refused"],
    [429, "rate_limited", "later"],
    [503, "unavailable", "later"],
  ];
  for (const [status, reason, kind] of answers) {
    const told = JSON.stringify({ type: `urn:sottovoce:problem:${reason}` });
    const fetch = async () => new Response(told, { status, headers: { "Retry-After": "9" } });
    await assert.rejects(admit(invitation, { fetch }), { kind, reason });
  }
  const fetch = async () => assert.fail("away");
  await assert.rejects(admit(invitation, { fetch }), { kind: "later", reason: "network" });
  const empty = async () => new Response("{}");
  await assert.rejects(admit(invitation, { fetch: empty }), { reason: "bad_signature" });
});

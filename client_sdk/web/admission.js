/**
 * Makes of an invitation an admission that the server has never seen: a blind signature of RFC 9474,
 * RSABSSA-SHA384-PSS-Deterministic. It is loaded by pages of surveys by invitation only.
 *
 * The server sees a number that fits each message equally, and signs it. A signature that is not
 * exactly this key's is thrown away: by it the server would know its respondent again.
 */

import { join, uint32 } from "./bytes.js";
import { randomBytes } from "./randomness.js";
import { ask, SendError } from "./sender.js";

/** @typedef {import("./types.js").Connection} Connection */
/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").SurveyKey} SurveyKey */

const [MESSAGE_BYTES, SALT_BYTES, HASH_BYTES] = [32, 48, 48];
const [LEAST_BITS, MOST_BITS] = [2048, 8192];
/**
 * Below this no prime may divide the modulus: a number that one divides is divided by it blinded,
 * too, so each would tell the server something of the message.
 */
const SMALL = 1n << 17n;
const EXPONENT = 65537; // as "AQAB" in a JWK

/**
 * What signs a survey's admissions, if it is the key that the invitation names. With another one the
 * server would know its respondent again. Throws SendError.
 *
 * @param {{endpoint: string, survey: string, keyDigest: string}} invitation
 * @param {Connection} [connection]
 * @returns {Promise<SurveyKey>}
 */
export async function surveyKey({ endpoint, survey, keyDigest }, connection = {}) {
  const answer = await ask(endpoint, `surveys/${survey}/key`, null, {}, connection);
  if (answer.status !== 200) throw new SendError("refused", answer.reason);
  const { modulus, exponent } = answer;
  if ((await digestOf(modulus, exponent)) !== keyDigest) throw new SendError("untrusted", "other_key");
  return { modulus, exponent };
}

/**
 * SHA-256 of a key as SubjectPublicKeyInfo (DER), in hex digits; "" if it is none that is trusted.
 *
 * @param {unknown} modulus
 * @param {unknown} exponent
 */
async function digestOf(modulus, exponent) {
  if (typeof modulus !== "string" || !/^([0-9a-f]{2})+$/.test(modulus) || exponent !== EXPONENT) return "";
  try {
    const pairs = modulus.replace(/^(00)+/, "").match(/../g) ?? [];
    const text = String.fromCharCode(...pairs.map((pair) => parseInt(pair, 16)));
    const n = btoa(text).replace(/[+]/g, "-").replace(/[/]/g, "_").replace(/=/g, "");
    const how = { name: "RSA-PSS", hash: "SHA-384" };
    const key = await crypto.subtle.importKey("jwk", { kty: "RSA", n, e: "AQAB" }, how, true, ["verify"]);
    const der = await crypto.subtle.exportKey("spki", key);
    return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", der)));
  } catch {
    return "";
  }
}

/**
 * Use an invitation up, and return the admission to enrol with.
 *
 * An invitation is good for one draw. A page that may be closed before it has enrolled passes a
 * `source` that gives the same bytes again, `prfStream` of a secret that it keeps and that never
 * leaves; with the browser's chance, the invitation is lost with the page. Throws SendError.
 *
 * @param {{endpoint: string, survey: string, token: string, publicKey: SurveyKey}} invitation
 * @param {Connection & {source?: Source}} [by]
 * @returns {Promise<string>} `survey.message.signature`.
 */
export async function admit({ endpoint, survey, token, publicKey }, by = {}) {
  const { source = randomBytes, ...connection } = by;
  const message = await source(MESSAGE_BYTES);
  const { blinded, finish } = await blind(publicKey, message, source);
  const body = JSON.stringify({ invitation: token, blinded });
  const answer = await ask(endpoint, `surveys/${survey}/admissions`, body, {}, connection);
  if (answer.status !== 200) throw new SendError("refused", answer.reason);
  return `${survey}.${hex(message)}.${finish(answer.signature)}`;
}

/**
 * Blind of the RFC, and what does its Finalize.
 *
 * @param {SurveyKey} publicKey
 * @param {Uint8Array} message
 * @param {Source} source Gives the salt, then numbers of the key's size until one is below it.
 */
export async function blind({ modulus, exponent }, message, source) {
  const n = BigInt(/^[0-9a-f]+$/.test(modulus) ? `0x${modulus}` : 0);
  const bits = n.toString(2).length;
  if (bits < LEAST_BITS || bits > MOST_BITS || exponent !== EXPONENT || hasSmallFactor(n)) {
    throw new SendError("untrusted", "bad_key");
  }
  const size = Math.ceil(bits / 8);
  const encoded = number(await encode(message, bits - 1, await source(SALT_BYTES)));
  let mask = 0n;
  while (mask === 0n || mask >= n) mask = number(await source(size));
  const unmask = inverse(mask, n);
  return {
    blinded: padded((encoded * power(mask, exponent, n)) % n, size),
    /** @param {unknown} signed Hex digits of the blind signature, or whatever was answered. */
    finish(signed) {
      const good = typeof signed === "string" && /^[0-9a-f]+$/.test(signed);
      const signature = good && signed.length === 2 * size ? (BigInt(`0x${signed}`) * unmask) % n : 0n;
      if (power(signature, exponent, n) !== encoded) {
        throw new SendError("untrusted", "bad_signature");
      }
      return padded(signature, size);
    },
  };
}

/**
 * EMSA-PSS of RFC 8017 (9.1.1) with SHA-384.
 *
 * @param {Uint8Array} message
 * @param {number} bits
 * @param {Uint8Array} salt
 */
async function encode(message, bits, salt) {
  const length = Math.ceil(bits / 8);
  const hash = await sha384(join(new Uint8Array(8), await sha384(message), salt));
  const block = new Uint8Array(length - HASH_BYTES - 1);
  block.set(salt, block.length - salt.length);
  block[block.length - salt.length - 1] = 1;
  const blocks = [];
  for (let at = 0; at * HASH_BYTES < block.length; at++) {
    blocks.push(await sha384(join(hash, uint32(at))));
  }
  const mask = join(...blocks);
  const masked = block.map((byte, at) => byte ^ mask[at]);
  masked[0] &= 0xff >> (8 * length - bits);
  return join(masked, hash, new Uint8Array([0xbc]));
}

/** @param {Uint8Array} message */
async function sha384(message) {
  return new Uint8Array(await crypto.subtle.digest("SHA-384", new Uint8Array(message)));
}

/**
 * @param {bigint} base
 * @param {number} exponent
 * @param {bigint} modulus
 */
function power(base, exponent, modulus) {
  let result = 1n;
  for (const bit of exponent.toString(2)) {
    result = (result * result) % modulus;
    if (bit === "1") result = (result * base) % modulus;
  }
  return result;
}

/**
 * By Euclid's algorithm; whoever meets a number without inverse has the factors of the key.
 *
 * @param {bigint} number
 * @param {bigint} modulus
 */
function inverse(number, modulus) {
  let [rest, last, factor, before] = [number, modulus, 1n, 0n];
  while (rest > 1n) {
    const times = last / rest;
    [last, rest] = [rest, last - times * rest];
    [before, factor] = [factor, before - times * factor];
  }
  if (rest !== 1n) throw new SendError("untrusted", "bad_key");
  return ((factor % modulus) + modulus) % modulus;
}

/** @param {bigint} modulus */
function hasSmallFactor(modulus) {
  for (let divisor = 2n; divisor < SMALL; divisor += divisor === 2n ? 1n : 2n) {
    if (modulus % divisor === 0n) return true;
  }
  return false;
}

/** @param {Uint8Array} bytes Most significant first. */
function number(bytes) {
  return BigInt(`0x${hex(bytes)}`);
}

/** @param {Uint8Array} bytes */
function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {bigint} value
 * @param {number} size In bytes.
 */
function padded(value, size) {
  return value.toString(16).padStart(2 * size, "0");
}

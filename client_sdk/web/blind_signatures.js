/**
 * Blind signatures of RFC 9474, RSABSSA-SHA384-PSS-Deterministic, as who is signed for makes them.
 *
 * The server sees a number that fits each message equally, and signs it. A signature that is not
 * exactly this key's is thrown away: by it the server would know its respondent again.
 */

import { hex, join, uint32 } from "./bytes.js";
import { SendError } from "./sender.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").SurveyKey} SurveyKey */

export const EXPONENT = 65537;

const [SALT_BYTES, HASH_BYTES] = [48, 48];
const [LEAST_BITS, MOST_BITS] = [2048, 8192];
/**
 * Below this no prime may divide the modulus: a number that one divides is divided by it blinded,
 * too, so each would tell the server something of the message.
 */
const SMALL = 1n << 17n;

/**
 * Blind of the RFC, and what does its Finalize. Throws SendError.
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

/**
 * @param {bigint} value
 * @param {number} size In bytes.
 */
function padded(value, size) {
  return value.toString(16).padStart(2 * size, "0");
}

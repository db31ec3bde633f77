/**
 * The one source of chance: integer thresholds out of 2**64 against crypto.getRandomValues.
 *
 * There is no fallback: where it is missing the draw throws, and there is nothing to send. Bytes
 * are used as client_sdk/randomness.py uses them, so the same bytes give the same decisions.
 */

import { hmacBy, join, uint32 } from "./bytes.js";

/** @typedef {import("./types.js").Source} Source */

export const ONE = 1n << 64n;
const REST_BITS = 56n;
const REST_BYTES = 7;

/**
 * Random bytes of the browser, at most 65,536.
 *
 * @param {number} count
 * @returns {Uint8Array}
 */
export function randomBytes(count) {
  if (typeof globalThis.crypto?.getRandomValues !== "function") {
    throw new Error("crypto.getRandomValues is missing: nothing is drawn, and nothing may be sent");
  }
  return crypto.getRandomValues(new Uint8Array(count));
}

/**
 * A deterministic stream: HMAC-SHA-256 of a secret key in counter mode.
 *
 * @param {Uint8Array} secret 32 bytes.
 * @param {Uint8Array[]} context What it is for; parts are length-prefixed.
 * @returns {Source}
 */
export function prfStream(secret, ...context) {
  const hmac = hmacBy(secret);
  const head = join(...context.flatMap((part) => [uint32(part.length), part]));
  let [counter, rest] = [0, new Uint8Array(0)];
  return async (count) => {
    while (rest.length < count) rest = join(rest, await hmac(join(head, uint32(counter++))));
    const taken = rest.slice(0, count);
    rest = rest.slice(count);
    return taken;
  };
}

/**
 * Random decisions from a byte source. Another one than the browser's is for tests only, or a
 * `prfStream` of a secret: whoever can predict the source removes the noise.
 *
 * @param {Source} [source]
 */
export function coinOf(source = randomBytes) {
  const word = async () => number(await source(8));

  /**
   * The lanes whose words lie below a threshold. A lane's first byte decides unless it equals the
   * threshold's; only then the rest of its word is looked at.
   * `digits` are of all lanes, the highest lane's first; `spare` is for the rests of words.
   *
   * @type {(digits: Uint8Array, threshold: bigint, spare: Uint8Array) => Promise<bigint>}
   */
  const below = async (digits, threshold, spare) => {
    const digit = Number(threshold >> REST_BITS);
    const rest = BigInt.asUintN(56, threshold);
    let [lanes, start] = ["0b", 0];
    for (const each of digits) {
      let one = each < digit;
      if (rest && each === digit) {
        const own = spare.subarray(start, start + REST_BYTES);
        one = number(own.length ? own : await source(REST_BYTES)) < rest;
        start += REST_BYTES;
      }
      lanes += one ? "1" : "0";
    }
    return BigInt(lanes);
  };

  /** @type {import("./types.js").Coin} */
  const coin = {
    bernoulli: async (threshold) => (await word()) < threshold,

    async uniform(bound) {
      if (bound < 1n || bound > ONE) throw new RangeError(`bound must lie in 1..2**64, got ${bound}`);
      let drawn = await word();
      while (drawn >= ONE - (ONE % bound)) drawn = await word();
      return drawn % bound;
    },

    async flipBits(bits, width, ifOne, ifZero) {
      const spare = REST_BYTES * (1 + (width >> 7)); // twice the ties to expect, and one
      const drawn = await source(width + 2 * spare);
      const digits = drawn.subarray(0, width);
      const ones = await below(digits, ifOne, drawn.subarray(width, width + spare));
      const zeros = await below(digits, ifZero, drawn.subarray(width + spare));
      // Every lane has met both thresholds; `bits` chooses between the outcomes only now.
      return zeros ^ (bits & (ones ^ zeros));
    },
  };
  return Object.freeze(coin);
}

/** @param {Uint8Array} bytes Most significant first. */
function number(bytes) {
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

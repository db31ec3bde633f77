/** Bytes: joined, written, read, hashed. What is hashed here is hashed by client_sdk to the same bytes. */

/** @param {Uint8Array[]} parts */
export function join(...parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** @param {number} number Four bytes, most significant first. */
export function uint32(number) {
  return new Uint8Array([number >>> 24, number >>> 16, number >>> 8, number]);
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} digits Two for each byte. */
export function fromHex(digits) {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * UTF-8 that keeps lone surrogates, as Python's "surrogatepass"; TextEncoder replaces them.
 *
 * @param {string} text
 */
export function utf8(text) {
  const bytes = [];
  for (const character of text) {
    const point = /** @type {number} */ (character.codePointAt(0));
    if (point < 0x80) bytes.push(point);
    else {
      const rest = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
      bytes.push(((0xf00 >> (rest + 1)) & 0xff) | (point >> (6 * rest)));
      for (let left = rest - 1; left >= 0; left--) bytes.push(0x80 | ((point >> (6 * left)) & 0x3f));
    }
  }
  return new Uint8Array(bytes);
}

function subtle() {
  const found = globalThis.crypto?.subtle;
  if (!found) throw new Error("crypto.subtle is missing: strings need a page served by https");
  return found;
}

/** @param {Uint8Array} message */
export async function sha256(message) {
  return new Uint8Array(await subtle().digest("SHA-256", new Uint8Array(message)));
}

/**
 * @param {Uint8Array} secret
 * @returns HMAC-SHA-256 with this key.
 */
export function hmacBy(secret) {
  const [hmac, how] = [subtle(), { name: "HMAC", hash: "SHA-256" }];
  const key = hmac.importKey("raw", new Uint8Array(secret), how, false, ["sign"]);
  return async (/** @type {Uint8Array} */ message) =>
    new Uint8Array(await hmac.sign("HMAC", await key, new Uint8Array(message)));
}

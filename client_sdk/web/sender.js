/**
 * Moves finished reports to the server: each call is one try, and no call retries. Who calls keeps
 * a batch until it is answered, and sends the same bytes again: docs/web.md.
 *
 * The wire is that of client_sdk: authentication.py, report.py, uploader.py, transport.py.
 */

import { fromHex, hex, hmacBy, join, utf8 } from "./bytes.js";
import { randomBytes } from "./randomness.js";

/** @typedef {import("./types.js").Batch} Batch */
/** @typedef {import("./types.js").Connection} Connection */
/** @typedef {import("./types.js").Identity} Identity */

const DAY_SECONDS = 86_400;
const SIZES = [1024, 4096, 16_384, 65_536]; // of padded uploads, as in client_sdk/uploader.py
const KEEPALIVE_BYTES = 60_000; // browsers fail beyond 64 KiB in flight, of the whole page

/**
 * What the server says under its MAC, and the status with which it does.
 *
 * @type {Record<string, number>}
 */
const VERDICTS = {
  accepted: 200,
  duplicate: 200,
  identity_revoked: 401,
  clone_suspected: 409,
  erased: 410,
};

export class SendError extends Error {
  /**
   * @param {"later" | "refused" | "untrusted"} kind
   * @param {string} reason
   * @param {number | null} pauseSeconds
   */
  constructor(kind, reason, pauseSeconds = null) {
    super(`${kind}: ${reason}`);
    this.kind = kind;
    this.reason = reason;
    this.pauseSeconds = pauseSeconds;
  }
}

/**
 * @param {string} endpoint
 * @param {{ writeKey?: string, admission?: string }} shown
 * @param {Connection} [connection]
 * @returns {Promise<Identity>}
 */
export async function enrol(endpoint, { writeKey, admission }, connection) {
  const Authorization = admission ? `Admission ${admission}` : `Bearer ${writeKey}`;
  const answer = await ask(endpoint, "devices", "{}", { Authorization }, connection);
  const { status, reason, device, key } = answer;
  if (status >= 300) throw new SendError("refused", reason);
  if (!/^[0-9a-f]{32} [0-9a-f]{64}$/.test(`${device} ${key}`)) {
    throw new SendError("untrusted", "unreadable");
  }
  return { device: String(device), key: fromHex(String(key)) };
}

/** @param {Identity & { sequence: number, reports: string[], padded?: boolean }} batch */
export async function finished({ device, key, sequence, reports, padded = false }) {
  const head = JSON.stringify({ version: 1, device, sequence, nonce: hex(randomBytes(16)) });
  const text = `${head.slice(0, -1)},"reports":[${reports}]}`;
  const body = text.padEnd(padded ? (SIZES.find((size) => text.length <= size) ?? 0) : 0);
  const [count, bytes] = [reports.length, utf8(body)];
  if (!count || count > 256 || bytes.length > 65_536) {
    throw new RangeError(`a batch has 1..256 reports in 64 KiB, got ${count} in ${bytes.length} bytes`);
  }
  return { body, mac: await macOf(key, "batch", bytes) };
}

/**
 * @param {string} endpoint
 * @param {Batch} batch
 * @param {Connection} [connection]
 * @returns {Promise<import("./types.js").Answered>}
 */
export async function send(endpoint, { key, body, mac }, connection) {
  const answer = await ask(endpoint, "reports", body, { "Sottovoce-MAC": mac }, connection);
  const { status, reason, verdict, spent, reports } = answer;
  // The end of an identity is the server's word or nothing; other refusals may be anybody's.
  if (status >= 300 && !(reason in VERDICTS)) throw new SendError("refused", reason);
  const batch = JSON.parse(body);
  // Each field has its form: else some could be shifted into others under the same MAC.
  const fits =
    status === VERDICTS[verdict] &&
    Number.isSafeInteger(spent) &&
    Array.isArray(reports) &&
    reports.every((each) => typeof each === "string") &&
    (verdict !== "accepted" || reports.length === batch.reports.length);
  const fields = fits && [batch.nonce, batch.sequence, verdict, spent, ...reports].join("\0");
  if (!fields || !same(await macOf(key, "answer", utf8(fields)), answer.mac)) {
    throw new SendError("untrusted", "mac");
  }
  if (status !== 200) throw new SendError("refused", verdict);
  return { verdict, spent, reports };
}

/**
 * Have what the server knows of a device erased; throws SendError unless it confirms that.
 *
 * @param {string} endpoint
 * @param {Identity} identity
 * @param {Connection} [connection]
 */
export async function erase(endpoint, { device, key }, connection) {
  const nonce = hex(randomBytes(16));
  const body = JSON.stringify({ version: 1, device, nonce });
  const headers = { "Sottovoce-MAC": await macOf(key, "erase", utf8(body)) };
  const { status, reason, verdict, mac } = await ask(endpoint, "erase", body, headers, connection);
  if (status >= 300) throw new SendError("refused", reason);
  if (verdict !== "erased" || !same(await macOf(key, "erased", utf8(nonce)), mac)) {
    throw new SendError("untrusted", "mac");
  }
}

/**
 * For modules of this folder: one request, as all here are made.
 *
 * @param {string} endpoint
 * @param {string} path
 * @param {string | null} body To post; null: there is nothing to tell, only to get.
 * @param {Record<string, string>} headers
 * @param {Connection} connection
 * @returns {Promise<Record<string, any>>} The document, whoever wrote it; with its status, and a
 *   word for what is wrong.
 */
export async function ask(endpoint, path, body, headers, { fetch = globalThis.fetch } = {}) {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), 10_000);
  let response, text;
  try {
    response = await fetch(`${endpoint.replace(/[/]+$/, "")}/v1/${path}`, {
      method: body ? "POST" : "GET",
      headers: { "Content-Type": "application/json", ...headers },
      body,
      signal: limit.signal,
      keepalive: !body || body.length < KEEPALIVE_BYTES,
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      cache: "no-store",
    });
    text = await response.text();
  } catch {
    throw new SendError("later", "network");
  } finally {
    clearTimeout(timer);
  }
  const { status } = response;
  let told;
  try {
    told = JSON.parse(text);
  } catch {
    // Not our server's form: then it is judged by its status.
  }
  const [, problem = ""] = /^urn:sottovoce:problem:([a-z_]+)$/.exec(told?.type) ?? [];
  const fits = problem && (VERDICTS[problem] ?? status) === status;
  const reason = fits ? problem : `status_${status}`;
  if (status === 429 || status >= 500) {
    const header = response.headers.get("Retry-After");
    const seconds = /^\d+$/.test(header ?? "") ? Number(header) : 3600; // for a date, an hour
    throw new SendError("later", reason, header === null ? null : Math.min(seconds, DAY_SECONDS));
  }
  return { ...told, status, reason };
}

/** @type {(key: Uint8Array, of: string, message: Uint8Array) => Promise<string>} */
const macOf = async (key, of, message) =>
  hex(await hmacBy(key)(join(utf8(`sottovoce ${of} v1\0`), message)));

/**
 * Whether two MACs are equal, in constant time.
 *
 * @type {(expected: string, given: unknown) => boolean}
 */
const same = (expected, given) => {
  const shown = utf8(String(given));
  const differs = shown.reduce((odd, byte, at) => odd | (byte ^ expected.charCodeAt(at)), 0);
  return shown.length === expected.length && !differs;
};

/**
 * Randomizes an answer in the browser: what leaves is a report, byte for byte the one that the
 * Python client makes from the same random bytes. It sends and stores nothing: docs/web.md.
 */

import { utf8 } from "./bytes.js";
import { check, mechanismFrom } from "./mechanisms.js";
import { ONE, coinOf, prfStream, randomBytes } from "./randomness.js";
import { encoderOf } from "./values.js";

export { coinOf, prfStream, randomBytes };

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Drawing} Drawing */

/**
 * Secret of a device: keep it, or remembered noise is drawn anew.
 *
 * @returns {Uint8Array}
 */
export function newSecret() {
  return randomBytes(32);
}

/**
 * Make a metric; throws unless the definition is whole and its law has noise.
 *
 * @param {import("./types.js").Definition} definition
 * @returns {import("./types.js").Metric}
 */
export function load(definition) {
  const { version, metric, fingerprint, channel, epsilon } = definition;
  check(version === 1, "version must be 1", version);
  check(/^[a-z][a-z0-9_.]{0,63}$/.test(metric), "metric must be a name", metric);
  check(/^[0-9a-f]{16}$/.test(fingerprint), "fingerprint must be 16 hex digits", fingerprint);
  check(/^[0-9a-f]{32}$/.test(channel), "channel must be 32 hex digits", channel);
  const { kind, cells, domain, cohorts, permanent, instantaneous } = mechanismFrom(
    definition.mechanism,
  );
  const encode = encoderOf(definition, domain);

  /**
   * @param {bigint | string} value
   * @param {Drawing} drawing
   */
  async function remembered(value, { secret, remember = (_, permanent) => permanent }) {
    if (!(secret instanceof Uint8Array) || secret.length !== 32) {
      throw new TypeError(`${metric} remembers its noise: secret must be 32 bytes`);
    }
    const key = secret;
    const coin = (/** @type {string[]} */ ...context) =>
      coinOf(prfStream(key, ...context.map(utf8)));
    const cohort = await coin("cohort", metric).uniform(cohorts ?? 1n);
    const own = coin("permanent", metric, channel, String(value));
    const tag = await coin("memory", metric, channel, String(value)).uniform(ONE);
    return { cohort, noisy: remember(tag, await permanent(value, cohort, own)) };
  }

  return Object.freeze({
    name: metric,
    epsilon,
    epsilonPermanent: definition.epsilon_permanent,
    encode,
    async report(/** @type {Answer} */ answer, /** @type {Drawing} */ drawing) {
      const { epoch, coin = coinOf() } = drawing;
      if (!Number.isSafeInteger(epoch) || epoch < 0) {
        throw new RangeError(`epoch must be an integer from 0, got ${epoch}`);
      }
      const value = encode(answer);
      const { cohort, noisy } = cohorts
        ? await remembered(value, drawing)
        : { cohort: 0n, noisy: await permanent(value, 0n, coin) };
      const sent = await instantaneous(noisy, coin);
      const digits = Number((cells + 3n) / 4n);
      const response = kind === "cell" ? Number(sent) : sent.toString(16).padStart(digits, "0");
      return JSON.stringify({ metric, fingerprint, epoch, cohort: Number(cohort), response });
    },
  });
}

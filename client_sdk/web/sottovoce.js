/**
 * Randomizes an answer in the browser: what leaves is a report, byte for byte the one that the
 * Python client makes from the same random bytes. It sends and stores nothing: docs/web.md.
 */

import { utf8 } from "./bytes.js";
import { check, mechanismFrom } from "./mechanisms.js";
import { coinOf, prfStream, randomBytes } from "./randomness.js";
import { encoderOf } from "./values.js";

export { coinOf, prfStream, randomBytes };

/** @typedef {import("./randomness.js").Coin} Coin */
/** @typedef {import("./randomness.js").Source} Source */
/** @typedef {import("./values.js").Answer} Answer */

/**
 * A mechanism and the integers that fix its law, each as decimal text.
 * @typedef {object} Stated
 * @property {string} name
 * @property {string} kind
 * @property {number} cells
 * @property {number} cohorts
 * @property {Record<string, string>} parameters
 */

/**
 * What client_sdk.web_definition writes.
 * @typedef {object} Definition
 * @property {number} version
 * @property {string} metric
 * @property {string} fingerprint
 * @property {string} channel
 * @property {string} type
 * @property {(boolean | number | string)[]} labels
 * @property {string[]} edges
 * @property {number | string} missing
 * @property {number | null} catch_all
 * @property {Stated} mechanism
 * @property {string} epsilon
 * @property {string | null} epsilon_permanent
 */

/**
 * @typedef {object} Drawing
 * @property {number} epoch Number of the epoch; 0 for a metric that is asked once.
 * @property {Uint8Array} [secret] For strings, whose noise is remembered: 32 bytes of `newSecret`.
 * @property {Coin} [coin] For tests.
 */

/**
 * @typedef {object} Metric
 * @property {string} name
 * @property {string} epsilon Loss of one report, rounded up.
 * @property {string | null} epsilonPermanent Loss of all reports of one string, rounded up.
 * @property {(answer: Answer) => bigint | string} encode What is randomized.
 * @property {(answer: Answer, drawing: Drawing) => Promise<string>} report
 *   Draws a report, as the JSON text to send. Each call is a new draw and loses epsilon again.
 */

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
 * @param {Definition} definition
 * @returns {Metric}
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
  async function remembered(value, { secret }) {
    if (!(secret instanceof Uint8Array) || secret.length !== 32) {
      throw new TypeError(`${metric} remembers its noise: secret must be 32 bytes`);
    }
    const key = secret;
    const coin = (/** @type {string[]} */ ...context) =>
      coinOf(prfStream(key, ...context.map(utf8)));
    const cohort = await coin("cohort", metric).uniform(cohorts ?? 1n);
    const own = coin("permanent", metric, channel, String(value));
    return { cohort, noisy: await permanent(value, cohort, own) };
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

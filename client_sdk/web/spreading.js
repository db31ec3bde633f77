/** Who reports when, drawn by the device's secret: the draws of client_sdk/spreading.py. */

import { utf8 } from "./bytes.js";
import { blockOf } from "./epochs.js";
import { ONE, coinOf, prfStream } from "./randomness.js";

/** @typedef {import("./types.js").Declared} Declared */

/** @type {(secret: Uint8Array, ...context: unknown[]) => import("./types.js").Coin} */
const coin = (secret, ...context) =>
  coinOf(prfStream(secret, ...context.map((part) => utf8(String(part)))));

/** @type {(secret: Uint8Array, metric: Declared) => Promise<boolean>} Is it in the sample? */
export const takesPart = async (secret, { name, sample }) =>
  sample === ONE || coin(secret, "sample", name).bernoulli(sample);

/** @type {(secret: Uint8Array, metric: Declared, epoch: number) => Promise<boolean>} */
export const isTurn = async (secret, metric, epoch) => {
  const { name, every } = metric;
  const block = blockOf(metric, epoch);
  const turn = every > 1 ? await coin(secret, "turn", name, every, block).uniform(BigInt(every)) : 0;
  return epoch - block * every === Number(turn);
};

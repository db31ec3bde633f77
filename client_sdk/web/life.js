/**
 * The state of a device, and what ends parts of it: an opt-out, an erasure, a new identity.
 *
 * What was spent outlives them all, as in client_sdk/state.py and client_sdk/erasure.py.
 */

import { collapsed } from "./ledger.js";
import { noPlan } from "./schedule.js";
import { newSecret } from "./sottovoce.js";

/** @typedef {import("./types.js").Kept} Kept */

export const VERSION = 1;

/** @returns {Kept} */
export const newLife = () => ({
  version: VERSION,
  secret: newSecret(),
  shares: new Map(),
  paid: new Map(),
  memory: new Map(),
  marks: new Map(),
  spool: [],
  sequence: 0,
  former: [],
  farewell: [],
  withdrawals: 0,
  plan: noPlan(),
});

/** @param {Kept} kept How many reports wait to be sent or answered. */
export const queued = ({ spool, batch }) => spool.length + (batch?.count ?? 0);

/**
 * The user's consent is withdrawn, for all tabs.
 *
 * @param {Kept} kept
 * @returns How many reports that drops.
 */
export function optOut(kept) {
  kept.withdrawals++;
  return withdraw(kept);
}

/**
 * Empty the queue.
 *
 * @param {Kept} kept
 * @returns How many reports that were.
 */
export function withdraw(kept) {
  const count = queued(kept);
  kept.spool = [];
  giveUp(kept);
  return count;
}

/** @param {Kept} kept Loses the identity, and keeps it for an erasure. */
export function forgetIdentity(kept) {
  if (kept.identity) kept.former.push(kept.identity);
  kept.identity = undefined;
  kept.sequence = 0;
}

/**
 * Delete a batch whose answer nobody knows. With its first batch an identity goes too, so that every
 * one begins with 1: a server restored from a backup charges who begins later for what it has lost.
 *
 * @param {Kept} kept
 */
export function giveUp(kept) {
  if (kept.batch?.sequence === 1) forgetIdentity(kept);
  kept.batch = undefined;
}

/**
 * Make it the state of a new device; only a total stays, and which epochs may not be reported again.
 *
 * @param {Kept} kept
 * @param {import("./types.js").Project} project
 * @param {number} seconds Unix time.
 * @returns How many reports were waiting.
 */
export function eraseHere(kept, project, seconds) {
  const [count, total] = [queued(kept), collapsed(kept, project, seconds)];
  const { identity, former, farewell, withdrawals } = kept;
  Object.assign(kept, newLife(), total, {
    batch: undefined,
    identity: undefined,
    withdrawals: withdrawals + 1,
    farewell: [...farewell, ...former, ...(identity ? [identity] : [])],
  });
  return count;
}

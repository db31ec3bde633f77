/**
 * From values to finished reports: charged, randomized and queued in one change of the state. The
 * only place where a value meets a mechanism; what comes out can be sent again and again.
 */

import { DAY_SECONDS, dayOf, endOf } from "./epochs.js";
import { channel, charge, reserve } from "./ledger.js";
import { isTurn, takesPart } from "./spreading.js";

/** @typedef {import("./types.js").Declared} Declared */
/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").Pending} Pending */
/** @typedef {import("./types.js").Project} Project */

const [MOST_REPORTS, MOST_CHARACTERS] = [1000, 500_000];
const LONGEST_ONCE_DAYS = 30;

/**
 * @param {Kept} kept Is changed; to be thrown away if this rejects.
 * @param {Project} project
 * @param {Pending[]} pending
 * @param {number} seconds Unix time.
 * @returns {Promise<string[]>} The reason of each value and report that was dropped.
 */
export async function store(kept, project, pending, seconds) {
  if (kept.suspended) return pending.map(() => "suspended");
  const [sampled, dropped] = [new Set(), /** @type {string[]} */ ([])];
  for (const metric of project.metrics.values()) {
    if (await takesPart(kept.secret, metric)) sampled.add(metric.name);
  }
  reserve(kept, project, dayOf(seconds), sampled);
  for (const { metric, epoch, value } of pending) {
    const turn = await isTurn(kept.secret, metric, epoch);
    const place = sampled.has(metric.name) ? !turn && "not_its_turn" : "not_sampled";
    const reason = place || charge(kept, project.lifetime, metric, epoch);
    if (reason) dropped.push(reason);
    else kept.spool.push(await report(kept, metric, epoch, value, seconds));
  }
  return dropped.concat(trimmed(kept).map(() => "spool_full"));
}

/**
 * @param {Kept} kept
 * @param {Declared} metric
 * @param {number} epoch
 * @param {import("./types.js").Answer} value
 * @param {number} seconds
 */
async function report({ secret, memory }, metric, epoch, value, seconds) {
  const once = metric.epoch === "once";
  const end = (once ? metric.expires : endOf(metric.epoch, epoch)) + metric.graceDays;
  const longest = once ? seconds + LONGEST_ONCE_DAYS * DAY_SECONDS : Infinity;
  const until = Math.min(end * DAY_SECONDS, longest);
  const paid = memory.get(channel(metric)) ?? new Map();
  /** @type {import("./types.js").Remember} */
  const remember = (tag, noisy) => {
    memory.set(channel(metric), paid);
    if (!paid.has(tag) && paid.size < metric.distinct) paid.set(tag, noisy);
    // All are used up: the latest one again, where silence would tell that there is another value.
    return paid.get(tag) ?? [...paid.values()].at(-1);
  };
  return { text: await metric.randomizer.report(value, { epoch, secret, remember }), until };
}

/** @param {Kept} kept Loses its oldest reports beyond the bounds; they stay charged. */
function trimmed({ spool }) {
  let [keep, characters] = [0, 0];
  for (const { text } of spool.slice(-MOST_REPORTS).reverse()) {
    characters += text.length;
    if (characters > MOST_CHARACTERS) break;
    keep++;
  }
  return spool.splice(0, spool.length - keep);
}

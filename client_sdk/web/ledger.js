/**
 * The ledger of one state, by the rules of client_sdk/ledger.py: integers of micro-epsilon, shares
 * reserved whole, charges that are never given back. Nothing here looks at a value.
 */

import { blockOf, blocksLeft, dayOf, endOf, epochOf } from "./epochs.js";

/** @typedef {import("./types.js").Declared} Declared */
/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").Project} Project */

/** Of what no metric of this life has spent: erased lives, and what only the server knows. */
const ELSEWHERE = "";
const LONGEST_GRACE_DAYS = 31;

/** @type {(kept: Kept, of: "spent" | "reserved") => number} */
const sum = ({ shares }, of) => [...shares.values()].reduce((all, share) => all + share[of], 0);

/** @param {Kept} kept */
export const spent = (kept) => sum(kept, "spent");

/** @type {(metric: Declared) => string} */
const marked = ({ name, epoch }) => `${name} ${epoch}`;

/** @param {Declared} metric Names what its remembered noise is paid for. */
export const channel = ({ name, definition }) => `${name} ${definition.channel}`;

/**
 * What the next report costs. Strings pay for all of their values with the first one.
 *
 * @type {(kept: Kept, metric: Declared) => number}
 */
const due = ({ paid }, metric) =>
  metric.distinct ? Math.max(0, metric.charge - (paid.get(channel(metric)) ?? 0)) : metric.charge;

/**
 * What the metric can still be charged for blocks that are not reported yet.
 *
 * @type {(kept: Kept, metric: Declared, today: number) => number}
 */
const future = (kept, metric, today) => {
  const left = blocksLeft(metric, today);
  if (metric.distinct) return left && due(kept, metric);
  const [first, last] = [Math.max(today, metric.starts), metric.expires].map((day) =>
    epochOf(metric.epoch, day),
  );
  const ahead = (kept.marks.get(marked(metric)) ?? []).filter(
    (epoch) => blockOf(metric, epoch) >= blockOf(metric, first) && epoch <= last,
  );
  const reported = new Set(ahead.map((epoch) => blockOf(metric, epoch))).size;
  return Math.max(0, left - reported) * metric.charge;
};

/**
 * Reserve each metric's share of what life has left, in file order.
 *
 * @type {(kept: Kept, project: Project, today: number, sampled: Set<string>) => void}
 */
export const reserve = (kept, { metrics, lifetime }, today, sampled) => {
  for (const [name, share] of kept.shares) {
    if (name !== ELSEWHERE && !metrics.has(name)) share.reserved = share.spent;
  }
  for (const [name, metric] of metrics) {
    const share = kept.shares.get(name) ?? { reserved: 0, spent: 0, fits: true };
    const needed = share.spent + (sampled.has(name) ? future(kept, metric, today) : 0);
    share.fits = needed - share.reserved <= Math.max(0, lifetime - sum(kept, "reserved"));
    if (share.fits) share.reserved = Math.max(share.reserved, needed);
    kept.shares.set(name, share);
  }
};

/**
 * Charge one report and mark its epoch, or say why not.
 *
 * @type {(kept: Kept, lifetime: number, metric: Declared, epoch: number) => string | undefined}
 */
export const charge = (kept, lifetime, metric, epoch) => {
  const marks = kept.marks.get(marked(metric)) ?? [];
  const block = blockOf(metric, epoch);
  if (marks.some((mark) => blockOf(metric, mark) === block)) return "already_reported";
  const share = kept.shares.get(metric.name);
  if (!share?.fits) return "does_not_fit";
  const cost = due(kept, metric);
  if (share.spent + cost > share.reserved || spent(kept) + cost > lifetime) return "budget_exhausted";
  share.spent += cost;
  const key = channel(metric);
  if (metric.distinct) kept.paid.set(key, (kept.paid.get(key) ?? 0) + cost);
  kept.marks.set(marked(metric), [...marks, epoch]);
  return undefined;
};

/**
 * Adopt the server's figure when it is higher; a lower one is never believed.
 *
 * @type {(kept: Kept, server: number) => void}
 */
export const raiseTo = (kept, server) => {
  const missing = server - spent(kept);
  if (missing <= 0) return;
  const share = kept.shares.get(ELSEWHERE) ?? { reserved: 0, spent: 0, fits: false };
  share.reserved += missing;
  share.spent += missing;
  kept.shares.set(ELSEWHERE, share);
};

/**
 * What an erased life leaves: its total, and which epochs were reported that may still be.
 *
 * @type {(kept: Kept, project: Project, seconds: number) => Pick<Kept, "shares" | "marks">}
 */
export const collapsed = (kept, { metrics }, seconds) => {
  const total = spent(kept);
  const marks = [...kept.marks].map(([key, epochs]) => {
    const [name, length] = key.split(" ");
    const every = metrics.get(name)?.every ?? 1;
    const end = (/** @type {number} */ epoch) =>
      endOf(length, (Math.floor(epoch / every) + 1) * every - 1);
    const open = epochs.filter((epoch) => end(epoch) + LONGEST_GRACE_DAYS > dayOf(seconds));
    return /** @type {[string, number[]]} */ ([key, open]);
  });
  return {
    shares: new Map(total ? [[ELSEWHERE, { reserved: total, spent: total, fits: false }]] : []),
    marks: new Map(marks.filter(([, epochs]) => epochs.length)),
  };
};

/** Epochs: numbered UTC days, weeks and months, as client_sdk/epochs.py numbers them. */

/** @typedef {import("./types.js").Declared} Declared */

export const DAY_SECONDS = 86_400;

/** @param {number} seconds Unix time. */
export const dayOf = (seconds) => Math.floor(seconds / DAY_SECONDS);

/** @type {(length: string, day: number) => number} The epoch that holds a day. */
export const epochOf = (length, day) => {
  if (length === "day") return day;
  if (length === "week") return Math.floor((day + 3) / 7);
  const date = new Date(day * DAY_SECONDS * 1000);
  return length === "month" ? (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth() : 0;
};

/** @type {(length: string, epoch: number) => number} The day after it; "once" never ends by itself. */
export const endOf = (length, epoch) => {
  if (length === "day") return epoch + 1;
  if (length === "week") return 7 * epoch + 4;
  return length === "month" ? dayOf(Date.UTC(1970, epoch + 1) / 1000) : Infinity;
};

/** @type {(metric: Declared, epoch: number) => number} Which block of `every` epochs it is in. */
export const blockOf = ({ every }, epoch) => Math.floor(epoch / every);

/** @type {(metric: Declared, since: number) => number} Blocks from a day to the metric's end. */
export const blocksLeft = (metric, since) => {
  const first = Math.max(metric.starts, since);
  const block = (/** @type {number} */ day) => blockOf(metric, epochOf(metric.epoch, day));
  return first < metric.expires ? block(metric.expires - 1) - block(first) + 1 : 0;
};

/** Looks at a value before anything is charged for it, as client_sdk/reception.py does. */

import { epochOf } from "./epochs.js";

/** @typedef {import("./types.js").Declared} Declared */

/** Remembers what came: the first value of an epoch counts. */
export function reception() {
  const latest = new Map();

  /**
   * Why a value goes no further.
   *
   * @param {Declared | undefined} metric
   * @param {any} value
   * @param {number} today
   * @returns {string | undefined}
   */
  return (metric, value, today) => {
    if (!metric) return "unknown_metric";
    try {
      metric.randomizer.encode(value);
    } catch {
      return "wrong_type";
    }
    if (today < metric.starts) return "not_started";
    if (today >= metric.expires) return "expired";
    const epoch = epochOf(metric.epoch, today);
    if (latest.get(metric.name) === epoch) return "already_reported";
    latest.set(metric.name, epoch);
    return undefined;
  };
}

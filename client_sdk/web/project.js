/** What client_sdk.web_definition.definitions says, read once. */

import { dayOf } from "./epochs.js";
import { check } from "./mechanisms.js";
import { load } from "./sottovoce.js";

/** @typedef {import("./types.js").Project} Project */

const VERSION = 1;

/** @type {(name: string, value: number, least?: number) => number} */
const whole = (name, value, least = 1) => {
  check(Number.isSafeInteger(value) && value >= least, `${name} must be an integer from ${least}`, value);
  return value;
};

/**
 * @param {import("./types.js").Definitions} definitions
 * @returns {Project} Throws unless every definition is whole, and every figure beside it.
 */
export const read = ({ version, project, lifetime, metrics }) => {
  if (version !== VERSION) throw new RangeError(`definitions: version must be 1, got ${version}`);
  /** @type {(name: string, date: string) => number} */
  const day = (name, date) => whole(name, dayOf(Date.parse(date) / 1000), 0);
  const declared = metrics.map((stated) => ({
    name: stated.definition.metric,
    definition: stated.definition,
    randomizer: load(stated.definition),
    epoch: stated.epoch,
    every: whole("every", stated.every),
    sample: BigInt(stated.sample),
    starts: day("starts", stated.starts),
    expires: day("expires", stated.expires),
    graceDays: whole("grace_days", stated.grace_days, 0),
    distinct: whole("distinct_values", stated.distinct_values, 0),
    charge: whole("charge", stated.charge),
  }));
  const named = new Map(declared.map((metric) => [metric.name, metric]));
  return { project, lifetime: whole("lifetime", lifetime), metrics: named };
};

/** What client_sdk.web_definition.definitions says, read once. */

import { dayOf } from "./epochs.js";
import { load } from "./sottovoce.js";

/** @typedef {import("./types.js").Project} Project */

const VERSION = 1;

/**
 * @param {import("./types.js").Definitions} definitions
 * @returns {Project} Throws unless every definition is whole.
 */
export const read = ({ version, project, lifetime, metrics }) => {
  if (version !== VERSION) throw new RangeError(`definitions: version must be 1, got ${version}`);
  const day = (/** @type {string} */ date) => dayOf(Date.parse(date) / 1000);
  const declared = metrics.map((stated) => ({
    name: stated.definition.metric,
    definition: stated.definition,
    randomizer: load(stated.definition),
    epoch: stated.epoch,
    every: stated.every,
    sample: BigInt(stated.sample),
    starts: day(stated.starts),
    expires: day(stated.expires),
    graceDays: stated.grace_days,
    distinct: stated.distinct_values,
    charge: stated.charge,
  }));
  return { project, lifetime, metrics: new Map(declared.map((metric) => [metric.name, metric])) };
};

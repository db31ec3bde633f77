/**
 * When to upload: at most once a window, at a random moment; after a failure ever more rarely, and
 * never before a pause is over that the server asked for. The plan is kept: client_sdk/schedule.py.
 */

import { randomBytes } from "./randomness.js";

/** @typedef {import("./types.js").Plan} Plan */

const [LEAST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS] = [30, 6 * 3600];
const LONGEST_PAUSE_SECONDS = 86_400;
const ASKED_AGAIN_SECONDS = 5;
const MOST_FAILURES = 20;

/** @type {() => Plan} */
export const noPlan = () => ({ at: 0, paused: 0, uploaded: 0, failures: 0 });

const share = () => new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32;

/**
 * Seconds until a moment; none for one so far ahead that a clock was set back since it was planned.
 *
 * @type {(moment: number, now: number, within: number) => number}
 */
const until = (moment, now, within) => {
  const longest = 2 * within + MOST_BACKOFF_SECONDS + LONGEST_PAUSE_SECONDS;
  return moment - now <= longest ? Math.max(0, moment - now) : 0;
};

/**
 * Plan an upload unless one is planned.
 *
 * @type {(plan: Plan, now: number, within: number) => number} Seconds to wait.
 */
export const somethingWaits = (plan, now, within) => {
  const opens = Math.min(Math.max(now, plan.uploaded + within), now + within);
  plan.at ||= opens + share() * within;
  return Math.max(until(plan.at, now, within), until(plan.paused, now, within));
};

/**
 * Whether to upload now. A page that leaves does not wait for its moment, but for its window.
 *
 * @type {(plan: Plan, now: number, within: number, urgency: import("./types.js").Urgency) => boolean}
 */
export const isDue = ({ at, paused, uploaded, failures }, now, within, urgency) => {
  if (until(paused, now, within)) return false;
  if (urgency === "asked") return true;
  const moment = urgency === "leaving" && !failures ? uploaded + within : at;
  return moment > 0 && !until(moment, now, within);
};

/** @type {(plan: Plan, now: number) => void} Plan as if the attempt that begins now had failed. */
export const begin = (plan, now) => {
  plan.at = now + share() * Math.min(LEAST_BACKOFF_SECONDS * 2 ** plan.failures, MOST_BACKOFF_SECONDS);
  plan.failures = Math.min(plan.failures + 1, MOST_FAILURES);
};

/**
 * Add a pause to what `begin` has planned; a short one for an app that asks, if it is ours.
 *
 * @type {(plan: Plan, now: number, seconds: number, ours?: boolean) => void}
 */
export const pause = (plan, now, seconds, ours) => {
  plan.at += seconds;
  if (seconds) plan.paused = now + (ours ? ASKED_AGAIN_SECONDS : seconds);
};

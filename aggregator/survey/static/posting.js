/** What is shown from Send to the server's answer, however long that takes. */

import { deliver, mayHaveLeft } from "./delivery.js";
import { NUMERALS, fill } from "./elements.js";
import { withdrawn } from "./keeping.js";
import { sendingPage, sentPage, waitingPage } from "./outcomes.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./page.js").Page} Page */
/** @typedef {{ kind?: string, reason?: string, pauseSeconds?: number | null }} Failed */

const LEAST_PAUSE_SECONDS = 5; // whatever a server asks for: a page is no hammer

/**
 * Send until it is answered; each further try is asked for, or comes when the connection is
 * back or the pause that the server asked for is over.
 *
 * @param {Survey} survey
 * @param {Page} page
 * @param {string[]} [reports] None: those that were kept when the page was left.
 * @returns {Promise<boolean>} Whether it was sent, not cancelled.
 */
export async function sent(survey, page, reports) {
  const words = survey.interface;
  for (;;) {
    page.show(sendingPage(words));
    try {
      page.show(sentPage(words, await deliver(survey, reports)));
      return true;
    } catch (error) {
      const failed = /** @type {Failed} */ (error);
      if (!(await retried(survey, page, failed))) return false;
    }
  }
}

/**
 * @param {Failed} failed
 * @param {Record<string, string>} words
 */
function reasonOf({ kind, reason = "" }, words) {
  if (kind === "refused") {
    if (reason === "invitation_used") return words.invitation_used;
    if (reason === "invitation_unknown") return words.invitation_invalid;
    return fill(words.refused, { reason });
  }
  if (kind === "untrusted") return reason === "other_key" ? words.invitation_other_key : words.untrusted;
  if (kind !== "later") return words.something_wrong;
  return reason === "network" ? words.offline : words.server_busy;
}

/**
 * Wait for another try, or for Cancel while nothing has left.
 *
 * @param {Survey} survey
 * @param {Page} page
 * @param {Failed} failed
 * @returns {Promise<boolean>} Whether to try again.
 */
async function retried(survey, page, failed) {
  const words = survey.interface;
  const left = await mayHaveLeft(survey);
  const pause = failed.pauseSeconds == null ? null : 1000 * Math.max(failed.pauseSeconds, LEAST_PAUSE_SECONDS);
  const waiting = new AbortController();
  const { signal } = waiting;
  /** @type {boolean} */
  const again = await new Promise((done, fail) => {
    const retry = () => done(true);
    const cancel = () => {
      waiting.abort(); // no retry overtakes it
      withdrawn(survey).then(() => done(false), fail);
    };
    addEventListener("online", retry, { signal });
    if (pause !== null) {
      const timer = setTimeout(retry, pause);
      signal.addEventListener("abort", () => clearTimeout(timer));
    }
    const promise = pause === null ? "" : fill(words.waiting_until, { time: timeOf(Date.now() + pause, survey) });
    page.show(waitingPage(words, reasonOf(failed, words), promise, { retry, cancel: left ? null : cancel }));
  });
  waiting.abort();
  return again;
}

/**
 * @param {number} time Milliseconds, Unix time.
 * @param {Survey} survey
 */
function timeOf(time, { language }) {
  const how = /** @type {const} */ ({ dateStyle: "medium", timeStyle: "short", numberingSystem: NUMERALS });
  const told = new Intl.DateTimeFormat(language, how).format(time);
  return told.replace(/\s(?=\S+$)/, "\u00a0"); // no line ends before "PM"
}

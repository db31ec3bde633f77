/** What is shown from Send to the server's answer, however long that takes. */

import { deliver, mayHaveLeft } from "./delivery.js";
import { fill } from "./elements.js";
import { withdrawn } from "./keeping.js";
import { sendingPage, sentPage, waitingPage } from "./outcomes.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./page.js").Page} Page */

/**
 * Send until it is answered; each further try is asked for, or comes when the connection is back.
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
      const reason = reasonOf(/** @type {any} */ (error), words);
      if (!(await retried(survey, page, reason))) return false;
    }
  }
}

/**
 * @param {{ kind?: string, reason?: string }} error
 * @param {Record<string, string>} words
 */
function reasonOf({ kind, reason = "" }, words) {
  if (kind === "refused") {
    if (reason === "invitation_used") return words.invitation_used;
    if (reason === "invitation_unknown") return words.invitation_invalid;
    return fill(words.refused, { reason });
  }
  if (kind === "untrusted") return words.untrusted;
  if (kind !== "later") return words.something_wrong;
  return reason === "network" ? words.offline : words.server_busy;
}

/**
 * Wait for another try, or for Cancel while nothing has left.
 *
 * @param {Survey} survey
 * @param {Page} page
 * @param {string} reason
 * @returns {Promise<boolean>} Whether to try again.
 */
async function retried(survey, page, reason) {
  const left = await mayHaveLeft(survey);
  return new Promise((done, fail) => {
    const retry = () => {
      removeEventListener("online", retry);
      done(true);
    };
    const cancel = () => {
      removeEventListener("online", retry);
      withdrawn(survey).then(() => done(false), fail);
    };
    addEventListener("online", retry);
    page.show(waitingPage(survey.interface, reason, { retry, cancel: left ? null : cancel }));
  });
}

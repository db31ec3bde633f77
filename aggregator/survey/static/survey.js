/**
 * A respondent's page: it shows one step after the other, and until Send it asks nobody for
 * anything. Answers are in memory only, and go with the page.
 */

import { asked } from "./asking.js";
import { invitationIn, invitationOffered, invitationTaken } from "./invitation.js";
import { opened, placeOf } from "./keeping.js";
import { lacking } from "./needs.js";
import { cancelledPage, sentPage, stoppedPage } from "./outcomes.js";
import { pageOf } from "./page.js";
import { sent } from "./posting.js";
import { inOneTab } from "./tabs.js";

/** @type {import("./types.js").Survey} */
const survey = JSON.parse(document.getElementById("survey")?.textContent ?? "");
const words = survey.interface;
const page = pageOf(survey);

/** @type {import("./types.js").Choice[]} */
const answers = survey.questions.map(() => null);
let begun = false;

/**
 * @param {string} title
 * @param {string} reason
 */
const stop = (title, reason) => page.show(stoppedPage(title, reason));

/** @returns {Promise<void>} */
async function run() {
  begun = true;
  const found = await opened(survey, invitationIn(location)).catch(() => null);
  if (!found) return stop(words.stopped_title, words.storage_blocked);
  invitationTaken();
  if (found.phase === "sent") return page.show(sentPage(words, null));
  if (found.phase === "cancelled") return page.show(cancelledPage(words, null));
  if (found.phase === "uninvited") return stop(words.stopped_title, words.invitation_missing);
  const asking = found.phase === "asking";
  const reports = asking ? await asked(survey, page, answers, found.coin) : undefined;
  if (!(await sent(survey, page, reports))) page.show(cancelledPage(words, null));
}

// Nothing is left in a page that may be kept alive behind the next one.
addEventListener("pagehide", () => {
  answers.fill(null);
  page.clear();
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

invitationOffered();
const missing = lacking(globalThis);
if (missing) stop(words.stopped_title, words[missing]);
else {
  const elsewhere = () => stop(words.elsewhere_title, words.elsewhere);
  // Where site data are blocked, so are locks.
  const fail = () => stop(words.stopped_title, begun ? words.something_wrong : words.storage_blocked);
  inOneTab(placeOf(survey), elsewhere, run).catch(fail);
}

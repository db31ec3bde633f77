/**
 * A respondent's page: it shows one step after the other, and until Send it asks nobody for
 * anything. Answers are in memory only, and go with the page.
 */

import { deliver, mayHaveLeft } from "./delivery.js";
import { fill } from "./elements.js";
import { reachable, stepAfter, stepBefore } from "./flow.js";
import { tokenIn, tokenOffered, tokenTaken } from "./invitation.js";
import { opened, placeOf, withdrawn } from "./keeping.js";
import { lacking } from "./needs.js";
import { openingStep } from "./opening.js";
import { cancelledPage, sendingPage, sentPage, stoppedPage, waitingPage } from "./outcomes.js";
import { pageOf, requestsMade } from "./page.js";
import { questionStep } from "./question.js";
import { receiptStep } from "./receipt.js";
import { reportsOf } from "./reports.js";
import { inOneTab } from "./tabs.js";
import { trialStep } from "./trial.js";

/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Choice} Choice */

/** @type {import("./types.js").Survey} */
const survey = JSON.parse(document.getElementById("survey")?.textContent ?? "");
const words = survey.interface;
const page = pageOf(survey);
const load = performance.timeOrigin; // tells this load's entries of the history from older ones

/** @type {Choice[]} */
const answers = survey.questions.map(() => null);
const forget = () => void answers.fill(null);
let begun = false;

/**
 * @param {string} title
 * @param {string} reason
 */
const stop = (title, reason) => page.show(stoppedPage(title, reason));

/**
 * Ask, until Send is pressed.
 *
 * @type {(coin: Uint8Array) => Promise<string[]>}
 */
const asked = (coin) =>
  new Promise((done, fail) => {
    let turn = 0;
    /** @type {(wanted: unknown) => Promise<void>} */
    const show = async (wanted) => {
      const step = reachable(wanted, answers);
      const mine = ++turn;
      const about = { answers: answers.some((answer) => answer !== null) };
      const back = () => backFrom(step);
      const next = () => go(stepAfter(step, answers.length));
      if (step === "opening") {
        const content = openingStep(survey, { begin: next, tryIt: () => go("trial") });
        page.show(content, { ...about, opening: true });
      } else if (step === "trial") {
        page.show(trialStep(survey, { begin: next, back, requests: requestsMade }), about);
      } else if (step === "receipt") {
        const reports = await reportsOf(survey.questions, answers.map(Number), coin);
        if (mine !== turn) return; // gone on while the reports were made
        page.show(receiptStep(survey, reports, { send: () => finish(reports), cancel, back }), about);
      } else {
        const choose = (/** @type {number} */ answer) => void (answers[step] = answer);
        const onward = () => {
          if (answers[step] === null) return false;
          next();
          return true;
        };
        const content = questionStep(survey, step, answers[step], { choose, next: onward, back });
        page.show(content, { ...about, question: step });
      }
    };
    /** @type {(step: Step) => void} */
    const go = (step) => {
      history.pushState({ load, depth: depth() + 1, step }, "");
      show(step).catch(fail);
    };
    const depth = () => (history.state?.load === load ? history.state.depth : 0);
    /** @type {(step: Step) => void} */
    const backFrom = (step) => {
      if (depth()) return history.back();
      const before = stepBefore(step, answers.length);
      history.replaceState({ load, depth: 0, step: before }, "");
      show(before).catch(fail);
    };
    const cancel = () => {
      forget();
      history.replaceState({ load, depth: depth(), step: "opening" }, "");
      page.show(cancelledPage(words, () => void show("opening").catch(fail)));
    };
    /** @type {(reports: string[]) => void} */
    const finish = (reports) => {
      forget();
      removeEventListener("popstate", move);
      done(reports);
    };
    const move = () => void show(history.state?.step).catch(fail);
    addEventListener("popstate", move);
    history.replaceState({ load, depth: 0, step: "opening" }, "");
    show("opening").catch(fail);
  });

/**
 * Send until it is answered; each further try is asked for, or comes when the connection is back.
 *
 * @param {string[]} [reports] None: those that were kept when the page was left.
 * @returns {Promise<boolean>} Whether it was sent, not cancelled.
 */
async function sent(reports) {
  for (;;) {
    page.show(sendingPage(words));
    try {
      page.show(sentPage(words, await deliver(survey, reports)));
      return true;
    } catch (error) {
      if (!(await retried(reasonOf(/** @type {any} */ (error))))) return false;
    }
  }
}

/** @param {{ kind?: string, reason?: string }} error */
function reasonOf({ kind, reason = "" }) {
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
 * @param {string} reason
 * @returns {Promise<boolean>} Whether to try again.
 */
async function retried(reason) {
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
    page.show(waitingPage(words, reason, { retry, cancel: left ? null : cancel }));
  });
}

/** @returns {Promise<void>} */
async function run() {
  begun = true;
  const found = await opened(survey, tokenIn(location)).catch(() => null);
  if (!found) return stop(words.stopped_title, words.storage_blocked);
  tokenTaken();
  if (found.phase === "sent") return page.show(sentPage(words, null));
  if (found.phase === "uninvited") return stop(words.stopped_title, words.invitation_missing);
  const reports = found.phase === "asking" ? await asked(found.coin) : undefined;
  if (await sent(reports)) return;
  await new Promise((done) => page.show(cancelledPage(words, () => done(undefined))));
  return run();
}

// Nothing is left in a page that may be kept alive behind the next one.
addEventListener("pagehide", () => {
  forget();
  page.clear();
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

tokenOffered();
const missing = lacking(globalThis);
if (missing) stop(words.stopped_title, words[missing]);
else {
  const elsewhere = () => stop(words.elsewhere_title, words.elsewhere);
  // Where site data are blocked, so are locks.
  const fail = () => stop(words.stopped_title, begun ? words.something_wrong : words.storage_blocked);
  inOneTab(placeOf(survey), elsewhere, run).catch(fail);
}

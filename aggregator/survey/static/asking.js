/**
 * The steps from the opening to Send, with the browser's own Back. Its history holds which step,
 * never an answer; it outlives the answers, so a step is shown only once it can be reached.
 */

import { reachable, stepAfter, stepBefore } from "./flow.js";
import { openingStep } from "./opening.js";
import { cancelledPage } from "./outcomes.js";
import { requestsMade } from "./page.js";
import { questionStep } from "./question.js";
import { receiptStep } from "./receipt.js";
import { reportsOf } from "./reports.js";
import { trialStep } from "./trial.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Choice} Choice */
/** @typedef {import("./page.js").Page} Page */

const load = performance.timeOrigin; // tells this load's entries of the history from older ones

/** How many of this load's entries lie before this one. */
const depth = () => (history.state?.load === load ? history.state.depth : 0);

/** @param {Step} step */
const entry = (step, at = depth()) => history.replaceState({ load, depth: at, step }, "");

/**
 * Ask until Send is pressed.
 *
 * @param {Survey} survey
 * @param {Page} page
 * @param {Choice[]} answers Filled here, and emptied by Cancel and Send.
 * @param {Uint8Array} coin
 * @returns {Promise<string[]>} The reports.
 */
export function asked(survey, page, answers, coin) {
  const { questions } = survey;
  return new Promise((done, fail) => {
    let turn = 0;

    /** @param {Step} step */
    const go = (step) => {
      history.pushState({ load, depth: depth() + 1, step }, "");
      show(step).catch(fail);
    };
    /** @param {Step} step */
    const backFrom = (step) => {
      if (depth()) return history.back();
      const before = stepBefore(step, questions.length);
      entry(before);
      show(before).catch(fail);
    };
    const moved = () => void show(history.state?.step).catch(fail);
    const cancel = () => {
      answers.fill(null);
      entry("opening");
      page.show(cancelledPage(survey.interface, () => void show("opening").catch(fail)));
    };
    /** @param {string[]} reports */
    const finish = (reports) => {
      answers.fill(null);
      removeEventListener("popstate", moved);
      done(reports);
    };

    /** @type {(step: Step) => Node[] | Promise<Node[]>} */
    const contentOf = (step) => {
      const next = () => go(stepAfter(step, questions.length));
      const back = () => backFrom(step);
      if (step === "opening") return openingStep(survey, { begin: next, tryIt: () => go("trial") });
      if (step === "trial") return trialStep(survey, { begin: next, back, requests: requestsMade });
      if (step === "receipt") {
        return reportsOf(questions, answers.map(Number), coin).then((reports) =>
          receiptStep(survey, reports, { send: () => finish(reports), cancel, back }),
        );
      }
      const onward = () => {
        if (answers[step] === null) return false;
        next();
        return true;
      };
      const choose = (/** @type {number} */ answer) => void (answers[step] = answer);
      return questionStep(survey, step, answers[step], { choose, next: onward, back });
    };
    /** @param {unknown} wanted */
    const show = async (wanted) => {
      const mine = ++turn;
      const step = reachable(wanted, answers);
      const content = contentOf(step);
      const ready = content instanceof Promise ? await content : content;
      if (mine !== turn) return; // gone on while the reports were made
      page.show(ready, {
        opening: step === "opening",
        question: typeof step === "number" ? step : undefined,
        answers: answers.some((answer) => answer !== null),
      });
    };

    addEventListener("popstate", moved);
    entry("opening", 0);
    show("opening").catch(fail);
  });
}

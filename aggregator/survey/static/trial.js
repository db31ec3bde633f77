/**
 * Practice: a made-up question whose answer chance changes before the respondent's eyes. Nothing of
 * it is sent or kept, and it has no part in the survey's coin.
 */

import { coinOf } from "../sottovoce/sottovoce.js";
import { actions, button, choices, element, fill, heading, paragraph } from "./elements.js";

/** @typedef {import("./types.js").Survey} Survey */

const TOSSES = 20;
const KEPT = 75; // of 100

/**
 * @param {Survey} survey
 * @param {{ begin: () => void, back: () => void, requests: () => number }} act
 */
export function trialStep(survey, { begin, back, requests }) {
  const words = survey.interface;
  const answers = [words.try_yes, words.try_no];
  let own = -1;
  /** @type {boolean[]} */
  const stayed = [];
  const tossed = element("ol", { class: "tosses", "aria-label": words.try_tosses });
  const told = element("p", { class: "told", role: "status" });
  const counted = element("p", { class: "note" });

  const chosen = (/** @type {number} */ index) => {
    own = index;
    stayed.length = 0;
    tossed.replaceChildren();
    tell();
  };
  const toss = async (/** @type {number} */ most) => {
    if (own < 0) return question.require(words.choose);
    const coin = coinOf();
    for (let left = Math.min(most, TOSSES - stayed.length); left > 0; left--) {
      const kept = (await coin.uniform(100n)) < BigInt(KEPT);
      stayed.push(kept);
      tossed.append(outcome(kept, answers[kept ? own : 1 - own], words));
    }
    tell();
  };
  const tell = () => {
    const kept = stayed.filter((each) => each).length;
    const last = stayed[stayed.length - 1];
    const sentences = [
      fill(words.try_progress, { n: stayed.length, of: TOSSES }) + ":",
      fill(words.try_result, { answer: answers[last ? own : 1 - own] }) + ".",
      last ? words.try_kept : words.try_changed,
      fill(words.try_count, { kept, other: stayed.length - kept }),
    ];
    told.textContent = stayed.length ? sentences.join(" ") : "";
    one.disabled = rest.disabled = stayed.length === TOSSES;
    counted.textContent = `${words.try_nothing_sent} ${fill(words.try_requests, { n: requests() })}`;
  };
  const one = button(words.try_draw, () => void toss(1), { first: true, quick: true });
  const rest = button(words.try_rest, () => void toss(TOSSES));
  const question = choices({
    legend: element("span", {}, words.try_question),
    texts: answers,
    chosen: null,
    choose: chosen,
  });
  const about = fill(words.try_odds, { kept: KEPT, other: 100 - KEPT });
  tell();
  return [
    heading(words.try_title),
    paragraph(words.try_text),
    element(
      "div",
      { class: "columns trial" },
      element("div", { class: "subject" }, ...question.parts, actions(one, rest), told, tossed, counted),
      element("div", { class: "aside card" }, paragraph(about)),
      actions(button(words.begin, begin, { first: true }), button(words.back, back)),
    ),
  ];
}

/**
 * @param {boolean} kept
 * @param {string} answer
 * @param {Record<string, string>} words
 */
function outcome(kept, answer, words) {
  return element(
    "li",
    { class: kept ? "kept" : "changed" },
    answer,
    element("small", {}, kept ? words.try_stayed : words.try_turned),
  );
}

/**
 * The receipt: every byte of the reports before they are sent, and what each says. Hidden until it
 * is asked for, because an answer that chance has put there looks like an admission.
 */

import { actions, button, element, fill, heading, paragraph } from "./elements.js";
import { saidBy } from "./reports.js";

/** @typedef {import("./types.js").Survey} Survey */

/**
 * @param {Survey} survey
 * @param {string[]} reports
 * @param {{ send: () => void, cancel: () => void, back: () => void }} act
 */
export function receiptStep(survey, reports, { send, cancel, back }) {
  const words = survey.interface;
  const summary = element("summary", {}, words.show);
  /** @type {HTMLDetailsElement} */
  const details = element(
    "details",
    {
      class: "receipt",
      toggle: () => summary.replaceChildren(details.open ? words.hide : words.show),
    },
    summary,
    paragraph(words.receipt_exact, "strong"),
    element("ol", {}, ...reports.map((report, index) => entry(survey, index, report))),
    paragraph(words.envelope, "note"),
    paragraph(words.envelope_address, "note"),
  );
  const forgets = fill(words.cancel_about, { cancel: words.cancel });
  return [
    heading(words.receipt_title),
    paragraph(words.receipt_text, "lead"),
    element(
      "div",
      { class: "columns" },
      element("div", { class: "subject" }, details),
      element("div", { class: "aside card" }, paragraph(words.receipt_same), paragraph(forgets)),
      actions(button(words.send, send, { first: true }), button(words.back, back), button(words.cancel, cancel)),
    ),
  ];
}

/**
 * @param {Survey} survey
 * @param {number} index
 * @param {string} report
 */
function entry(survey, index, report) {
  const [words, question] = [survey.interface, survey.questions[index]];
  const said = saidBy(question, report);
  const ticks = question.odds.kind === "bits";
  const meaning = ticks
    ? said.length
      ? fill(words.meaning_ticks, { answers: said.join(" · ") })
      : words.meaning_no_ticks
    : fill(words.meaning_answer, { answer: said[0] });
  return element(
    "li",
    {},
    paragraph(question.text, "strong"),
    paragraph(`${meaning} ${words.meaning}`),
    element("pre", { dir: "ltr" }, element("code", {}, ...breakable(report))),
  );
}

/**
 * A text whose lines may end behind its commas and colons, so that a phone breaks none of its
 * names; no character of it is another one.
 *
 * @param {string} text
 * @returns {(string | Node)[]}
 */
function breakable(text) {
  return text.split(/(?<=[,:])/).flatMap((part, at) => (at ? [element("wbr"), part] : part));
}

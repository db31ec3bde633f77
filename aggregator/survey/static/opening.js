/** The first step: what leaves this browser, who sees it, and what it costs. */

import { NUMERALS, actions, button, element, fill, heading, paragraph } from "./elements.js";

/** @typedef {import("./types.js").Survey} Survey */

/**
 * @param {Survey} survey
 * @param {{ begin: () => void, tryIt: () => void }} act
 */
export function openingStep(survey, { begin, tryIt }) {
  const words = survey.interface;
  const epsilon = decimalOf(survey.epsilon, survey.language);
  return [
    heading(survey.title),
    paragraph(survey.purpose, "lead"),
    element(
      "div",
      { class: "columns" },
      element(
        "section",
        { class: "subject promise", "aria-labelledby": "leaves" },
        element("h2", { id: "leaves" }, words.leaves_title),
        paragraph(fill(words.leaves, { send: words.send })),
        paragraph(words.any_time),
        paragraph(words.coin),
      ),
      actions(button(words.begin, begin, { first: true }), button(words.try_title, tryIt)),
      element(
        "div",
        { class: "aside" },
        element(
          "dl",
          { class: "figures" },
          figure(words.questions, String(survey.questions.length)),
          figure(words.last_day, dayOf(survey.expires, survey.language)),
          figure(words.limit, epsilon),
        ),
        paragraph(fill(words.epsilon, { epsilon }), "note"),
      ),
    ),
  ];
}

/**
 * @param {string} term
 * @param {string} text
 */
function figure(term, text) {
  return element("div", {}, element("dt", {}, term), element("dd", {}, text));
}

/**
 * @param {string} number
 * @param {string} language
 */
function decimalOf(number, language) {
  const how = { numberingSystem: NUMERALS, maximumFractionDigits: 6 };
  return new Intl.NumberFormat(language, how).format(Number(number));
}

/**
 * @param {string} day
 * @param {string} language
 */
function dayOf(day, language) {
  const how = /** @type {const} */ ({ dateStyle: "long", timeZone: "UTC", numberingSystem: NUMERALS });
  return new Intl.DateTimeFormat(language, how).format(new Date(`${day}T00:00:00Z`));
}

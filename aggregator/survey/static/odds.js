/** What chance does to the answers of one question: as sentences and as dots. */

import { dots } from "./dots.js";
import { element, fill, paragraph } from "./elements.js";

/** @typedef {import("./types.js").Question} Question */

/**
 * @param {Question} question
 * @param {Record<string, string>} words
 */
export function oddsOf(question, words) {
  const { kind, kept, other } = question.odds;
  const answer = question.answers[0].text;
  /** @type {(sentence: string, count: number) => HTMLElement} */
  const figure = (sentence, count) =>
    element(
      "figure",
      {},
      element("figcaption", {}, fill(words[sentence], { answer, kept, other })),
      dots(count),
      paragraph(fill(words.odds_dots, { answer, kept: count, other: 100 - count }), "note"),
    );
  return element(
    "section",
    { class: "odds", "aria-labelledby": "odds" },
    element("h2", { id: "odds" }, words.odds_title),
    figure(`odds_${kind}_kept`, kept),
    figure(`odds_${kind}_other`, other),
    paragraph(words.odds_each),
    question.deniability ? paragraph(fill(words.deniability, { answer }), "promise") : null,
  );
}

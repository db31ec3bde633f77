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
  /** @type {(sentence: string, count: number, ...more: Node[]) => HTMLElement} */
  const figure = (sentence, count, ...more) => {
    const caption = fill(words[sentence], { answer, kept, other });
    return element("figure", {}, element("figcaption", {}, caption), dots(count), ...more);
  };
  const key = fill(kind === "bits" ? words.odds_dots_ticks : words.odds_dots, { answer, kept, other: 100 - kept });
  return element(
    "section",
    { class: "card aside", "aria-labelledby": "odds" },
    element("h2", { id: "odds" }, words.odds_title),
    figure(`odds_${kind}_kept`, kept, paragraph(key, "note")),
    figure(`odds_${kind}_other`, other),
    paragraph(words.odds_each),
    question.deniability ? paragraph(fill(words.deniability, { answer }), "promise") : null,
  );
}

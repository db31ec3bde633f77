/**
 * The reports of a survey's answers, and what each says.
 *
 * The coin fell before the questions were read: from its secret and an answer follows the report,
 * whenever and however often it is asked for. So there is no other draw to choose.
 */

import { utf8 } from "../sottovoce/bytes.js";
import { coinOf, load, prfStream } from "../sottovoce/sottovoce.js";

/** @typedef {import("./types.js").Question} Question */

/**
 * @param {Question[]} questions
 * @param {number[]} answers Index of the answer to each.
 * @param {Uint8Array} coin
 * @returns {Promise<string[]>} As they are sent.
 */
export function reportsOf(questions, answers, coin) {
  return Promise.all(
    questions.map(({ definition, answers: possible }, index) => {
      const own = coinOf(prfStream(coin, utf8("survey"), utf8(definition.metric)));
      return load(definition).report(possible[answers[index]].value, { epoch: 0, coin: own });
    }),
  );
}

/**
 * @param {Question} question
 * @param {string} report
 * @returns {string[]} Texts of the answers that it names: one, or those with a tick.
 */
export function saidBy(question, report) {
  const { response } = JSON.parse(report);
  const { labels, mechanism } = question.definition;
  const cells = mechanism.kind === "cell" ? 1n << BigInt(response) : BigInt(`0x${response}`);
  const texts = labels.map((label) => question.answers.find(({ value }) => value === label)?.text);
  // Of two answers there may be one bit: whether it is the second one.
  const marks = mechanism.kind === "bits" && mechanism.cells === 1 ? 1n << cells : cells;
  return texts.filter((_, index) => (marks >> BigInt(index)) & 1n).map((text) => text ?? "?");
}

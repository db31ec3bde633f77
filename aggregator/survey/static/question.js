/** One question: what is asked, what chance does, and the ways on and back. */

import { actions, button, choices, element, fill, heading } from "./elements.js";
import { oddsOf } from "./odds.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./types.js").Choice} Choice */

/**
 * @param {Survey} survey
 * @param {number} index Of the question.
 * @param {Choice} chosen What was answered before.
 * @param {{ choose: (answer: number) => void, next: () => boolean, back: () => void }} act `next`
 *   tells whether there was an answer.
 */
export function questionStep(survey, index, chosen, { choose, next, back }) {
  const [words, question] = [survey.interface, survey.questions[index]];
  const last = index + 1 === survey.questions.length;
  const group = choices({
    legend: heading(question.text),
    texts: question.answers.map(({ text }) => text),
    chosen,
    described: "no-answer",
    choose,
  });
  const onward = () => void (next() || group.require(words.choose));
  const prefer = question.answers.find(({ name }) => name === "prefer_not_to_answer");
  const about = prefer
    ? fill(words.prefer_not_about, { answer: prefer.text })
    : words.prefer_not_missing;
  return [
    element(
      "div",
      { class: "columns" },
      element("div", { class: "subject" }, ...group.parts, element("p", { class: "note", id: "no-answer" }, about)),
      oddsOf(question, words),
      actions(button(last ? words.review : words.next, onward, { first: true }), button(words.back, back)),
    ),
  ];
}

/** Where a respondent can go: opening, trial, one question after another, receipt. */

/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Choice} Choice */

/**
 * @param {Step} step
 * @param {number} questions How many there are.
 * @returns {Step}
 */
export function stepAfter(step, questions) {
  if (typeof step !== "number") return step === "receipt" ? "receipt" : 0;
  return step + 1 < questions ? step + 1 : "receipt";
}

/**
 * @param {Step} step
 * @param {number} questions
 * @returns {Step}
 */
export function stepBefore(step, questions) {
  if (step === "receipt") return questions - 1;
  return typeof step === "number" && step > 0 ? step - 1 : "opening";
}

/**
 * The step that is asked for, or the first question without an answer before it.
 *
 * @param {unknown} wanted As it stood in the browser's history, which outlives the answers.
 * @param {Choice[]} answers
 * @returns {Step}
 */
export function reachable(wanted, answers) {
  if (wanted === "trial") return "trial";
  const known = wanted === "receipt" || (Number.isInteger(wanted) && Number(wanted) >= 0);
  if (!known) return "opening";
  const open = answers.indexOf(null);
  const index = wanted === "receipt" ? answers.length : Math.min(Number(wanted), answers.length - 1);
  if (open >= 0 && open < index) return open;
  return index === answers.length ? "receipt" : index;
}

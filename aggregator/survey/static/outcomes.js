/** The pages on which nothing is asked: on its way, sent, cancelled, or why not. */

import { actions, button, fill, heading, paragraph } from "./elements.js";

/** @typedef {Record<string, string>} Words */

/** @param {Words} words */
export const sendingPage = (words) => [heading(words.sending)];

/**
 * @param {Words} words
 * @param {string[] | null} answered The server's word on each report; null: another time.
 */
export function sentPage(words, answered) {
  const verdicts = answered ?? [];
  const taken = verdicts.filter((verdict) => verdict === "accepted").length;
  const some = fill(words.sent_some, { n: taken, of: verdicts.length });
  return [
    heading(answered ? words.sent_title : words.answered_title),
    paragraph(answered ? words.sent : words.already_answered, "lead"),
    ...(taken < verdicts.length ? [paragraph(some, "finding")] : []),
    paragraph(words.sent_forgotten),
  ];
}

/**
 * @param {Words} words
 * @param {(() => void) | null} again Null: it was after Send, and the coin is gone.
 */
export const cancelledPage = (words, again) => [
  heading(words.cancelled_title),
  paragraph(words.cancelled, "lead"),
  paragraph(again ? words.cancelled_coin : words.cancelled_closed),
  ...(again ? [actions(button(words.start_again, again, { first: true }))] : []),
];

/**
 * @param {Words} words
 * @param {string} reason In words.
 * @param {string} promise When it tries by itself; "" if it does not.
 * @param {{ retry: () => void, cancel: (() => void) | null }} act No cancel: it may have left.
 */
export const waitingPage = (words, reason, promise, { retry, cancel }) => [
  heading(words.waiting_title),
  paragraph(reason, "lead"),
  ...(promise ? [paragraph(promise)] : []),
  paragraph(cancel ? words.waiting_here : words.waiting_maybe),
  actions(
    button(words.retry, retry, { first: true }),
    ...(cancel ? [button(words.cancel, cancel)] : []),
  ),
];

/**
 * @param {string} title
 * @param {string} reason
 */
export const stoppedPage = (title, reason) => [heading(title), paragraph(reason, "lead")];

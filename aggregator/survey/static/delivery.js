/**
 * What happens after Send, and not before: the browser enrols, and sends one message.
 *
 * Each step is kept before the next one leaves, so that whatever is interrupted goes on with the
 * same bytes, and the server counts them once.
 */

import { utf8 } from "../sottovoce/bytes.js";
import { enrol, finished, send } from "../sottovoce/sender.js";
import { prfStream } from "../sottovoce/sottovoce.js";
import { withState } from "../sottovoce/storage.js";
import { keptToSend, locked, placeOf } from "./keeping.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./types.js").Outgoing} Outgoing */
/** @typedef {import("../sottovoce/types.js").State} State */

const SEQUENCE = 1; // the first message of its device, and the last
const SITE = new URL("..", import.meta.url).href.replace(/\/$/, "");

/**
 * Try once to send what is to be sent.
 *
 * @param {Survey} survey
 * @param {string[]} [reports] Of the press on Send; none: go on with what is kept.
 * @returns {Promise<string[]>} The server's word on each report; none where it had them before.
 */
export function deliver(survey, reports) {
  return withState(placeOf(survey), async (state) => {
    if (reports) await keptToSend(state, reports);
    const { message, ...unaddressed } = await addressed(survey, state);
    if (!message) throw new Error("there is nothing to send");
    const answer = await send(SITE, message).catch(async (error) => {
      if (error.reason === "identity_revoked") await state.put({ sending: unaddressed });
      throw error;
    });
    await locked(state);
    return answer.reports;
  });
}

/**
 * Whether the message may have left already.
 *
 * @param {Survey} survey
 */
export function mayHaveLeft(survey) {
  return withState(placeOf(survey), async (state) => Boolean((await state.get("sending"))?.message));
}

/**
 * Become a device, if that was not done yet, and make its message.
 *
 * @param {Survey} survey
 * @param {State} state
 * @returns {Promise<Outgoing>}
 */
async function addressed(survey, state) {
  const outgoing = await admitted(survey, state);
  if (outgoing.message) return outgoing;
  const { reports, admission } = outgoing;
  const { device, key } = await enrol(SITE, admission ? { admission } : { writeKey: survey.write_key });
  const batch = { device, key, sequence: SEQUENCE };
  const sending = { reports, admission, message: { ...batch, ...(await finished({ ...batch, reports })) } };
  await state.put({ sending });
  return sending;
}

/**
 * Trade the invitation for an admission that nobody can connect with it; open surveys need none.
 * Its chance is kept, but not the coin's: whatever is interrupted asks for the same admission again,
 * and another invitation for another one, or the server would see that one browser had both.
 *
 * @param {Survey} survey
 * @param {State} state
 * @returns {Promise<Outgoing>}
 */
async function admitted(survey, state) {
  /** @type {Outgoing} */
  const outgoing = await state.get("sending");
  if (survey.admission === "open" || outgoing.admission || outgoing.message) return outgoing;
  const { admit, surveyKey } = await import("../sottovoce/admission.js");
  const { token, keyDigest } = await state.get("invitation");
  const place = { endpoint: SITE, survey: survey.survey };
  const publicKey = await surveyKey({ ...place, keyDigest });
  const source = prfStream(await state.get("blinding"), utf8("admission"), utf8(token));
  const sending = { ...outgoing, admission: await admit({ ...place, token, publicKey }, { source }) };
  await state.put({ sending });
  return sending;
}

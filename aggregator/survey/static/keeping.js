/**
 * What this browser keeps of a survey: a coin, after Send the reports on their way, in the end that
 * it was answered. Never an answer, nor what tells one: the coin is gone before a report is kept, for
 * both together give the answer away. Where nothing can be kept all of these reject, and nothing is
 * asked: a coin that is forgotten is a coin that can be tossed twice.
 */

import { newSecret } from "../sottovoce/sottovoce.js";
import { withState } from "../sottovoce/storage.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./types.js").Invitation} Invitation */
/** @typedef {import("../sottovoce/types.js").State} State */
/** @typedef {{ phase: "sent" | "sending" | "cancelled" | "uninvited" } | { phase: "asking", coin: Uint8Array }} Found */

const NOTHING = { coin: undefined, blinding: undefined, invitation: undefined, sending: undefined };

/** @param {Survey} survey */
export const placeOf = (survey) => `survey.${survey.survey}`;

/**
 * Look at what is kept, and toss the coin if that was not done yet.
 *
 * @param {Survey} survey
 * @param {Invitation | null} invitation Kept with this, before the caller may take it from the
 *   address.
 * @returns {Promise<Found>}
 */
export function opened(survey, invitation) {
  return withState(placeOf(survey), async (state) => {
    if (await state.get("sent")) return { phase: "sent" };
    if (await state.get("cancelled")) return { phase: "cancelled" };
    const sending = await state.get("sending");
    // Also instead of one that was refused; once there is an admission it is used.
    if (invitation && !sending?.admission) await state.put({ invitation });
    if (sending) return { phase: "sending" };
    if (survey.admission === "invitation" && !(await state.get("invitation"))) {
      return { phase: "uninvited" };
    }
    let coin = await state.get("coin");
    if (!(coin instanceof Uint8Array)) {
      coin = newSecret();
      const blinding = survey.admission === "invitation" ? newSecret() : undefined;
      await state.put({ coin, blinding });
    }
    return { phase: "asking", coin };
  });
}

/**
 * Keep reports that are to be sent, and with that forget the coin they came from; unless there are
 * some already.
 *
 * @param {State} state
 * @param {string[]} reports
 */
export async function keptToSend(state, reports) {
  if (await state.get("cancelled")) throw new Error("a survey that was cancelled is not sent");
  if (!(await state.get("sending"))) await state.put({ sending: { reports }, coin: undefined });
}

/**
 * Lock the survey: it was sent.
 *
 * @param {State} state
 */
export const locked = (state) => state.put({ ...NOTHING, sent: true });

/**
 * Forget reports that have not left. Their coin is gone, and another one would be another draw: so
 * this is the end of the survey here.
 *
 * @param {Survey} survey
 */
export function withdrawn(survey) {
  return withState(placeOf(survey), (state) => state.put({ ...NOTHING, cancelled: true }));
}

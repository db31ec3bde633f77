/**
 * What this browser keeps of a survey: a coin, after Send the reports on their way, in the end that
 * it was answered. Never an answer. Where nothing can be kept all of these reject, and nothing is
 * asked: a coin that is forgotten is a coin that can be tossed twice.
 */

import { newSecret } from "../sottovoce/sottovoce.js";
import { withState } from "../sottovoce/storage.js";

/** @typedef {import("./types.js").Survey} Survey */
/** @typedef {import("./types.js").Invitation} Invitation */
/** @typedef {{ phase: "sent" | "sending" | "uninvited" } | { phase: "asking", coin: Uint8Array }} Found */

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
    if (await state.get("sent")) {
      await state.forget("coin", "sending", "invitation");
      return { phase: "sent" };
    }
    if (await state.get("sending")) return { phase: "sending" };
    if (invitation) await state.put({ invitation });
    if (survey.admission === "invitation" && !(await state.get("invitation"))) {
      return { phase: "uninvited" };
    }
    let coin = await state.get("coin");
    if (!(coin instanceof Uint8Array)) {
      coin = newSecret();
      await state.put({ coin });
    }
    return { phase: "asking", coin };
  });
}

/**
 * Forget reports that have not left; the coin stays.
 *
 * @param {Survey} survey
 */
export function withdrawn(survey) {
  return withState(placeOf(survey), (state) => state.forget("sending"));
}

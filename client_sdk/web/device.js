/**
 * The state of a device as one page sees it: other tabs change it as well, and whoever clears the
 * browser's storage takes it away.
 */

import { VERSION, newLife } from "./life.js";
import { withState } from "./storage.js";

/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").Project} Project */
/** @typedef {import("./types.js").State} State */

/**
 * @param {() => Promise<Project>} project
 * @param {import("./types.js").Places} places
 * @param {() => void} withdrawn Told that consent was withdrawn in another tab.
 */
export function deviceOf(project, places, withdrawn) {
  let seen = false;
  /** @type {number | undefined} Withdrawals of consent before this page was told of it. */
  let agreed;

  /** @type {<T>(act: (state: State) => Promise<T>, of?: string) => Promise<T>} */
  const holding = async (act, of = "") =>
    withState(`telemetry.${(await project()).project}${of}`, act, places);

  /** @type {(state: State) => Promise<Kept | undefined>} */
  const keptIn = async (state) => {
    const kept = await state.get("device");
    if (kept && kept.version !== VERSION) throw new Error("the state is of another version");
    const { withdrawals = 0 } = kept ?? {};
    const told = (agreed = agreed ?? withdrawals);
    if (withdrawals > told) withdrawn();
    return kept;
  };

  return {
    holding,

    look: () => holding(keptIn),

    /** @type {<T>(act: (kept: Kept) => T | Promise<T>, begin?: boolean) => Promise<T | undefined>} */
    change: (act, begin = false) =>
      holding(async (state) => {
        let kept = await keptIn(state);
        // What this page has charged before was lost: nothing more comes from it.
        if (!kept && seen) throw new Error("the state was lost");
        if (!kept && !begin) return undefined;
        kept ??= newLife();
        const result = await act(kept);
        await state.put({ device: kept });
        seen = true;
        return result;
      }),

    /** Consent is given or withdrawn here: what others did before is past. */
    agree: () => void (agreed = undefined),
  };
}

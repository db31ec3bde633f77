/** What a browser must have, or nothing is asked: there is no second best. */

/**
 * @param {typeof globalThis} world
 * @returns {"not_secure" | "no_randomness" | "browser_too_old" | "storage_blocked" | null} Key of
 *   the words that say what is missing.
 */
export function lacking(world) {
  if (!world.isSecureContext) return "not_secure";
  if (typeof world.crypto?.getRandomValues !== "function") return "no_randomness";
  if (!world.crypto.subtle || !world.navigator?.locks) return "browser_too_old";
  return blocked(() => world.indexedDB) ? "storage_blocked" : null;
}

/** @param {() => unknown} look Some browsers throw where site data are blocked. */
function blocked(look) {
  try {
    return !look();
  } catch {
    return true;
  }
}

/** One tab at a time: two that answer the same survey would send it twice. */

/**
 * Run `act` while no other tab of this browser does, and wait for that if need be.
 *
 * @param {string} name
 * @param {() => void} elsewhere Called if another tab is at it.
 * @param {() => Promise<void>} act
 * @param {LockManager} [locks]
 */
export async function inOneTab(name, elsewhere, act, locks = navigator.locks) {
  const lock = `sottovoce page ${name}`;
  const first = await locks.request(lock, { ifAvailable: true }, async (held) => {
    if (held) await act();
    return held !== null;
  });
  if (first) return;
  elsewhere();
  await locks.request(lock, act);
}

/**
 * What a browser keeps: one small state by name, for one tab at a time, or none.
 *
 * A lock of all tabs is held from the first look to the last write. Whatever fails rejects: there is
 * no second place and no memory instead, for a state that is forgotten is noise drawn twice.
 */

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Places} Places */

const [DATABASE, STORE] = ["sottovoce", "state"];

/**
 * Act on a state; others that ask for the same name wait.
 *
 * @template T
 * @param {string} name
 * @param {(state: State) => Promise<T>} act
 * @param {Places} [places] For tests.
 * @returns {Promise<T>} Rejects where storage or locks are blocked, full or missing.
 */
export async function withState(name, act, places = {}) {
  const { indexedDB = globalThis.indexedDB, locks = globalThis.navigator?.locks } = places;
  if (!indexedDB || !locks) throw new Error("nothing can be kept here: indexedDB or locks are missing");
  return locks.request(`${DATABASE} ${name}`, async () => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await answer(opening);
    try {
      return await act(stateOf(database, name));
    } finally {
      database.close();
    }
  });
}

/** @type {(database: IDBDatabase, name: string) => State} */
const stateOf = (database, name) => {
  /** @type {(act: (store: IDBObjectStore) => void) => Promise<void>} */
  const write = (act) =>
    new Promise((done, fail) => {
      const transaction = database.transaction(STORE, "readwrite", { durability: "strict" });
      transaction.oncomplete = () => done();
      transaction.onabort = () => fail(transaction.error);
      try {
        act(transaction.objectStore(STORE));
      } catch (error) {
        transaction.abort();
        fail(error);
      }
    });
  return {
    get: (key) => answer(database.transaction(STORE).objectStore(STORE).get([name, key])),
    put: (entries) =>
      write((store) => {
        for (const [key, value] of Object.entries(entries)) {
          if (value === undefined) store.delete([name, key]);
          else store.put(value, [name, key]);
        }
      }),
  };
};

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
const answer = (request) =>
  new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });

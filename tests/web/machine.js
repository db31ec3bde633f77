// What a browser keeps for its tabs, in memory: a database, locks, and a clock.

export const START = 1_796_083_200; // 2026-12-01T00:00:00Z
export const DAY = 86_400;

/** A machine: what its tabs share. */
export class Machine {
  constructor() {
    this.now = START + DAY / 2;
    this.kept = new Map();
    this.held = new Map();
    this.opened = 0;
    this.writes = 0;
    this.fault = null;
    this.places = { indexedDB: { open: () => this.#open() }, locks: { request: this.#lock } };
  }

  /** All that is kept, as text. */
  dump() {
    const plain = (_, value) =>
      value instanceof Map ? [...value] : typeof value === "bigint" ? `${value}n` : value;
    return JSON.stringify([...this.kept], plain);
  }

  get device() {
    return this.kept.get("telemetry.shop-app,device");
  }

  #answered(act) {
    const request = {};
    queueMicrotask(() => {
      try {
        if (this.fault) throw this.fault;
        request.result = act();
        request.onsuccess?.();
      } catch (error) {
        request.error = error;
        request.onerror?.();
      }
    });
    return request;
  }

  #open() {
    this.opened++;
    const store = {
      get: (key) => this.#answered(() => structuredClone(this.kept.get(String(key)))),
    };
    const transaction = (_, mode, how) => {
      if (mode !== "readwrite") return { objectStore: () => store };
      if (how?.durability !== "strict") throw new Error("a write must be durable");
      const changes = [];
      const writing = {
        objectStore: () => ({
          put: (value, key) => changes.push([String(key), structuredClone(value)]),
          delete: (key) => changes.push([String(key)]),
        }),
        abort: () => changes.splice(0),
      };
      queueMicrotask(() => {
        writing.error = this.fault ?? this.writeFault;
        if (writing.error) return writing.onabort?.();
        this.writes++;
        for (const [key, ...value] of changes) {
          if (value.length) this.kept.set(key, value[0]);
          else this.kept.delete(key);
        }
        writing.oncomplete?.();
      });
      return writing;
    };
    return this.#answered(() => ({ transaction, close: () => {} }));
  }

  #lock = (name, act) => {
    const before = this.held.get(name) ?? Promise.resolve();
    const after = before.catch(() => {}).then(act);
    this.held.set(name, after);
    return after;
  };
}

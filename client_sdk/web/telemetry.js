/**
 * The telemetry client of a web app: record a value, forget about it. By the rules of the Python
 * client: off until the app says that its user agrees, charged before use, and nothing raises into
 * the page or makes it wait. It only composes: docs/web.md.
 */

import { deliver, sayFarewell } from "./delivery.js";
import { dayOf, epochOf } from "./epochs.js";
import { spent } from "./ledger.js";
import { VERSION, eraseHere, newLife, optOut, queued } from "./life.js";
import { read } from "./project.js";
import { store } from "./recorder.js";
import { somethingWaits } from "./schedule.js";
import { withState } from "./storage.js";

/** @typedef {import("./types.js").Declared} Declared */
/** @typedef {import("./types.js").Home} Home */
/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").Project} Project */
/** @typedef {import("./types.js").Urgency} Urgency */

const MOST_PENDING = 1000;
const LONGEST_SLEEP_SECONDS = 3600; // clocks are set, and machines sleep

/**
 * Who objects besides the app: the user's browser, or a machine that is nobody. As in
 * client_sdk/consent.py.
 *
 * @param {any} navigator
 */
const objection = ({ doNotTrack, globalPrivacyControl, webdriver }) =>
  (doNotTrack === "1" && "doNotTrack") ||
  (globalPrivacyControl && "globalPrivacyControl") ||
  (webdriver && "webdriver");

/** @type {(kept?: Kept) => boolean} Is there anything to tell the server? */
const waits = (kept) =>
  kept !== undefined && !kept.suspended && queued(kept) + kept.farewell.length > 0;

/** @type {(counts: Map<string, number>, reason: string, times?: number) => void} */
const count = (counts, reason, times = 1) => {
  if (times) counts.set(reason, (counts.get(reason) ?? 0) + times);
};

/**
 * @param {import("./types.js").Options} options
 * @param {import("./types.js").World} [world] For tests.
 * @returns {import("./types.js").Client}
 */
export function start(options, world = {}) {
  const { navigator = globalThis.navigator, document = globalThis.document } = world;
  const { fetch = globalThis.fetch, now = () => Date.now() / 1000 } = world;
  const { respectEnvironment = true, uploadWithinSeconds: within = 3600 } = options;
  const [dropped, refused, latest] = [new Map(), new Map(), new Map()];
  let [off, failed, seen, loaded] = ["", "", false, false];
  /** @type {{ name: string, value: any, seconds: number }[]} */
  let pending = [];
  /** @type {Promise<unknown>} */
  let working = Promise.resolve();
  /** @type {Promise<Project> | undefined} */
  let loading;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {number | undefined} Withdrawals of consent before this page was told of it. */
  let agreed;

  const fetched = async () => {
    const { definitions, url = "" } = options;
    const project = read(definitions ?? (await (await fetch(url)).json()));
    loaded = true;
    return project;
  };
  const project = () => (loading ??= fetched());

  /** @type {<T>(act: (state: import("./types.js").State) => Promise<T>, of?: string) => Promise<T>} */
  const holding = async (act, of = "") =>
    withState(`telemetry.${(await project()).project}${of}`, act, world);

  /** @type {(state: import("./types.js").State) => Promise<Kept | undefined>} */
  const keptIn = async (state) => {
    const kept = await state.get("device");
    if (kept && kept.version !== VERSION) throw new Error("the state is of another version");
    const { withdrawals = 0 } = kept ?? {};
    const told = (agreed = agreed ?? withdrawals);
    if (withdrawals > told) off ||= "withdrawn in another tab";
    return kept;
  };
  const look = () => holding(keptIn);

  /** @type {<T>(act: (kept: Kept) => T | Promise<T>, begin?: boolean) => Promise<T | undefined>} */
  const change = (act, begin = false) =>
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
    });

  /** @type {Home} */
  const home = {
    endpoint: options.endpoint,
    writeKey: options.writeKey ?? "",
    connection: { fetch },
    within,
    now,
    maySend: () => !off && !failed,
    refused: (reason, times) => count(refused, reason, times),
    change,
  };

  /** @param {string} reason */
  const drain = (reason) => {
    count(dropped, reason, pending.length);
    pending = [];
  };

  /** @param {any} error What it says is told only while no value was looked at. */
  const fail = (error) => {
    failed ||= loaded ? `no state: ${error?.name}` : `no definitions: ${error?.message}`;
    drain(loaded ? "no_state" : "no_definitions");
  };

  /** @param {number | undefined} seconds */
  const sleep = (seconds) => {
    clearTimeout(timer);
    if (seconds === undefined || !home.maySend()) return;
    timer = setTimeout(upload, Math.min(seconds, LONGEST_SLEEP_SECONDS) * 1000, "moment");
  };

  /** @type {(kept: Kept) => number | undefined} */
  const planned = (kept) => (waits(kept) ? somethingWaits(kept.plan, now(), within) : undefined);

  /** @param {Urgency} urgency */
  const upload = async (urgency) => {
    try {
      if (!home.maySend() || !waits(await look())) return;
      await holding(() => deliver(home, urgency), " upload");
      sleep(await change(planned));
    } catch (error) {
      fail(error);
    }
  };

  /**
   * Why a value goes no further; the first one of an epoch counts.
   *
   * @type {(metric: Declared | undefined, value: any, today: number) => string | undefined}
   */
  const objected = (metric, value, today) => {
    if (!metric) return "unknown_metric";
    try {
      metric.randomizer.encode(value);
    } catch {
      return "wrong_type";
    }
    if (today < metric.starts) return "not_started";
    if (today >= metric.expires) return "expired";
    const epoch = epochOf(metric.epoch, today);
    if (latest.get(metric.name) === epoch) return "already_reported";
    latest.set(metric.name, epoch);
    return undefined;
  };

  const storePending = async () => {
    if (!pending.length) return;
    const whole = await project();
    /** @type {import("./types.js").Pending[]} */
    const accepted = [];
    for (const { name, value, seconds } of pending.splice(0)) {
      const [metric, today] = [whole.metrics.get(name), dayOf(seconds)];
      const reason = objected(metric, value, today);
      if (reason) count(dropped, reason);
      else if (metric) accepted.push({ metric, epoch: epochOf(metric.epoch, today), value });
    }
    if (!accepted.length) return;
    try {
      /** @type {string[]} */
      let reasons = [];
      const wait = await change(async (kept) => {
        reasons = off ? accepted.map(() => "opted_out") : await store(kept, whole, accepted, now());
        return planned(kept);
      }, true);
      for (const reason of reasons) count(dropped, reason);
      sleep(wait);
    } catch (error) {
      count(dropped, "no_state", accepted.length);
      throw error;
    }
  };

  /** @type {(act: () => Promise<unknown>) => Promise<unknown>} One after another; never rejects. */
  const next = (act) => (working = working.then(act).catch(fail));

  /** @param {boolean} wanted */
  const consent = (wanted) => {
    const wish = respectEnvironment && objection(navigator ?? {});
    agreed = undefined;
    off = wanted ? (wish ? `${wish} is set` : "") : "not enabled by the app";
  };

  consent(options.enabled === true);
  document?.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") void working.then(() => upload("leaving"));
  });
  void upload("moment");

  return Object.freeze({
    record(/** @type {string} */ name, /** @type {any} */ value) {
      if (!home.maySend()) count(dropped, off ? "disabled" : loaded ? "no_state" : "no_definitions");
      else if (pending.length >= MOST_PENDING) count(dropped, "queue_full");
      else if (pending.push({ name, value, seconds: now() }) === 1) void next(storePending);
    },

    async setEnabled(/** @type {boolean} */ wanted) {
      consent(wanted);
      if (wanted) return upload("moment");
      drain("opted_out");
      await next(() => change((kept) => count(dropped, "opted_out", optOut(kept))));
    },

    async flush() {
      await next(storePending);
      await upload("asked");
      const kept = home.maySend() ? await look().catch(fail) : undefined;
      return home.maySend() && !kept?.suspended && !waits(kept ?? undefined);
    },

    async status() {
      await working;
      const kept = await look().catch(() => undefined);
      const whole = await project().catch(() => undefined);
      const [reason, used] = [off || failed || kept?.suspended, kept ? spent(kept) : 0];
      return {
        summary: reason ? `disabled: ${reason}` : "collecting",
        spent: used / 1e6,
        left: Math.max(0, (whole?.lifetime ?? 0) - used) / 1e6,
        queued: kept ? queued(kept) : 0,
        dropped: Object.fromEntries(dropped),
        refused: Object.fromEntries(refused),
      };
    },

    async preview() {
      await working;
      const kept = await look().catch(() => undefined);
      return { upload: kept?.batch?.body ?? null, waiting: kept?.spool.map(({ text }) => text) ?? [] };
    },

    async erase() {
      off = "erased, and not enabled by the app since";
      drain("opted_out");
      try {
        await working;
        const whole = await project();
        await change((kept) => {
          count(dropped, "opted_out", eraseHere(kept, whole, now()));
        });
        await holding(() => sayFarewell(home), " upload");
        return true;
      } catch {
        return false;
      }
    },
  });
}

/**
 * The telemetry client of a web app: record a value, forget about it. By the rules of the Python
 * client: off until the app says that its user agrees, charged before use, and nothing raises into
 * the page or makes it wait. It only composes: docs/web.md.
 */

import { deliver, sayFarewell } from "./delivery.js";
import { deviceOf } from "./device.js";
import { dayOf, epochOf } from "./epochs.js";
import { spent } from "./ledger.js";
import { eraseHere, optOut, queued } from "./life.js";
import { read } from "./project.js";
import { reception } from "./reception.js";
import { store } from "./recorder.js";
import { somethingWaits } from "./schedule.js";

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
  const [dropped, refused] = [new Map(), new Map()];
  let [off, failed, loaded] = ["", "", false];
  /** @type {{ name: string, value: any, seconds: number }[]} */
  let pending = [];
  /** @type {Promise<unknown>} */
  let working = Promise.resolve();
  /** @type {Promise<Project> | undefined} */
  let loading;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const fetched = async () => {
    const { definitions, url = "" } = options;
    const project = read(definitions ?? (await (await fetch(url)).json()));
    loaded = true;
    return project;
  };
  const project = () => (loading ??= fetched());
  let reasonNotTo = reception();
  const { holding, look, change, agree } = deviceOf(project, world, () => {
    off ||= "withdrawn in another tab";
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

  const storePending = async () => {
    if (!pending.length) return;
    const whole = await project();
    /** @type {import("./types.js").Pending[]} */
    const accepted = [];
    for (const { name, value, seconds } of pending.splice(0)) {
      const [metric, today] = [whole.metrics.get(name), dayOf(seconds)];
      const reason = reasonNotTo(metric, value, today);
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
    agree();
    reasonNotTo = reception(); // what came before may have been dropped
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

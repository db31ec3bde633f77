/**
 * Moves the queue of a state to the server: enrol once, then one batch at a time, the same bytes
 * until they are answered. What each answer means is decided as in client_sdk/uploader.py.
 */

import { DAY_SECONDS } from "./epochs.js";
import { raiseTo } from "./ledger.js";
import { forgetIdentity, giveUp, withdraw } from "./life.js";
import { begin, isDue, noPlan, pause } from "./schedule.js";
import { SendError, enrol, erase, finished, send } from "./sender.js";

/** @typedef {import("./types.js").Home} Home */
/** @typedef {import("./types.js").Kept} Kept */
/** @typedef {import("./types.js").KeptBatch} KeptBatch */

const MOST_REPORTS = 256;
const MOST_CHARACTERS = 16_128; // the browser must still send it when the page is gone
const REFUSED_DAYS = 2;
const REFUSED_PAUSE_SECONDS = 12 * 3600;

/** @type {Record<string, string>} What ends a state for good. */
const ENDED = {
  clone_suspected: "the server saw this device's identity used by another copy",
  erased: "this device was erased; its state is an older copy",
};

/**
 * Send what waits, if it is time.
 *
 * @param {Home} home
 * @param {import("./types.js").Urgency} urgency
 */
export async function deliver(home, urgency) {
  const { change, now, within, maySend } = home;
  const due = await change((kept) => {
    const starts = maySend() && isDue(kept.plan, now(), within, urgency);
    if (starts) begin(kept.plan, now());
    return starts;
  });
  if (!due) return;
  try {
    await sayFarewell(home);
    while (maySend() && (await sendNext(home)));
    if (maySend()) await change((kept) => void (kept.plan = { ...noPlan(), uploaded: now() }));
  } catch (error) {
    if (!(error instanceof SendError)) throw error;
    const { kind, pauseSeconds } = error;
    await change(({ plan }) => pause(plan, now(), pauseSeconds ?? 0, kind === "refused"));
  }
}

/**
 * Have the server erase what it has of earlier lives.
 *
 * @param {Home} home
 */
export async function sayFarewell({ change, endpoint, connection }) {
  for (;;) {
    const leaving = await change(({ farewell }) => farewell[0]);
    if (!leaving) return;
    await erase(endpoint, leaving, connection);
    await change((kept) => {
      kept.farewell = kept.farewell.filter(({ device }) => device !== leaving.device);
    });
  }
}

/**
 * @param {Home} home
 * @returns {Promise<boolean>} Whether something was settled, and more may wait.
 */
async function sendNext(home) {
  const { change, refused, endpoint, connection, now, maySend } = home;
  const batch = await nextBatch(home);
  if (!batch || !maySend()) return false;
  /** @type {(act: (kept: Kept) => void) => Promise<void>} Unless it was withdrawn meanwhile. */
  const settle = (act) => change((kept) => void (kept.batch?.mac === batch.mac && act(kept)));
  try {
    const { spent, reports } = await send(endpoint, batch, connection);
    await settle((kept) => {
      kept.batch = undefined;
      raiseTo(kept, spent);
    });
    reports.filter((each) => each !== "accepted").forEach((each) => refused(each, 1));
    return true;
  } catch (error) {
    if (!(error instanceof SendError) || error.kind !== "refused") throw error;
    const { reason } = error;
    if (reason in ENDED) {
      await settle((kept) => {
        kept.suspended = ENDED[reason];
        withdraw(kept);
      });
      return false;
    }
    const revoked = reason === "identity_revoked";
    // Refused by who knows whom it is kept, but not for ever.
    const old = now() - batch.made >= REFUSED_DAYS * DAY_SECONDS || now() < batch.made;
    if (!revoked && !old) throw new SendError("refused", reason, REFUSED_PAUSE_SECONDS);
    await settle((kept) => {
      if (revoked) forgetIdentity(kept);
      else giveUp(kept);
      kept.batch = undefined;
      refused(revoked ? reason : "unanswered", batch.count);
    });
    if (revoked) throw new SendError("later", reason);
    return true;
  }
}

/**
 * The batch that was begun, or a new one of what waits.
 *
 * @param {Home} home
 * @returns {Promise<KeptBatch | undefined>}
 */
async function nextBatch({ change, refused, endpoint, writeKey, connection, now, maySend }) {
  const stranger = await change((kept) => {
    const overdue = (/** @type {{ until: number }} */ { until }) => until < now();
    const fresh = kept.spool.filter((each) => !overdue(each));
    refused("too_old", kept.spool.length - fresh.length);
    kept.spool = fresh;
    if (kept.batch && overdue(kept.batch)) {
      refused("too_old", kept.batch.count);
      giveUp(kept);
    }
    return !kept.batch && !kept.identity && fresh.length > 0;
  });
  if (stranger && maySend()) {
    const identity = await enrol(endpoint, { writeKey }, connection);
    await change((kept) => void (kept.identity ??= identity));
  }
  return change(async (kept) => {
    const { spool, identity } = kept;
    if (kept.batch || !identity || !spool.length) return kept.batch;
    // By age and content: the order of storing is nobody's business.
    spool.sort((one, other) => one.until - other.until || (one.text < other.text ? -1 : 1));
    let [count, characters] = [0, 0];
    while (count < Math.min(spool.length, MOST_REPORTS)) {
      characters += spool[count].text.length + 1;
      if (characters > MOST_CHARACTERS) break;
      count++;
    }
    const taken = spool.splice(0, count);
    const head = { ...identity, sequence: ++kept.sequence };
    const reports = taken.map(({ text }) => text);
    const made = await finished({ ...head, reports, padded: true });
    kept.batch = { ...head, ...made, count, made: now(), until: taken[count - 1].until };
    return kept.batch;
  });
}

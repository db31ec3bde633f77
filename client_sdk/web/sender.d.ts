/** Types of sender.js. A test compares them with the module, both ways. */

import type { Answered, Batch, Connection, Identity } from "./types.js";

export type { Answered, Batch, Connection, Identity } from "./types.js";

/**
 * Why a call did not succeed.
 *
 * "later": nobody answered, or the server asks for time: send the same bytes again.
 * "refused": `reason` is the kind of the server's problem, or status_NNN. In `send`
 *   "identity_revoked", "clone_suspected" and "erased" are the server's word, under its MAC: the
 *   identity is at its end. Any other may be anybody's.
 * "untrusted": whoever answered has not shown that it is the server; what was sent may or may
 *   not have been counted: send the same bytes again, later.
 */
export class SendError extends Error {
  constructor(kind: "later" | "refused" | "untrusted", reason: string, pauseSeconds?: number | null);
  kind: "later" | "refused" | "untrusted";
  reason: string;
  /** The least wait that the server asks for, at most a day; null if it asks for none. */
  pauseSeconds: number | null;
}

/** Get an identity; `endpoint` is the server's base URL, "" for the page's own origin. */
export function enrol(
  endpoint: string,
  shown: { writeKey?: string; admission?: string },
  connection?: Connection,
): Promise<Identity>;

/** Make a batch: keep `body` and `mac` before they leave. Throws RangeError beyond 256 reports or 64 KiB. */
export function finished(batch: {
  device: string;
  key: Uint8Array;
  sequence: number;
  reports: string[];
  /** Fill it with spaces up to one of few lengths, so that its length does not tell the number of reports. */
  padded?: boolean;
}): Promise<{ body: string; mac: string }>;

/** Send a batch, once; throws SendError. Sent again, the same bytes are counted once. */
export function send(endpoint: string, batch: Batch, connection?: Connection): Promise<Answered>;

/** For modules of that folder: one request, whose answer anybody may have written. Throws SendError. */
export function ask(
  endpoint: string,
  path: string,
  body: string | null,
  headers: Record<string, string>,
  connection?: Connection,
): Promise<Record<string, any>>;

/** Have what the server knows of a device erased; throws SendError unless it confirms that. */
export function erase(endpoint: string, identity: Identity, connection?: Connection): Promise<void>;

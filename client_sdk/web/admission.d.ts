/** Types of admission.js. A test compares them with the module, both ways. */

import type { Connection, Source, SurveyKey } from "./types.js";

export type { Connection, Source, SurveyKey } from "./types.js";

/**
 * What signs a survey's admissions: the key whose digest (SHA-256, 64 hex digits) the invitation
 * names. Throws SendError: "untrusted" with the reason "other_key" where the server has another.
 */
export function surveyKey(
  invitation: { endpoint: string; survey: string; keyDigest: string },
  connection?: Connection,
): Promise<SurveyKey>;

/**
 * Use an invitation up, and return what `enrol` takes as admission. Throws SendError: "untrusted"
 * where the key or the signature is not what all respondents get.
 *
 * An invitation is good for one draw: pass a `source` that gives the same bytes again after the page
 * was closed, `prfStream` of a secret that never leaves, or the invitation may be lost.
 */
export function admit(
  invitation: { endpoint: string; survey: string; token: string; publicKey: SurveyKey },
  by?: Connection & { source?: Source },
): Promise<string>;

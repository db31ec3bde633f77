/**
 * Makes of an invitation an admission that the server has never seen: what it signs is blinded. It is
 * loaded by pages of surveys by invitation only.
 */

import { EXPONENT, blind } from "./blind_signatures.js";
import { fromHex, hex } from "./bytes.js";
import { randomBytes } from "./randomness.js";
import { ask, SendError } from "./sender.js";

/** @typedef {import("./types.js").Connection} Connection */
/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").SurveyKey} SurveyKey */

const MESSAGE_BYTES = 32;
const EXPONENT_IN_JWK = "AQAB"; // EXPONENT in base64url

/**
 * What signs a survey's admissions, if it is the key that the invitation names. With another one the
 * server would know its respondent again. Throws SendError.
 *
 * @param {{endpoint: string, survey: string, keyDigest: string}} invitation
 * @param {Connection} [connection]
 * @returns {Promise<SurveyKey>}
 */
export async function surveyKey({ endpoint, survey, keyDigest }, connection = {}) {
  const answer = await ask(endpoint, `surveys/${survey}/key`, null, {}, connection);
  if (answer.status !== 200) throw new SendError("refused", answer.reason);
  const { modulus, exponent } = answer;
  if ((await digestOf(modulus, exponent)) !== keyDigest) throw new SendError("untrusted", "other_key");
  return { modulus, exponent };
}

/**
 * SHA-256 of a key as SubjectPublicKeyInfo (DER), in hex digits; "" if it is none that is trusted.
 *
 * @param {unknown} modulus
 * @param {unknown} exponent
 */
async function digestOf(modulus, exponent) {
  if (typeof modulus !== "string" || !/^([0-9a-f]{2})+$/.test(modulus) || exponent !== EXPONENT) return "";
  try {
    const text = String.fromCharCode(...fromHex(modulus.replace(/^(00)+/, "")));
    const n = btoa(text).replace(/[+]/g, "-").replace(/[/]/g, "_").replace(/=/g, "");
    const how = { name: "RSA-PSS", hash: "SHA-384" };
    const key = await crypto.subtle.importKey("jwk", { kty: "RSA", n, e: EXPONENT_IN_JWK }, how, true, ["verify"]);
    const der = await crypto.subtle.exportKey("spki", key);
    return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", der)));
  } catch {
    return "";
  }
}

/**
 * Use an invitation up, and return the admission to enrol with.
 *
 * An invitation is good for one draw. A page that may be closed before it has enrolled passes a
 * `source` that gives the same bytes again, `prfStream` of a secret that it keeps and that never
 * leaves; with the browser's chance, the invitation is lost with the page. Throws SendError.
 *
 * @param {{endpoint: string, survey: string, token: string, publicKey: SurveyKey}} invitation
 * @param {Connection & {source?: Source}} [by]
 * @returns {Promise<string>} `survey.message.signature`.
 */
export async function admit({ endpoint, survey, token, publicKey }, by = {}) {
  const { source = randomBytes, ...connection } = by;
  const message = await source(MESSAGE_BYTES);
  const { blinded, finish } = await blind(publicKey, message, source);
  const body = JSON.stringify({ invitation: token, blinded });
  const answer = await ask(endpoint, `surveys/${survey}/admissions`, body, {}, connection);
  if (answer.status !== 200) throw new SendError("refused", answer.reason);
  return `${survey}.${hex(message)}.${finish(answer.signature)}`;
}

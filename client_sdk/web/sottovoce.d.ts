/** Types of sottovoce.js. A test compares them with the module, both ways. */

import type { Coin, Definition, Metric, Source } from "./types.js";

export type { Answer, Coin, Definition, Drawing, Metric, Source, Stated } from "./types.js";

/** Random bytes of the browser, at most 65,536; throws where there are none. */
export function randomBytes(count: number): Uint8Array;

/** Secret of a device: keep it, or remembered noise is drawn anew. */
export function newSecret(): Uint8Array;

/** Random decisions from the browser's bytes; another source is for tests. */
export function coinOf(source?: Source): Coin;

/** A deterministic stream: HMAC-SHA-256 of a secret key in counter mode. */
export function prfStream(secret: Uint8Array, ...context: Uint8Array[]): Source;

/** Make a metric; throws unless the definition is whole and its law has noise. */
export function load(definition: Definition): Metric;

/** Types of telemetry.js. A test compares them with the module, both ways. */

import type { Client, Options, World } from "./types.js";

export type { Client, Definitions, Options, Status, World } from "./types.js";

/** Make a client, one for each page; off unless `enabled`. */
export function start(options: Options, world?: World): Client;

/** What the modules of this folder pass around. */

/** Gives the next bytes of a random stream. */
export type Source = (count: number) => Uint8Array | Promise<Uint8Array>;

/** What a respondent said; null and undefined are reported as `missing`. */
export type Answer = boolean | number | string | null | undefined;

/** Random decisions, exact to 2**-64. */
export interface Coin {
  /** True with probability exactly threshold / 2**64. */
  bernoulli: (threshold: bigint) => Promise<boolean>;
  /** An integer in [0, bound), by rejection. */
  uniform: (bound: bigint) => Promise<bigint>;
  /** Each of `width` bits is 1 with probability ifOne / 2**64 where `bits` has a 1, else ifZero / 2**64. */
  flipBits: (bits: bigint, width: number, ifOne: bigint, ifZero: bigint) => Promise<bigint>;
}

/** A mechanism and the integers that fix its law, each as decimal text. */
export interface Stated {
  name: string;
  kind: string;
  cells: number;
  cohorts: number;
  parameters: Record<string, string>;
}

/** What client_sdk.web_definition writes. */
export interface Definition {
  version: number;
  metric: string;
  fingerprint: string;
  channel: string;
  type: string;
  labels: (boolean | number | string)[];
  edges: string[];
  missing: number | string;
  catch_all: number | null;
  mechanism: Stated;
  epsilon: string;
  epsilon_permanent: string | null;
}

export interface Drawing {
  /** Number of the epoch; 0 for a metric that is asked once. */
  epoch: number;
  /** For strings, whose noise is remembered: 32 bytes of `newSecret`. */
  secret?: Uint8Array;
  /** For tests. */
  coin?: Coin;
}

export interface Metric {
  name: string;
  /** Loss of one report, rounded up. */
  epsilon: string;
  /** Loss of all reports of one string, rounded up. */
  epsilonPermanent: string | null;
  /** What is randomized: an index, a place in a range, or a string in NFC. */
  encode: (answer: Answer) => bigint | string;
  /** Draws a report, as the JSON text to send. Each call is a new draw and loses epsilon again. */
  report: (answer: Answer, drawing: Drawing) => Promise<string>;
}

/** What is kept under one name; values are those that structured clones can hold. */
export interface State {
  get: (key: string) => Promise<any>;
  /** All of the entries are durable when this resolves, or none is. */
  put: (entries: Record<string, unknown>) => Promise<void>;
  forget: (...keys: string[]) => Promise<void>;
}

/** Where states lie: those of the browser, or others in tests. */
export interface Places {
  indexedDB?: IDBFactory;
  locks?: LockManager;
}

export interface Identity {
  /** 32 hex digits, drawn by the server. */
  device: string;
  /** 32 bytes, from which the MACs are made. */
  key: Uint8Array;
}

/** What `finished` made, and of whom. */
export interface Batch extends Identity {
  /** From 1, higher with each new batch of a device. */
  sequence: number;
  /** The exact text that is sent. */
  body: string;
  mac: string;
}

/** What the server said, under its MAC. */
export interface Answered {
  verdict: "accepted" | "duplicate";
  /** Micro-epsilon in the server's ledger for this device. */
  spent: number;
  /** For each report "accepted" or the reason of its refusal. */
  reports: string[];
}

export interface Connection {
  /** For tests. */
  fetch?: typeof fetch;
}

/** What signs a survey's admissions, as the page and GET /v1/surveys/NAME/key say. */
export interface SurveyKey {
  /** In lower-case hex digits. */
  modulus: string;
  exponent: number;
}

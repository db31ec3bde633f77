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

/** Chooses the remembered response to send; `tag` names the string, by the secret only. */
export type Remember = (tag: bigint, permanent: bigint) => bigint;

export interface Drawing {
  /** Number of the epoch; 0 for a metric that is asked once. */
  epoch: number;
  /** For strings, whose noise is remembered: 32 bytes of `newSecret`. */
  secret?: Uint8Array;
  /** For strings, where their number is limited; without it each is sent as it is remembered. */
  remember?: Remember;
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
  /** All of the entries are durable when this resolves, or none is; undefined: forgotten. */
  put: (entries: Record<string, unknown>) => Promise<void>;
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

/** One metric as client_sdk.web_definition.definitions states it. */
export interface StatedMetric {
  definition: Definition;
  epoch: string;
  every: number;
  /** Threshold out of 2**64, as text. */
  sample: string;
  starts: string;
  expires: string;
  grace_days: number;
  distinct_values: number;
  /** Micro-epsilon: of one report, or of all of a string metric's. */
  charge: number;
}

/** What client_sdk.web_definition.definitions writes. */
export interface Definitions {
  version: number;
  project: string;
  /** Micro-epsilon that one state may spend. */
  lifetime: number;
  metrics: StatedMetric[];
}

/** A metric as it was read. Days are counted from 1970. */
export interface Declared {
  name: string;
  definition: Definition;
  randomizer: Metric;
  epoch: string;
  every: number;
  sample: bigint;
  starts: number;
  expires: number;
  graceDays: number;
  /** Strings that noise is remembered for, 0 where none is. */
  distinct: number;
  charge: number;
}

export interface Project {
  project: string;
  lifetime: number;
  metrics: Map<string, Declared>;
}

/** A value on its way; lives in memory only. */
export interface Pending {
  metric: Declared;
  epoch: number;
  value: Answer;
}

/** Unix times in seconds; 0: never, or none. */
export interface Plan {
  /** The planned moment. */
  at: number;
  /** Nothing is sent before, not even if the page asks. */
  paused: number;
  /** The last success. */
  uploaded: number;
  /** Attempts that have failed since. */
  failures: number;
}

/** Why an upload is tried: it may be its moment, the page is left, or the app asks. */
export type Urgency = "moment" | "leaving" | "asked";

export interface KeptBatch extends Batch {
  count: number;
  made: number;
  until: number;
}

/** All that is kept of a device. It holds no value. */
export interface Kept {
  version: number;
  secret: Uint8Array;
  /** Micro-epsilon by metric name. */
  shares: Map<string, { reserved: number; spent: number; fits: boolean }>;
  /** Micro-epsilon by channel. */
  paid: Map<string, number>;
  /** Remembered responses by channel and tag. */
  memory: Map<string, Map<bigint, bigint>>;
  /** Epochs that were charged. */
  marks: Map<string, number[]>;
  spool: { text: string; until: number }[];
  batch?: KeptBatch;
  identity?: Identity;
  sequence: number;
  /** Identities that are not used any more. */
  former: Identity[];
  /** Identities of erased lives, whose erasure the server has not confirmed. */
  farewell: Identity[];
  suspended?: string;
  /** How often consent was withdrawn, in any tab. */
  withdrawals: number;
  plan: Plan;
}

/** What a delivery needs of the page. */
export interface Home {
  endpoint: string;
  writeKey: string;
  connection: Connection;
  /** Length of a window in seconds. */
  within: number;
  /** Unix time in seconds. */
  now: () => number;
  maySend: () => boolean;
  refused: (reason: string, count: number) => void;
  /** Change the state in one step, if there is one. */
  change: <T>(act: (kept: Kept) => T | Promise<T>) => Promise<T | undefined>;
}

export interface Options {
  /** What client_sdk.web_definition.definitions writes, or where it lies. */
  definitions?: Definitions;
  url?: string;
  /** Base URL of the server, "" for the page's own origin. */
  endpoint: string;
  /** Lets new devices enrol; no secret. */
  writeKey?: string;
  /** The user's consent; false until it is given. */
  enabled?: boolean;
  /** Stay off where the browser says doNotTrack, globalPrivacyControl or webdriver. */
  respectEnvironment?: boolean;
  /** Length of a window in which there is one upload. */
  uploadWithinSeconds?: number;
}

/** What is outside; for tests. */
export interface World extends Places, Connection {
  navigator?: object;
  document?: Document;
  /** Unix time in seconds. */
  now?: () => number;
}

export interface Status {
  /** "collecting", or "disabled: " and the reason. */
  summary: string;
  /** Epsilon that this state has spent, and may still spend. */
  spent: number;
  left: number;
  /** Reports that wait to be sent or answered. */
  queued: number;
  /** Values not reported, by reason; since the page was opened. */
  dropped: Record<string, number>;
  /** Reports that left the queue without being accepted, by reason. */
  refused: Record<string, number>;
}

export interface Client {
  /** Answer a metric's question for the current epoch; never throws, never waits. */
  record: (metric: string, value: unknown) => void;
  /** Withdraw consent, which empties the queue, or give it. */
  setEnabled: (wanted: boolean) => Promise<void>;
  /** Store and send now; true when nothing is left. */
  flush: () => Promise<boolean>;
  status: () => Promise<Status>;
  /** The exact bytes of the upload that is not answered, and of reports that wait for a later one. */
  preview: () => Promise<{ upload: string | null; waiting: string[] }>;
  /** Withdraw consent and erase this device here and on the server; true when it has confirmed. */
  erase: () => Promise<boolean>;
}

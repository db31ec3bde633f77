/** What the modules of a survey's page pass around. */

import type { Batch, Definition } from "../sottovoce/types.js";

export interface Answer {
  name: string;
  text: string;
  /** What the metric takes for it. */
  value: string | boolean;
}

/** What chance does to an answer, of 100 people. */
export interface Odds {
  /** "cell": one answer is sent; "bits": each answer with or without a tick. */
  kind: "cell" | "bits";
  kept: number;
  other: number;
}

export interface Question {
  name: string;
  text: string;
  answers: Answer[];
  odds: Odds;
  /** Whether the odds allow the sentence that nobody can tell. */
  deniability: boolean;
  definition: Definition;
}

/** client_sdk.survey.page_document, and what the server adds for those who may answer. */
export interface Survey {
  survey: string;
  language: string;
  languages: { language: string; name: string }[];
  direction: "ltr" | "rtl";
  title: string;
  purpose: string;
  contact: string;
  admission: "open" | "invitation";
  starts: string;
  expires: string;
  epsilon: string;
  interface: Record<string, string>;
  questions: Question[];
  /** Of open surveys: by which browsers enrol. */
  write_key?: string;
}

/** Where a respondent is: a number is the index of a question. */
export type Step = "opening" | "trial" | number | "receipt";

/** An index into a question's answers; null: none yet. */
export type Choice = number | null;

/** What a link brings to a survey by invitation. */
export interface Invitation {
  token: string;
  /** Of the key that signs admissions: what the server shows later must be this one. */
  keyDigest: string;
}

/** What is kept between Send and the server's answer: reports, and no answers. */
export interface Outgoing {
  reports: string[];
  /** Value of Authorization, of surveys by invitation. */
  admission?: string;
  /** With it the body may have left. */
  message?: Batch;
}

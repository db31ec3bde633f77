// Respondents who do what a survey's page does, from the coin to the answer of the server.
//
// Standard input: {endpoint, write_key, document, answers: [[value per question] per respondent],
// again: [who sends the same bytes twice], twice: [who makes a second batch of the same reports]}.
// Standard output: {respondents: [{requests, answered}]} in the order of `answers`. `requests` is
// all that fetch was asked for; answers stay here.

import { text } from "node:stream/consumers";

import { utf8 } from "../../client_sdk/web/bytes.js";
import { enrol, finished, send } from "../../client_sdk/web/sender.js";
import { coinOf, load, newSecret, prfStream } from "../../client_sdk/web/sottovoce.js";

const AT_ONCE = 12;

const { endpoint, write_key: writeKey, document, answers, again, twice } = JSON.parse(
  await text(process.stdin),
);
const metrics = document.questions.map(({ definition }) => load(definition));
const real = globalThis.fetch;
globalThis.fetch = () => {
  throw new Error("a request that no respondent notes");
};

/** A fetch that notes all that leaves. */
function recorder() {
  const requests = [];
  const fetch = (url, { method, headers, body, ...how }) => {
    requests.push({ url, method, headers, body });
    return real(url, { method, headers, body, ...how });
  };
  return { requests, fetch };
}

async function respondent(values, number) {
  const connection = recorder();
  const secret = newSecret();
  const reports = [];
  for (const [place, metric] of metrics.entries()) {
    const coin = coinOf(prfStream(secret, utf8("survey"), utf8(metric.name)));
    reports.push(await metric.report(values[place], { epoch: 0, coin }));
  }
  const identity = await enrol(endpoint, { writeKey }, connection);
  const batch = async (sequence) => {
    const made = { ...identity, sequence, reports };
    return { ...made, ...(await finished(made)) };
  };
  const first = await batch(1);
  const answered = [await send(endpoint, first, connection)];
  if (again.includes(number)) answered.push(await send(endpoint, first, connection));
  if (twice.includes(number)) answered.push(await send(endpoint, await batch(2), connection));
  return { requests: connection.requests, answered };
}

const respondents = new Array(answers.length);
const waiting = answers.entries();
const queue = async () => {
  for (const [number, values] of waiting) respondents[number] = await respondent(values, number);
};
await Promise.all(Array.from({ length: AT_ONCE }, queue));
process.stdout.write(JSON.stringify({ respondents }));

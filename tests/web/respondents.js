// Respondents who do what a survey's page does, from the coin to the answer of the server.
//
// Standard input: {site, endpoint, write_key, document, answers: [[index per question] per
// respondent], again: [who sends the same bytes twice], twice: [who makes a second batch of the same
// reports]}. `site` is a folder with what the server serves: survey/ and sottovoce/.
// Standard output: {respondents: [{said, requests, answered}]} in the order of `answers`. `said` is
// what the receipt reads from the reports, `requests` all that fetch was asked for.

import { text } from "node:stream/consumers";

const AT_ONCE = 12;

const { site, endpoint, write_key: writeKey, document, answers, again, twice } = JSON.parse(
  await text(process.stdin),
);
const { enrol, finished, send } = await import(`${site}/sottovoce/sender.js`);
const { newSecret } = await import(`${site}/sottovoce/sottovoce.js`);
const { reportsOf, saidBy } = await import(`${site}/survey/reports.js`);
const { questions } = document;
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

async function respondent(indices, number) {
  const connection = recorder();
  const reports = await reportsOf(questions, indices, newSecret());
  const said = questions.map((question, place) => saidBy(question, reports[place]));
  const identity = await enrol(endpoint, { writeKey }, connection);
  const batch = async (sequence) => {
    const made = { ...identity, sequence, reports };
    return { ...made, ...(await finished(made)) };
  };
  const first = await batch(1);
  const answered = [await send(endpoint, first, connection)];
  if (again.includes(number)) answered.push(await send(endpoint, first, connection));
  if (twice.includes(number)) answered.push(await send(endpoint, await batch(2), connection));
  return { said, requests: connection.requests, answered };
}

const respondents = new Array(answers.length);
const waiting = answers.entries();
const queue = async () => {
  for (const [number, indices] of waiting) respondents[number] = await respondent(indices, number);
};
await Promise.all(Array.from({ length: AT_ONCE }, queue));
process.stdout.write(JSON.stringify({ respondents }));

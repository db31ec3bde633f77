// Respondents who try for another draw, and a thief of what their browser keeps after Send.
//
// Standard input: {site, document, answers: [[index per question] per respondent], tries}. `site` is a
// folder with what the server serves: survey/ and sottovoce/.
// Standard output: {respondents: [{tried, fresh, kept, stolen, ended}]} in the order of `answers`.
// `tried` are the reports of each try, as said on the receipt, and `fresh` what as many tosses of new
// coins say; `kept` names what is kept after Send; `stolen` tells for each question which answers fit
// the report by the coin: {kept: if it is there, with: if it were}; `ended` is the phase after Cancel.

import { text } from "node:stream/consumers";

import { Machine } from "./machine.js";

const { site, document, answers, tries } = JSON.parse(await text(process.stdin));
const { newSecret } = await import(`${site}/sottovoce/sottovoce.js`);
const { withState } = await import(`${site}/sottovoce/storage.js`);
const { keptToSend, opened, placeOf, withdrawn } = await import(`${site}/survey/keeping.js`);
const { reportsOf, saidBy } = await import(`${site}/survey/reports.js`);
const { questions } = document;

const said = async (reports) =>
  (await reports).map((report, place) => saidBy(questions[place], report).join());

/** Which answers to each question give its report by this coin. */
async function fitting(reports, coin) {
  const most = Math.max(...questions.map((question) => question.answers.length));
  const fits = questions.map(() => []);
  for (let index = 0; index < most; index++) {
    const guess = questions.map((question) => Math.min(index, question.answers.length - 1));
    const made = await reportsOf(questions, guess, coin);
    made.forEach((report, place) => {
      if (guess[place] === index && report === reports[place]) fits[place].push(index);
    });
  }
  return fits;
}

/** A try: the page is opened anew (reload, Cancel, Back), or by two tabs at once. */
async function coinOfTry(number) {
  const tabs = number % 2 ? [opened(document, ""), opened(document, "")] : [opened(document, "")];
  const found = await Promise.all(tabs);
  return found.at(-1).coin;
}

async function respondent(indices) {
  const { places, kept } = new Machine();
  globalThis.indexedDB = places.indexedDB;
  Object.defineProperty(globalThis, "navigator", { value: { locks: places.locks }, configurable: true });
  const [tried, fresh] = [[], []];
  let coin;
  for (let number = 0; number < tries; number++) {
    coin = await coinOfTry(number);
    tried.push(await said(reportsOf(questions, indices, coin)));
    fresh.push(await said(reportsOf(questions, indices, newSecret())));
  }
  const reports = await reportsOf(questions, indices, coin);
  await withState(placeOf(document), (state) => keptToSend(state, reports));
  const names = [...kept.keys()].map((key) => key.split(",")[1]).sort();
  const left = kept.get(`${placeOf(document)},coin`);
  const stolen = {
    kept: left ? await fitting(reports, left) : null,
    with: await fitting(reports, coin),
  };
  await withdrawn(document);
  const { phase } = await opened(document, "");
  // A retry that was under way while Cancel was pressed.
  const late = withState(placeOf(document), (state) => keptToSend(state, reports));
  if (await late.catch(() => null) !== null) throw new Error("it is sent after Cancel");
  return { tried, fresh, kept: names, stolen, ended: phase };
}

const respondents = [];
for (const indices of answers) respondents.push(await respondent(indices));
process.stdout.write(JSON.stringify({ respondents }));

// Draws reports by the real chance of the runtime, and prints how often each response came.
//
// Standard input: {asked: [[definition, answer, draws]], spoil: share of bytes}. Standard output:
// for each asked, {"cohort response": count}. `spoil` makes that part of all random bytes zero.

import { text } from "node:stream/consumers";

import { load, newSecret } from "../../client_sdk/web/sottovoce.js";

const { asked, spoil } = JSON.parse(await text(process.stdin));

if (spoil) {
  const honest = crypto.getRandomValues.bind(crypto);
  crypto.getRandomValues = (array) => {
    const chance = honest(new Uint8Array(array.length));
    return honest(array).map((byte, at) => (chance[at] < 256 * spoil ? 0 : byte));
  };
}

const found = [];
for (const [definition, answer, draws] of asked) {
  const metric = load(definition);
  const counts = {};
  for (let drawn = 0; drawn < draws; drawn++) {
    // A new device each time: what is remembered of a string is drawn anew, too.
    const { cohort, response } = JSON.parse(
      await metric.report(answer, { epoch: 0, secret: newSecret() }),
    );
    const key = `${cohort} ${response}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  found.push(counts);
}
process.stdout.write(JSON.stringify(found));

/**
 * Mechanisms made from the integers that Python states: their laws are computed there, once.
 *
 * docs/mechanisms.md describes each. As in client_sdk, every decision is drawn whatever an earlier
 * one said, so that the work does not depend on the value.
 */

import { join, sha256, uint32, utf8 } from "./bytes.js";
import { ONE } from "./randomness.js";

/** @typedef {import("./types.js").Coin} Coin */
/** @typedef {Record<string, bigint>} Parameters */

/**
 * @typedef {object} Mechanism
 * @property {"bits" | "cell"} kind Whether a response is a bit vector or the index of one cell.
 * @property {bigint} cells
 * @property {bigint} [domain] Number of values; none for strings.
 * @property {bigint} [cohorts] Where noise is remembered: groups of devices.
 * @property {(value: any, cohort: bigint, coin: Coin) => bigint | Promise<bigint>} permanent
 *   What is remembered: of a string noise, by a repeatable coin; else the encoded value itself.
 * @property {(permanent: bigint, coin: Coin) => Promise<bigint>} instantaneous What is sent.
 */

/** @typedef {(parameters: Parameters) => Mechanism} Make */

/** Highest place of a number in its range: client_sdk.mechanisms.POSITIONS. */
export const POSITIONS = 1n << 32n;

/** @type {(holds: boolean, rule: string, got: unknown) => void} */
export const check = (holds, rule, got) => {
  if (!holds) throw new RangeError(`definition: ${rule}, got ${got}`);
};

/** @type {(value: bigint) => bigint} */
const itself = (value) => value;

/** @type {Make} */
const randomizedResponse = ({ yes_if_yes: yes, yes_if_no: no }) => {
  const fits = 0n < yes && yes < ONE && 0n < no && no < ONE && yes !== no;
  check(fits, "yes_if_yes and yes_if_no must differ and lie inside 0..2**64", [yes, no]);
  return {
    kind: "bits",
    cells: 1n,
    domain: 2n,
    permanent: itself,
    instantaneous: async (bit, coin) => BigInt(await coin.bernoulli(bit ? yes : no)),
  };
};

/**
 * Keeps one of `size` cells, or sends another one.
 *
 * @type {(size: bigint, keep: bigint) => (cell: bigint, coin: Coin) => Promise<bigint>}
 */
const keeping = (size, keep) => {
  const fits = size > 1n && ONE < keep * size && keep < ONE;
  check(fits, "keep must lie between chance level and 2**64, of 2 cells or more", [keep, size]);
  return async (cell, coin) => {
    const kept = await coin.bernoulli(keep);
    const shift = 1n + (await coin.uniform(size - 1n));
    const other = (cell + shift) % size;
    return kept ? cell : other;
  };
};

/** @type {Make} */
const generalizedRandomizedResponse = ({ domain, keep }) => {
  const kept = keeping(domain, keep);
  return {
    kind: "cell",
    cells: domain,
    domain,
    permanent: itself,
    instantaneous: kept,
  };
};

/** @type {Make} */
const unary = ({ domain, one_if_one: one, one_if_zero: zero }) => {
  const fits = domain > 1n && 0n < zero && zero < one && one < ONE;
  check(fits, "need 0 < one_if_zero < one_if_one < 2**64 and 2 values or more", [zero, one, domain]);
  return {
    kind: "bits",
    cells: domain,
    domain,
    permanent: (value) => 1n << value,
    instantaneous: (bits, coin) => coin.flipBits(bits, Number(domain), one, zero),
  };
};

/** @type {Make} */
const localHashing = ({ domain, cells_per_seed: size, keep, seeds, modulus }) => {
  const kept = keeping(size, keep);
  check(domain > 1n && seeds > 0n, "need 2 values and a seed, or more", [domain, seeds]);
  const field = modulus === 0n || (size < modulus && modulus < 2n * size);
  check(field, "modulus must be 0 or have the degree of cells_per_seed", modulus);
  return {
    kind: "cell",
    cells: seeds * size,
    domain,
    permanent: itself,
    async instantaneous(value, coin) {
      const seed = await coin.uniform(seeds);
      // The cell draws nothing: it may be worked out before the channel's own draws.
      return seed * size + (await kept(hashed(seed, value, size, modulus), coin));
    },
  };
};

/**
 * The cell of a value under a seed: client_sdk/mechanisms/linear_hashing.py.
 *
 * @type {(seed: bigint, value: bigint, size: bigint, modulus: bigint) => bigint}
 */
const hashed = (seed, value, size, modulus) => {
  let result = 0n;
  if (size === 2n) {
    for (let both = (seed + 1n) & value; both; both >>= 1n) result ^= both & 1n;
    return result;
  }
  let leading = 1n;
  for (; seed >= leading; leading *= size) seed -= leading;
  result = (value / leading) % size;
  for (; seed; seed /= size, value /= size) {
    const [one, other] = [seed % size, value % size];
    if (modulus) result ^= product(one, other, size, modulus);
    else result = (result + one * other) % size;
  }
  return result;
};

/**
 * In the field of `size` elements, a power of two.
 *
 * @type {(one: bigint, other: bigint, size: bigint, modulus: bigint) => bigint}
 */
const product = (one, other, size, modulus) => {
  let result = 0n;
  for (; other; other >>= 1n) {
    if (other & 1n) result ^= one;
    one <<= 1n;
    if (one & size) one ^= modulus;
  }
  return result;
};

/** @type {Make} */
const oneBitMean = ({ one_if_lowest: lowest, step }) => {
  const fits = lowest > 0n && step > 0n && 2n * lowest + step * POSITIONS === ONE;
  check(fits, "one_if_lowest and step must span what is left to 2**64", [lowest, step]);
  return {
    kind: "bits",
    cells: 1n,
    domain: POSITIONS + 1n,
    permanent: itself,
    instantaneous: async (place, coin) => BigInt(await coin.bernoulli(lowest + step * place)),
  };
};

/** @type {Make} */
const rappor = ({ bits, hashes, cohorts, one_if_set: set, one_if_unset: unset, ...report }) => {
  const { report_if_one: one, report_if_zero: zero } = report;
  const fits = 0n < hashes && hashes <= bits && 0n < cohorts && cohorts <= 65536n;
  check(fits, "need 1 <= hashes <= bits and cohorts in 1..65536", [hashes, bits, cohorts]);
  const law = unset < set && unset + set === ONE && zero < one;
  check(law, "need one_if_unset + one_if_set = 2**64 and more ones where one is", [set, one, zero]);
  const width = Number(bits);
  return {
    kind: "bits",
    cells: bits,
    cohorts,
    permanent: async (text, cohort, coin) =>
      coin.flipBits(await bloom(text, cohort, width, hashes), width, set, unset),
    instantaneous: (permanent, coin) => coin.flipBits(permanent, width, one, zero),
  };
};

/**
 * The bits of a string under its cohort's hashes.
 *
 * @type {(text: string, cohort: bigint, width: number, hashes: bigint) => Promise<bigint>}
 */
const bloom = async (text, cohort, width, hashes) => {
  const [prefix, encoded] = [join(utf8("sottovoce bloom\0"), uint32(Number(cohort))), utf8(text)];
  const cells = new Set();
  let bits = 0n;
  for (let counter = 0; ; counter++) {
    const block = new DataView((await sha256(join(prefix, uint32(counter), encoded))).buffer);
    for (let start = 0; start < 32; start += 4) {
      const cell = Math.floor((block.getUint32(start) * width) / 2 ** 32); // below 2**44: exact
      cells.add(cell);
      bits |= 1n << BigInt(cell);
      if (BigInt(cells.size) === hashes) return bits;
    }
  }
};

/** @type {Record<string, [Make, string]>} */
const CATALOGUE = {
  randomized_response: [randomizedResponse, "yes_if_yes yes_if_no"],
  generalized_randomized_response: [generalizedRandomizedResponse, "domain keep"],
  symmetric_unary: [unary, "domain one_if_one one_if_zero"],
  optimized_unary: [unary, "domain one_if_one one_if_zero"],
  optimized_local_hashing: [localHashing, "domain cells_per_seed keep seeds modulus"],
  binary_local_hashing: [localHashing, "domain cells_per_seed keep seeds modulus"],
  one_bit_mean: [oneBitMean, "one_if_lowest step"],
  rappor: [
    rappor,
    "bits hashes cohorts one_if_set one_if_unset report_if_one report_if_zero",
  ],
};

/** @type {(stated: import("./types.js").Stated) => Mechanism} */
export const mechanismFrom = ({ name, kind, cells, cohorts, parameters }) => {
  check(Object.hasOwn(CATALOGUE, name), "mechanism must be one that browsers have", name);
  const [make, names] = CATALOGUE[name];
  const [given, wanted] = [Object.keys(parameters).sort().join(), names.split(" ").sort().join()];
  check(given === wanted, `parameters of ${name} must be ${wanted}`, given);
  /** @type {Parameters} */
  const read = {};
  for (const [key, text] of Object.entries(parameters)) {
    const written = typeof text === "string" && /^(0|[1-9]\d{0,19})$/.test(text);
    check(written && BigInt(text) <= ONE, `${key} must be an integer in 0..2**64, as text`, text);
    read[key] = BigInt(text);
  }
  const made = make(read);
  const most = made.kind === "bits" ? 4096n : 65536n;
  check(made.cells <= most, `${name} may have at most ${most} cells`, made.cells);
  const shape = [made.kind, made.cells, made.cohorts ?? 1n].join();
  const said = [kind, cells, cohorts].join();
  check(said === shape, `kind, cells and cohorts must be ${shape}`, said);
  return made;
};

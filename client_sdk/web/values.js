/**
 * From an answer to what is randomized, as `Metric.encode` does: total over answers of the right
 * type, so that neither a report's existence nor its size depends on an answer.
 */

import { POSITIONS, check } from "./mechanisms.js";

/** @typedef {[bigint, bigint]} Ratio Numerator, and denominator above 0. */

const LONGEST_STRING = 1024;

/**
 * @param {import("./types.js").Definition} definition
 * @param {bigint | undefined} domain
 * @returns {(answer: import("./types.js").Answer) => bigint | string}
 */
export function encoderOf({ metric, type, labels, edges, missing, catch_all: other }, domain) {
  const known = ["boolean", "category", "ordinal", "number", "string"].includes(type);
  check(known, "type must be one that browsers have", type);
  const [ends, place] = [edges.map(decimal), type === "number" && labels.length === 0];
  if (type === "number") {
    const ascending = ends.every((end, at) => at === 0 || less(ends[at - 1], end));
    const fits = ascending && ends.length === (place ? 2 : labels.length + 1);
    check(fits, "edges must ascend, one more than labels", edges);
  }
  const size = type === "string" ? undefined : place ? POSITIONS + 1n : BigInt(labels.length);
  check(size === domain, `labels must be as many as the mechanism's values, ${domain}`, size);
  const nothing = size === undefined ? String(missing) : indexIn(size, missing);
  const strange = other === null || size === undefined ? nothing : indexIn(size, other);
  const wanted = type === "boolean" || type === "number" ? type : typeof (labels[0] ?? "");

  return (answer) => {
    if (answer === null || answer === undefined || Number.isNaN(answer)) return nothing;
    if (typeof answer !== wanted) throw new TypeError(`${metric} takes ${wanted} or null`);
    if (type === "boolean") return BigInt(answer);
    if (type === "string") return normalized(String(answer));
    if (type === "number") return numbered(Number(answer), ends, place);
    const index = labels.indexOf(answer);
    return index < 0 ? strange : BigInt(index);
  };
}

/**
 * @param {bigint} size
 * @param {unknown} index
 */
function indexIn(size, index) {
  const fits = Number.isSafeInteger(index) && Number(index) >= 0 && Number(index) < size;
  check(fits, `missing and catch_all must lie in 0..${size - 1n}`, index);
  return BigInt(Number(index));
}

/** @param {string} text NFC, cut to 1024 characters; twice, for NFC may lengthen. */
function normalized(text) {
  const cut = (/** @type {string} */ whole) =>
    // First to what holds as many characters in any case: of 100 MB a browser makes no list.
    [...whole.slice(0, 2 * LONGEST_STRING)].slice(0, LONGEST_STRING).join("");
  return cut(cut(text).normalize("NFC"));
}

/**
 * The bucket of a number, or its place in the range: exact, ties to even.
 *
 * @param {number} number
 * @param {Ratio[]} edges
 * @param {boolean} place
 */
function numbered(number, edges, place) {
  const last = edges.length - 1;
  const x = exactly(Math.min(Math.max(number, -Number.MAX_VALUE), Number.MAX_VALUE));
  const [low, high] = [edges[0], edges[last]];
  if (less(x, low)) return 0n;
  if (!place) {
    const reached = edges.filter((edge) => !less(x, edge)).length;
    return BigInt(Math.min(reached, last) - 1);
  }
  if (less(high, x)) return POSITIONS;
  const [above, range] = [minus(x, low), minus(high, low)];
  const [top, bottom] = [above[0] * range[1] * POSITIONS, above[1] * range[0]];
  const [floor, twice] = [top / bottom, 2n * (top % bottom)];
  return floor + (twice > bottom || (twice === bottom && floor & 1n) ? 1n : 0n);
}

/**
 * @param {string} text
 * @returns {Ratio}
 */
function decimal(text) {
  check(typeof text === "string" && /^-?\d+(\.\d+)?$/.test(text), "edges must be decimals", text);
  const [whole, part = ""] = text.split(".");
  return [BigInt(whole + part), 10n ** BigInt(part.length)];
}

/**
 * @param {number} number Finite.
 * @returns {Ratio}
 */
function exactly(number) {
  let bottom = 1n;
  for (; !Number.isInteger(number); number *= 2) bottom *= 2n;
  return [BigInt(number), bottom];
}

/** @type {(one: Ratio, other: Ratio) => boolean} */
const less = (one, other) => one[0] * other[1] < other[0] * one[1];

/** @type {(one: Ratio, other: Ratio) => Ratio} */
const minus = (one, other) => [one[0] * other[1] - other[0] * one[1], one[1] * other[1]];

/** A hundred dots, so many of them filled: odds as a picture. The text beside it says the same. */

import { attach } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const [COLUMNS, ROWS, PITCH, RADIUS] = [20, 5, 12, 4];

/**
 * @param {string} tag
 * @param {Record<string, string | number | boolean>} attributes
 */
function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  attach(made, attributes);
  return made;
}

/**
 * @param {boolean} filled
 * @param {number} column
 * @param {number} row
 */
function dot(filled, column, row) {
  const [cx, cy] = [(column + 0.5) * PITCH, (row + 0.5) * PITCH];
  return drawn("circle", { class: filled ? "filled" : "hollow", cx, cy, r: RADIUS });
}

/** @param {number} filled Out of 100; they are the first ones, row by row. */
export function dots(filled) {
  const viewBox = `0 0 ${COLUMNS * PITCH} ${ROWS * PITCH}`;
  const picture = drawn("svg", { class: "dots", viewBox, "aria-hidden": "true" });
  for (let index = 0; index < COLUMNS * ROWS; index++) {
    picture.append(dot(index < filled, index % COLUMNS, Math.floor(index / COLUMNS)));
  }
  return picture;
}

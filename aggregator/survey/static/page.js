/** The parts of the page that stay: what is shown in them, the focus, and what is left behind. */

import { fill } from "./elements.js";

/** @typedef {import("./types.js").Survey} Survey */

/**
 * @typedef {object} Standing
 * @property {number | undefined} question Index, for the progress.
 * @property {boolean} opening Whether the heading is the survey's title.
 * @property {boolean} answers Whether there are some, which another language would lose.
 */

/** @param {string} id */
function part(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** @typedef {ReturnType<typeof pageOf>} Page */

/** @param {Survey} survey */
export function pageOf(survey) {
  const [place, progress, title] = [part("step"), part("progress"), part("title")];
  const languages = document.getElementById("languages");
  const { length } = survey.questions;
  let shown = false;

  return {
    /**
     * @param {Node[]} content Its heading gets the focus, but for that of the page as it opens.
     * @param {Partial<Standing>} [about]
     */
    show(content, about = {}) {
      const { question, opening = false, answers = false } = about;
      const at = question === undefined ? "" : fill(survey.interface.progress, {
        n: question + 1,
        of: length,
      });
      place.replaceChildren(...content);
      if (progress.textContent !== at) progress.textContent = at;
      title.hidden = opening;
      if (languages) languages.hidden = answers;
      document.title = at ? `${at} · ${survey.title}` : survey.title;
      if (shown) {
        scrollTo(0, 0);
        place.querySelector("h1")?.focus({ preventScroll: true });
      }
      shown = true;
    },

    clear() {
      place.replaceChildren();
    },
  };
}

/** How often this page has asked anybody for anything but the parts that its document names. */
export function requestsMade() {
  const parts = new Set(
    Array.from(document.querySelectorAll("link, script"), (part) =>
      part instanceof HTMLLinkElement ? part.href : part instanceof HTMLScriptElement && part.src,
    ),
  );
  return performance.getEntriesByType("resource").filter(({ name }) => !parts.has(name)).length;
}

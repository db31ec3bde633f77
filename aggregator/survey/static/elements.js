/** Elements and words of the page: text is only ever text, never markup. */

/** @typedef {string | number | boolean | null | undefined | ((event: Event) => void)} Value */

/** In every language, as in the texts: an Arabic page has no date of other digits. */
export const NUMERALS = "latn";

/**
 * Make an element.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, Value>} [attributes] A function listens; false, null: left out.
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  attach(made, attributes);
  made.append(...children.flatMap((child) => child ?? []));
  return made;
}

/**
 * @param {Element} made
 * @param {Record<string, Value>} attributes
 */
export function attach(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
}

/**
 * @param {string} text
 * @param {Record<string, string | number>} [values] For its {placeholders}; each keeps its own
 *   direction of writing.
 */
export function fill(text, values = {}) {
  return text.replace(/\{([a-z]+)\}/g, (whole, name) =>
    Object.hasOwn(values, name) ? `\u2068${values[name]}\u2069` : whole,
  );
}

/** @param {string} text */
export const paragraph = (text, style = "") => element("p", { class: style || null }, text);

/**
 * The heading of a step, which is told the focus.
 *
 * @param {string} text
 */
export const heading = (text) => element("h1", { tabindex: -1 }, text);

/**
 * The second click of a double click counts only where one may click quickly: it would meet what
 * the first one has brought, such as Send.
 *
 * @param {string} text
 * @param {() => void} act
 * @param {{ first?: boolean, quick?: boolean }} [how] First: the step's main one.
 */
export function button(text, act, how = {}) {
  const click = (/** @type {Event} */ event) => {
    if (how.quick || /** @type {MouseEvent} */ (event).detail < 2) act();
  };
  return element("button", { type: "button", class: how.first ? "first" : null, click }, text);
}

/** @param {...HTMLElement} buttons */
export const actions = (...buttons) => element("div", { class: "actions" }, ...buttons);

/**
 * One of several, none chosen at first: native radio buttons that belong to no form.
 *
 * They share a name, for the arrow keys to move among them, and have no value.
 *
 * @param {object} group
 * @param {Node} group.legend
 * @param {string[]} group.texts
 * @param {number | null} group.chosen
 * @param {string} [group.described] Id of what explains it.
 * @param {(index: number) => void} group.choose
 */
export function choices({ legend, texts, chosen, described = "", choose }) {
  const wrong = element("p", { class: "wrong", id: "wrong" });
  const options = texts.map((text, index) => {
    const change = () => {
      wrong.textContent = "";
      fieldset.removeAttribute("aria-invalid");
      choose(index);
    };
    const radio = element("input", { type: "radio", name: "choice", autocomplete: "off", change });
    radio.checked = index === chosen;
    return element("label", { class: "choice" }, radio, element("span", {}, text));
  });
  const fieldset = element(
    "fieldset",
    { role: "radiogroup", "aria-required": "true", "aria-describedby": `wrong ${described}`.trim() },
    element("legend", {}, legend),
    ...options,
  );
  return {
    /** The choices, and below them the place for what is wrong. */
    parts: [fieldset, wrong],

    /** @param {string} reason Why there is no way on without a choice. */
    require(reason) {
      wrong.textContent = reason;
      fieldset.setAttribute("aria-invalid", "true");
      fieldset.querySelector("input")?.focus();
    },
  };
}

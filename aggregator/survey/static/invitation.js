/** The token of an invitation, which comes in the part of the address that browsers never send. */

const FORM = /^#i=([A-Za-z0-9_-]+)$/;

/** @param {{ hash: string }} address */
export const tokenIn = ({ hash }) => FORM.exec(hash)?.[1] ?? "";

/** Take it along to another language, for as long as it stands in the address. */
export function tokenOffered() {
  for (const link of languageLinks()) link.hash = location.hash;
}

/** Take it from the address bar, the history and the links: it is kept now. */
export function tokenTaken() {
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  tokenOffered();
}

function languageLinks() {
  return /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("#languages a"));
}

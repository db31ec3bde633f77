/**
 * An invitation, which comes in the part of the address that browsers never send: a token, and the
 * digest of the survey's key. The link was made before anybody came, so the key is for everybody.
 */

const FORM = /^#i=([A-Za-z0-9_-]+)&k=([0-9a-f]{64})$/;

/**
 * @param {{ hash: string }} address
 * @returns {import("./types.js").Invitation | null}
 */
export function invitationIn({ hash }) {
  const [, token, keyDigest] = FORM.exec(hash) ?? [];
  return token ? { token, keyDigest } : null;
}

/** Take it along to another language, for as long as it stands in the address. */
export function invitationOffered() {
  for (const link of languageLinks()) link.hash = location.hash;
}

/** Take it from the address bar, the history and the links: it is kept now. */
export function invitationTaken() {
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  invitationOffered();
}

function languageLinks() {
  return /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("#languages a"));
}

"""What a page leaves: every request that Chromium makes for it, and what it keeps at a moment."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from playwright.sync_api import Page, Request

from client_sdk.testing.canary import forms

# Everything that a page can keep for itself, as text. Bytes are told as text and as hex digits.
_KEPT = """
async () => {
  const told = (value) => JSON.stringify(value, (_, each) => {
    if (ArrayBuffer.isView(each) || each instanceof ArrayBuffer) {
      const bytes = new Uint8Array(each.buffer ?? each);
      const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'));
      return [new TextDecoder().decode(bytes), digits.join('')];
    }
    return typeof each === 'bigint' ? String(each) : each;
  });
  const done = (request) => new Promise((good, bad) => {
    request.onsuccess = () => good(request.result);
    request.onerror = () => bad(request.error);
  });
  const databases = {};
  for (const { name, version } of await indexedDB.databases()) {
    const database = await done(indexedDB.open(name, version));
    for (const store of database.objectStoreNames) {
      const objects = database.transaction(store).objectStore(store);
      const [keys, values] = [objects.getAllKeys(), objects.getAll()];
      databases[`${name} ${store}`] = [await done(keys), await done(values)];
    }
    database.close();
  }
  const caches = {};
  for (const name of await window.caches.keys()) {
    const cache = await window.caches.open(name);
    for (const request of await cache.keys()) {
      caches[`${name} ${request.url}`] = await (await cache.match(request)).text();
    }
  }
  return {
    'the address': location.href,
    'the title': document.title,
    'the referrer': document.referrer,
    'the name of the window': window.name,
    'the state of the history': told(history.state),
    'localStorage': told({ ...localStorage }),
    'sessionStorage': told({ ...sessionStorage }),
    'document.cookie': document.cookie,
    'IndexedDB': told(databases),
    'Cache Storage': told(caches),
    'service workers': told((await navigator.serviceWorker.getRegistrations()).map(String)),
    'entries of performance': told(performance.getEntries().map((entry) => entry.name)),
    'what is linked': told([...document.querySelectorAll('link, script, img, iframe, form, a')]
      .map((each) => [each.localName, each.href, each.src, each.action, each.rel])),
  };
}
"""


@dataclass
class Traces:
    """Listens to one page, from before it is opened.

    Attributes:
        page: The page.
        requests: Everything of each request, as the browser tells it, by CDP as well.
        console: All messages, of every kind.
        kept: At each look: (step, place, content).
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    kept: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Of the context: of workers and of pages that this one opens, too.
        self.page.context.on("request", self._request)
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(f"{error} {error.stack}"))
        self.page.on("websocket", lambda socket: self.requests.append(f"WebSocket {socket.url}"))
        # Beacons, reports and what goes out while a page ends are told here.
        protocol = self.page.context.new_cdp_session(self.page)
        protocol.send("Network.enable")
        for event in ("requestWillBeSent", "requestWillBeSentExtraInfo", "webSocketCreated"):
            protocol.on(f"Network.{event}", lambda told: self.requests.append(json.dumps(told)))

    def _request(self, request: Request) -> None:
        body = request.post_data_buffer or b""
        headers = json.dumps(request.headers)
        self.requests.append(f"{request.method} {request.url} {headers} {body!r} {body.hex()}")

    def look(self, step: str) -> None:
        """Note all that is kept now."""
        found: dict[str, str] = self.page.evaluate(_KEPT)
        for cookie in self.page.context.cookies():
            found["cookies"] = found.get("cookies", "") + json.dumps(cookie)
        self.kept += [(step, place, content) for place, content in found.items()]

    def at(self, step: str) -> dict[str, str]:
        """Return what was kept at a step, by place."""
        return {place: content for then, place, content in self.kept if then == step}

    def places(self) -> Iterator[tuple[str, bytes]]:
        """Yield each place that somebody else may come to see, and what is in it."""
        for number, request in enumerate(self.requests):
            yield f"request {number}", request.encode()
        for text in self.console:
            yield "the console", text.encode()
        for step, place, content in self.kept:
            yield f"{place} at {step}", content.encode()


def found_in(value: str, places: Iterator[tuple[str, bytes]]) -> list[str]:
    """Return where a value is, in any form that a canary is looked for in."""
    needles = list(forms(value))
    return [
        f"{form} of {value} in {place}: {content[:300]!r}"
        for place, content in places
        for form, needle in needles
        if needle in content.lower()
    ]

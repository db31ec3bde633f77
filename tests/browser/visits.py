"""Visits of a page, and all that the browser met on them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response

WIDTHS = (360, 820, 1440)
"""A phone, a tablet, a wide screen; in CSS pixels."""
HEIGHT = 900
PHONE = 480
"""Up to this width the page is shown as a phone shows it, its viewport declared by itself."""
TIMEOUT_MS = 60_000
_NOWHERE = ("data", "blob", "about")
_GIVEN_UP = "net::ERR_ABORTED"
_LOUD = ("error", "warning", "assert")

# The console tells of most of them, in words that change; this is what the standard promises.
_NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(
  `${event.effectiveDirective} forbids ${event.blockedURI} (${event.sourceFile || 'document'})`));
"""


@dataclass
class Visit:
    """One tab of its own, with neither cookies nor cache of others.

    Attributes:
        page: To act on, see playwright's Page.
        url: What was opened first.
        width: Of the window, in CSS pixels.
        status: Of the document that is shown.
        console: Errors and warnings of the console, each with its kind.
        errors: What scripts raised.
        failed: Requests without an answer, with the reason.
        requests: Addresses of all requests.
    """

    page: Page
    url: str
    width: int
    status: int = 0
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def elsewhere(self) -> list[str]:
        """Requests to any other host or port than that of the page."""
        return [url for url in self.requests if _origin(url) != _origin(self.url)]

    @property
    def violations(self) -> list[str]:
        """What the content security policy of the page that is shown has stopped."""
        found = self.page.evaluate("window.violations")
        assert isinstance(found, list)
        return found

    @property
    def hidden(self) -> list[str]:
        """Pictures of the page that are not shown."""
        found = self.page.evaluate(
            "[...document.images].filter((i) => !i.complete || !i.naturalWidth)"
            ".map((i) => i.currentSrc || i.outerHTML)"
        )
        assert isinstance(found, list)
        return found

    def _note(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        # It tells the status of the document, too, which the visit knows.
        known = self.status >= 400 and where == self.page.url
        if message.type in _LOUD and not (known and "Failed to load" in message.text):
            self.console.append(f"{message.type}: {message.text} ({where})")

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).scheme not in _NOWHERE:
            self.requests.append(request.url)

    def _fail(self, request: Request) -> None:
        # The browser itself gives a picture up where another source of it fits by now, as while it
        # is photographed. Whether all pictures are shown is looked at apart.
        if request.resource_type != "image" or request.failure != _GIVEN_UP:
            self.failed.append(f"{request.url}: {request.failure}")

    def _answer(self, response: Response) -> None:
        request = response.request
        if request.is_navigation_request() and request.frame == self.page.main_frame:
            self.status = response.status


Open = Callable[..., Visit]
"""open(url, width=1440, dark=False, height=HEIGHT) -> Visit"""


def open_page(
    browser: Browser, url: str, width: int = 1440, dark: bool = False, height: int = HEIGHT
) -> Visit:
    """Open a page in a window of its own; whoever calls closes `page.context`.

    Args:
        browser: The browser.
        url: http or https.
        width: Of the window, in CSS pixels.
        dark: Whether the reader prefers dark pages.
        height: Of the window, in CSS pixels.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height},
        is_mobile=width <= PHONE,
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        service_workers="block",
        locale="en-GB",
    )
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(_NOTE_VIOLATIONS)
    page = context.new_page()
    visit = Visit(page, url, width)
    page.on("console", visit._note)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("request", visit._request)
    page.on("requestfailed", visit._fail)
    page.on("response", visit._answer)
    page.goto(url)
    # What the browser tells comes in order: what it told of loading the page is here with this.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return visit


def wait_until(page: Page, expression: str) -> None:
    """Wait until an expression is true on a page.

    Not wait_for_function: it asks again from within the page by eval, which strict policies forbid.
    """
    give_up = time.monotonic() + TIMEOUT_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < give_up, f"{page.url}: {expression} is never true"
        page.wait_for_timeout(20)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc

"""A browser, pages opened in it, what serves them, and the dashboard with everything in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from wsgiref.types import WSGIApplication

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import running_chromium
from tests.browser.serving import served
from tests.browser.visits import HEIGHT, Open, Visit, open_page
from tests.estimator.dashboard.conftest import half_a_year, shop

__all__ = ["half_a_year", "shop"]
"""Fixtures of the dashboard's other tests that these use too."""


# Of a module, not of the session: while it runs, nobody else can run an asyncio loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser; what it keeps ends with each visit."""
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open pages: visit(url, width=1440, dark=False, height=HEIGHT) -> Visit."""
    with ExitStack() as opened:

        def open_and_note(
            url: str, width: int = 1440, dark: bool = False, height: int = HEIGHT
        ) -> Visit:
            found = open_page(browser, url, width, dark, height)
            opened.callback(found.page.context.close)
            return found

        yield open_and_note


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[[Visit, str], Path]:
    """Draw a whole page as NAME.png, where SOTTOVOCE_SCREENSHOTS says if it says so."""
    folder = Path(os.environ.get("SOTTOVOCE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def draw(visit: Visit, name: str) -> Path:
        path = folder / f"{name}.png"
        visit.page.screenshot(path=path, full_page=True)
        return path

    return draw


@pytest.fixture
def site() -> Iterator[Callable[[WSGIApplication], str]]:
    """Serve applications on this machine: site(app) -> URL."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(served(app))

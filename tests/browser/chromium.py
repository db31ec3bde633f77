"""A real Chromium without a window, as the system has it, that says nothing to anybody else."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # it needs rights that containers lack; only our own pages are opened
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP *.test 127.0.0.1",  # this machine by names not trusted
)


def find_chromium() -> str:
    """Return the browser's path; without one the test fails: skipped, it would show nothing."""
    found = [path for path in map(shutil.which, PROGRAMS) if path]
    if not found:
        pytest.fail(f"none of {', '.join(PROGRAMS)} is here: install Debian's chromium", False)
    return found[0]


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Run a browser with a profile that goes with it.

    Until it ends, the calling thread counts as running an asyncio loop.
    """
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()

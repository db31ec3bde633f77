"""What a browser keeps, in a real Chromium: one tab at a time, all or nothing, or no state."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask, Response, send_from_directory
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

WEB = Path(__file__).parents[2] / "client_sdk" / "web"
KEEP = "const { withState } = await import('/web/storage.js');"
COUNT = """
for (let turn = 0; turn < 20; turn++) {
  await withState("count", async (state) => {
    const before = (await state.get("sum")) ?? 0;
    await state.put({ sum: before + 1, ["by " + who]: turn });
  });
}
"""

LATER = """
await new Promise((done) => {
  const opening = indexedDB.open("sottovoce", 9);
  opening.onsuccess = () => done(opening.result.close());
});
"""
"""A later version of the module has been here."""


@pytest.fixture
def open_tab(site: Callable[[Flask], str], browser: Browser) -> Iterator[Callable[[], Page]]:
    """Open tabs of one profile, on a page that can import the module."""
    app = Flask(__name__)
    app.add_url_rule("/", "page", lambda: Response("<!doctype html><title>A page</title>"))
    app.add_url_rule("/web/<name>", "web", lambda name: send_from_directory(WEB, name))
    url, context = site(app), browser.new_context()

    def tab() -> Page:
        page = context.new_page()
        page.goto(url)
        return page

    yield tab
    context.close()


def run(page: Page, script: str) -> object:
    """Return what a script with `withState` returns, or how it failed."""
    acting = f"(async () => {{ {KEEP} {script} }})()"
    return page.evaluate(f"() => {acting}.catch((error) => String(error))")


def test_tabs_wait_for_each_other_so_nothing_is_lost(open_tab: Callable[[], Page]) -> None:
    tabs = [open_tab(), open_tab(), open_tab()]
    for number, tab in enumerate(tabs):
        body = f"(async () => {{ const who = {number}; {KEEP} {COUNT} }})()"
        tab.evaluate(f"() => {{ window.counting = {body}; }}")
    for tab in tabs:
        tab.evaluate("() => window.counting")
    assert run(tabs[0], "return withState('count', (state) => state.get('sum'))") == 60


def test_what_is_kept_outlives_the_page_and_is_kept_by_name(open_tab: Callable[[], Page]) -> None:
    tab = open_tab()
    run(tab, "return withState('one', (state) => state.put({ a: new Uint8Array([1]), b: 2 }))")
    tab.close()
    tab = open_tab()
    both = "async (state) => [(await state.get('a'))?.[0], await state.get('b')]"
    look = f"return withState('%s', {both})"
    assert run(tab, look % "one") == [1, 2]
    assert run(tab, look % "other") == [None, None]
    run(tab, "return withState('one', (state) => state.put({ a: undefined, b: 3 }))")
    assert run(tab, look % "one") == [None, 3]


def test_of_entries_all_become_durable_or_none(open_tab: Callable[[], Page]) -> None:
    tab = open_tab()
    put = "return withState('one', (state) => state.put({ a: 1, b: () => 2 }))"
    assert "DataCloneError" in str(run(tab, put))
    assert run(tab, "return withState('one', (state) => state.get('a'))") is None


@pytest.mark.parametrize(
    "block",
    [
        "Object.defineProperty(globalThis, 'indexedDB', { value: undefined });",
        "Object.defineProperty(navigator, 'locks', { value: undefined });",
        "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); };",
        LATER,
    ],
    ids=["no-database", "no-locks", "forbidden", "another-version"],
)
def test_without_a_place_to_keep_it_there_is_no_state(
    open_tab: Callable[[], Page], block: str
) -> None:
    tab = open_tab()
    acted = "let acted = false; %s try { await withState('a', async () => { acted = true; }); }"
    acted += " catch (error) { return acted ? 'acted' : 'failed'; } return 'went on';"
    assert run(tab, acted % block) == "failed"

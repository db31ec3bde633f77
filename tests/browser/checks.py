"""What must be true of every page, whatever it shows; each check says what is wrong and where."""

from axe_playwright_python.sync_playwright import Axe

from tests.browser.keyboard import Stop, stops
from tests.browser.visits import Visit

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""WCAG 2.2 AA as far as axe-core can judge it, and what its authors advise beyond."""


def assert_sound(visit: Visit, status: int = 200) -> None:
    """The page came, and the browser has nothing to complain of.

    Args:
        visit: The page.
        status: Which one its document has.
    """
    assert visit.status == status, f"{visit.page.url} has status {visit.status}"
    wrong = {
        "on the console": visit.console,
        "raised by scripts": visit.errors,
        "requests without an answer": visit.failed,
        "pictures that are not shown": visit.hidden,
        "requests to elsewhere": visit.elsewhere,
        "against the content security policy": visit.violations,
    }
    told = [f"{kind}: {each}" for kind, found in wrong.items() for each in found]
    assert not told, "\n".join((visit.page.url, *told))


def assert_accessible(visit: Visit) -> None:
    """axe-core finds nothing to object to, in the colours and at the width of the visit."""
    options = {"runOnly": list(RULES), "resultTypes": ["violations"], "preload": False}
    found = Axe().run(visit.page, options=options).response
    assert found["passes"], "axe-core has looked at nothing"
    told = [
        f"{each['id']} ({each['impact']}): {each['help']}\n"
        f"  {node['target']} {node['html'][:200]}\n  {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
    assert not told, "\n".join((f"{visit.page.url} at {visit.width}", *told))


def no_sideways_scroll(visit: Visit) -> None:
    """The page is no wider than its window; what is wide scrolls within itself."""
    # Not innerWidth: a phone zooms out until all that is too wide is seen.
    wide = visit.page.evaluate("document.scrollingElement.scrollWidth")
    assert wide <= visit.width, (
        f"{visit.page.url} is {wide} wide at {visit.width}: {_widest(visit)}"
    )


def tab_order(visit: Visit) -> list[Stop]:
    """Go through the page by the Tab key; each stop is in sight, uncovered, and shows its focus.

    Returns:
        The stops in order, each once. The walk begins where the focus is.
    """
    found = stops(visit.page)
    told = [f"{stop.what}: {wrong}" for stop in found for wrong in stop.wrongs]
    assert not told, "\n".join((f"{visit.page.url} at {visit.width}", *told))
    return found


def _widest(visit: Visit) -> object:
    return visit.page.evaluate(
        """(width) => [...document.body.querySelectorAll('*')]
          .filter((each) => each.getBoundingClientRect().right > width + 0.5).slice(0, 5)
          .map((each) => each.outerHTML.slice(0, 120))""",
        visit.width,
    )

"""The dashboard's pages in a real browser: sound, accessible, and whole at every width.

A new page is one more address in PAGES.
"""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask

from tests.browser.checks import (
    assert_accessible,
    assert_sound,
    no_sideways_scroll,
    tab_order,
)
from tests.browser.visits import WIDTHS, Open, Visit
from tests.estimator.dashboard.conftest import Desk

pytestmark = pytest.mark.slow

PAGES = {
    "overview": "/",
    "metric": "/metrics/theme",
    "metric with an alarm": "/metrics/home_page?epochs=365",
    "hostile metric": "/metrics/hostile.names",
    "withheld metric": "/metrics/crashed",
    "new metric": "/metrics/beta",
    "metric with a mean": "/metrics/session_minutes",
    "metric in buckets": "/metrics/load_seconds",
    "metric with options": "/metrics/gestures",
    "privacy": "/privacy",
    "device": "/privacy/device",
    "operations": "/operations",
    "registry": "/registry",
}
"""Names, for screenshots, and addresses."""
DOCUMENTS = ("/v1/releases", "/v1/metrics", "/livez")
Site = Callable[[Flask], str]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_sound_accessible_and_whole_at_every_width(
    shop: Desk,
    site: Site,
    visit: Open,
    screenshot: Callable[[Visit, str], Path],
    name: str,
    dark: bool,
) -> None:
    url = site(shop.plain_app()) + PAGES[name]
    for width in WIDTHS:
        seen = visit(url, width=width, dark=dark)
        assert_sound(seen)
        assert_accessible(seen)
        no_sideways_scroll(seen)
        assert tab_order(seen)[0].what == "a Skip to content"
        screenshot(seen, f"{name}-{width}-{'dark' if dark else 'light'}")


def test_logging_in_works_by_keyboard_alone_and_leads_back(
    shop: Desk, site: Site, visit: Open
) -> None:
    _, key = shop.read_key("ann@example.org")
    seen = visit(site(shop.plain_app(open_here=False)) + "/registry", width=WIDTHS[0])
    page = seen.page
    for shown, status, leads_to in (("wrong", 401, "/login"), (key, 200, "/registry")):
        assert urlsplit(page.url).path == "/login"
        no_sideways_scroll(seen)
        assert_accessible(seen)
        assert "button Log in" in {stop.what for stop in tab_order(seen)}
        page.get_by_label("Read key").focus()
        page.keyboard.type(shown)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert urlsplit(page.url).path == leads_to
        assert_sound(seen, status)
    with page.expect_navigation():
        page.get_by_role("button", name="Log out").click()
    assert urlsplit(page.url).path == "/login"
    assert_sound(seen)


def test_over_plain_http_own_forms_are_taken_and_those_of_other_sites_refused(
    shop: Desk, site: Site, visit: Open
) -> None:
    """Browsers then say nothing of who sends but the origin, and that only if pages let them."""
    _, key = shop.read_key()
    address = site(shop.plain_app(open_here=False)).replace("127.0.0.1", "dashboard.test")
    other = Flask("other")
    form = f'<form method="post" action="{address}/%s"><button>Go</button></form>'
    other.add_url_rule("/<name>", view_func=lambda name: form % name)
    elsewhere = site(other).replace("127.0.0.1", "elsewhere.test")
    page = visit(address).page
    page.get_by_label("Read key").fill(key)
    with page.expect_request("**/login") as sent, page.expect_navigation():
        page.get_by_role("button").click()
    assert "sec-fetch-site" not in sent.value.all_headers()
    assert page.url == f"{address}/"
    for name in ("login", "logout"):
        page.goto(f"{elsewhere}/{name}")
        with page.expect_navigation() as led:
            page.get_by_role("button").click()
        assert led.value.status == 400 and page.url == f"{address}/{name}"
    page.goto(address)
    assert page.get_by_role("heading", name="Overview").is_visible()
    with page.expect_navigation():
        page.get_by_role("button", name="Log out").click()
    assert urlsplit(page.url).path == "/login"


@pytest.mark.parametrize("address", DOCUMENTS)
def test_documents_for_programs_can_be_looked_at_too(
    shop: Desk, site: Site, visit: Open, address: str
) -> None:
    assert_sound(visit(site(shop.plain_app()) + address))

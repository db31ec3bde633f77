"""The telemetry client in a real Chromium: pages of one origin, a real server of another."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, Request

from client_sdk import loads
from client_sdk.epochs import day_of
from client_sdk.web_definition import definitions
from tests.aggregator.conftest import World, make_world
from tests.browser.modules import page_of
from tests.browser.visits import wait_until

pytestmark = pytest.mark.slow

CANARY = "https://canary-5f1c.example/Zürich"
REGISTRY = """
schema = 1
[project]
name = "web-app"
lifetime_epsilon = 40
contact = "telemetry@example.org"
[metrics.dark]
question = "Is the dark theme on?"
type = "boolean"
mechanism = "randomized_response"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
owners = ["ui@example.org"]
starts = {starts}
expires = {expires}
[metrics.tab]
question = "Which tab is open?"
type = "category"
values = ["inbox", "calendar", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 0.5
epoch = "week"
every = 2
owners = ["ui@example.org"]
starts = {starts}
expires = {expires}
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = {{ epsilon_permanent = 4.0, distinct_values = 2 }}
rappor = {{ bits = 128, hashes = 2, cohorts = 64 }}
epoch = "day"
owners = ["ui@example.org"]
starts = {starts}
expires = {expires}
"""
SCRIPT = """
import { start } from "./web/telemetry.js";
const { options } = await (await fetch("/options.json")).json();
window.client = start({ url: "/metrics.json", enabled: true, ...options });
"""
VISITOR = "Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false });"
"""A browser that is driven says so, and is nobody to the client."""
DUMP = """
async () => {
  const kept = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie];
  const plain = (_, value) => value instanceof Map ? [...value]
    : ArrayBuffer.isView(value) ? [...value]
    : typeof value === "bigint" ? value.toString(16) : value;
  for (const { name } of await indexedDB.databases()) {
    const database = await new Promise((done) => {
      const opening = indexedDB.open(name);
      opening.onsuccess = () => done(opening.result);
    });
    for (const store of database.objectStoreNames) {
      const all = await new Promise((done) => {
        const request = database.transaction(store).objectStore(store).getAll();
        request.onsuccess = () => done(request.result);
      });
      kept.push(name, store, JSON.stringify(all, plain));
    }
    database.close();
  }
  return kept;
}
"""


@dataclass
class Person:
    """A browser's profile, and all that its pages ask for.

    Attributes:
        requests: Of all pages, in order.
        told: What the console and uncaught errors say.
    """

    context: BrowserContext
    url: str
    requests: list[Request] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def tab(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda message: self.told.append(message.text))
        page.on("pageerror", lambda error: self.told.append(str(error)))
        page.goto(self.url)
        wait_until(page, "window.client !== undefined")
        return page

    def bodies(self, path: str = "reports") -> list[str]:
        """What was sent to a path of the server."""
        return [r.post_data or "" for r in self.requests if r.url.endswith(f"/v1/{path}")]


@dataclass
class App:
    """A web app with its own origin, and the server that it sends to."""

    world: World
    url: str
    options: dict[str, Any]


@pytest.fixture
def app(redis_url: str, tmp_path: Path, site: Callable[[Flask], str]) -> Iterator[App]:
    today = day_of(time.time())
    dates = {"starts": today - timedelta(1), "expires": today + timedelta(20)}
    world = make_world(redis_url, tmp_path, REGISTRY.format(**dates))
    options: dict[str, Any] = {"writeKey": world.keys.write_key}
    told = definitions(loads(REGISTRY.format(**dates)))
    documents = {"/metrics.json": lambda: told, "/options.json": lambda: {"options": options}}
    page = page_of(SCRIPT, documents, lambda: "*")
    url = site(page)
    options["endpoint"] = site(
        world.app_with(
            clock=time.time,
            allowed_origins=[url],
        )
    )
    yield App(world, url, options)
    world.store.close()


@pytest.fixture
def person(app: App, browser: Browser) -> Iterator[Callable[..., Person]]:
    """Somebody with a browser of their own: person(scripts) -> Person."""
    contexts = []

    def make(*scripts: str) -> Person:
        context = browser.new_context(locale="en-GB")
        contexts.append(context)
        made = Person(context, app.url)
        for script in (VISITOR, *scripts):
            context.add_init_script(script)
        context.on("request", lambda request: made.requests.append(request))
        return made

    yield make
    for context in contexts:
        context.close()


def record(page: Page, name: str, value: object) -> None:
    assert page.evaluate("([name, value]) => client.record(name, value)", [name, value]) is None


def status(page: Page) -> dict[str, Any]:
    found = page.evaluate("() => client.status()")
    assert isinstance(found, dict)
    return found


def test_tabs_that_race_report_once_and_the_server_counts_it(
    person: Callable[..., Person],
) -> None:
    someone = person()
    tabs = [someone.tab() for _ in range(4)]
    for tab in tabs:
        tab.evaluate(
            "() => { window.race = new BroadcastChannel('race');"
            " window.ran = new Promise((done) => { race.onmessage = () => {"
            " client.record('dark', true); done(client.status()); }; }); }"
        )
    tabs[0].evaluate("() => new BroadcastChannel('race').postMessage('go')")
    found = [tab.evaluate("() => window.ran") for tab in tabs]
    assert sorted(each["dropped"].get("already_reported", 0) for each in found) == [0, 1, 1, 1]
    assert [status(tab)["queued"] for tab in tabs] == [1, 1, 1, 1]
    with tabs[0].expect_response("**/v1/reports") as answered:
        assert tabs[0].evaluate("() => client.flush()") is True
    assert tabs[1].evaluate("() => client.flush()") is True
    (body,) = someone.bodies()
    assert len(json.loads(body)["reports"]) == 1
    answer = answered.value.json()
    assert (answer["verdict"], answer["spent"], answer["reports"]) == (
        "accepted",
        1_000_000,
        ["accepted"],
    )
    assert someone.told == []


def test_a_reload_keeps_the_ledger_and_a_later_visit_sends_what_waits(
    person: Callable[..., Person],
) -> None:
    someone = person()
    tab = someone.tab()
    record(tab, "dark", True)
    before = status(tab), tab.evaluate("() => client.preview()")
    tab.reload()
    wait_until(tab, "window.client !== undefined")
    record(tab, "dark", False)
    assert status(tab) == before[0] | {"dropped": {"already_reported": 1}}
    assert tab.evaluate("() => client.preview()") == before[1]
    tab.close()
    tab = someone.tab()
    assert tab.evaluate("() => client.flush()") is True
    (body,) = someone.bodies()
    assert before[1]["waiting"][0] in body
    assert someone.told == []


def test_a_page_that_is_killed_while_it_sends_is_followed_by_one_that_sends_the_same_bytes(
    person: Callable[..., Person],
) -> None:
    someone = person()
    tab = someone.tab()
    tab.route("**/v1/reports", lambda route: None)  # never answered
    record(tab, "dark", True)
    with tab.expect_request(lambda r: r.url.endswith("/v1/reports") and r.method == "POST"):
        tab.evaluate("() => void client.flush()")
    tab.close()
    tab = someone.tab()
    shown = tab.evaluate("() => client.preview()")
    with tab.expect_response("**/v1/reports") as answered:
        assert tab.evaluate("() => client.flush()") is True
    first, second = someone.bodies()
    assert first == second == shown["upload"]
    # What was kept alive may have arrived, too: it is counted once.
    answer = answered.value.json()
    assert answer["verdict"] in ("accepted", "duplicate") and answer["spent"] == 1_000_000
    assert status(tab)["spent"] == 1


def test_where_the_database_is_blocked_nothing_is_sent_and_nothing_throws(
    person: Callable[..., Person],
) -> None:
    block = (
        "IDBFactory.prototype.open = () => { throw new DOMException('denied', 'SecurityError'); };"
    )
    someone = person(block)
    tab = someone.tab()
    record(tab, "dark", True)
    assert tab.evaluate("() => client.flush()") is False
    found = status(tab)
    assert found["summary"] == "disabled: no state: SecurityError"
    assert found["dropped"] == {"no_state": 1}
    assert someone.bodies() == someone.bodies("devices") == someone.told == []


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ("Object.defineProperty(Navigator.prototype, 'doNotTrack', { get: () => '1' });", "doN"),
        ("Navigator.prototype.globalPrivacyControl = true;", "globalPrivacyControl"),
        ("Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => true });", "webd"),
    ],
    ids=["do-not-track", "global-privacy-control", "driven"],
)
def test_a_browser_that_objects_keeps_and_sends_nothing(
    person: Callable[..., Person], wish: str, name: str
) -> None:
    someone = person(wish)
    tab = someone.tab()
    record(tab, "dark", True)
    assert tab.evaluate("() => client.flush()") is False
    assert tab.evaluate("async () => (await indexedDB.databases()).length") == 0
    assert status(tab)["summary"].startswith(f"disabled: {name}")
    assert someone.bodies() == someone.bodies("devices") == []


def test_an_opt_out_empties_the_queue_of_all_tabs_and_an_erasure_is_confirmed(
    person: Callable[..., Person],
) -> None:
    someone = person()
    tab, other = someone.tab(), someone.tab()
    record(other, "dark", True)
    assert status(other)["queued"] == 1
    tab.evaluate("() => client.setEnabled(false)")
    assert other.evaluate("() => client.preview()") == {"upload": None, "waiting": []}
    assert other.evaluate("() => client.flush()") is False
    assert someone.bodies() == someone.bodies("devices") == []
    record(other, "home_page", CANARY)
    assert other.evaluate("() => client.flush()") is False
    assert status(other)["summary"] == "disabled: withdrawn in another tab"
    assert someone.bodies() == []
    other.evaluate("() => client.setEnabled(true)")
    record(other, "home_page", CANARY)
    assert other.evaluate("() => client.flush()") is True
    spent = status(other)["spent"]
    assert other.evaluate("() => client.erase()") is True
    assert len(someone.bodies("erase")) == 1
    assert status(other)["spent"] == spent > 8
    (kept,) = [text for text in other.evaluate(DUMP) if "farewell" in text]
    assert json.loads(kept)[0]["farewell"] == json.loads(kept)[0]["former"] == []
    assert "home_page" not in kept.replace('["home_page day"', "")


def test_the_cap_is_silent(app: App, person: Callable[..., Person]) -> None:
    someone = person()
    tab = someone.tab()
    record(tab, "dark", True)
    status(tab)
    tab.evaluate(
        """async () => {
          const { withState } = await import("/web/storage.js");
          await withState("telemetry.web-app", async (state) => {
            const device = await state.get("device");
            const share = { reserved: 39e6, spent: 39e6, fits: false };
            device.shares.set("", share); // as of earlier lives
            await state.put({ device });
          });
        }"""
    )
    tab.reload()
    wait_until(tab, "window.client !== undefined")
    record(tab, "home_page", CANARY)
    found = status(tab)
    assert found["dropped"].keys() <= {"budget_exhausted", "does_not_fit"}
    assert (found["left"], found["queued"], found["summary"]) == (0, 1, "collecting")
    assert someone.told == []


def test_a_page_that_is_hidden_sends_what_it_has(person: Callable[..., Person]) -> None:
    someone = person()
    tab = someone.tab()
    hide = "Object.defineProperty(document, 'visibilityState', { value: 'hidden' });"
    hide += "document.dispatchEvent(new Event('visibilitychange'));"
    with tab.expect_response("**/v1/reports") as answered:
        tab.evaluate(f"() => {{ client.record('dark', true); {hide} }}")
    assert answered.value.json()["reports"] == ["accepted"]


def test_no_request_and_no_storage_holds_a_value(person: Callable[..., Person]) -> None:
    someone = person()
    tab = someone.tab()
    record(tab, "home_page", CANARY)
    record(tab, "tab", CANARY)
    record(tab, "dark", CANARY)
    record(tab, CANARY, CANARY)
    seen = [*tab.evaluate(DUMP), json.dumps(status(tab))]
    assert status(tab)["dropped"].keys() >= {"wrong_type", "unknown_metric"}
    seen.append(json.dumps(tab.evaluate("() => client.preview()")))
    assert tab.evaluate("() => client.flush()") is True
    seen += [*tab.evaluate(DUMP), json.dumps(status(tab)), tab.url, tab.content()]
    seen += [json.dumps(cookie) for cookie in someone.context.cookies()]
    for request in someone.requests:
        seen += [request.url, json.dumps(request.all_headers()), request.post_data or ""]
    text = "\n".join([*seen, *someone.told])
    assert "home_page" in text and len(someone.bodies()) == 1
    raw = CANARY.encode()
    shapes = ["canary-5f1c", "Zürich", "Z\\u00fcrich", "Z%C3%BCrich", raw.hex()]
    shapes += [base64.b64encode(raw).decode(), ", ".join(map(str, raw)), ",".join(map(str, raw))]
    for shape in shapes:
        assert shape.lower() not in text.lower(), shape

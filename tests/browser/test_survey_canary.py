"""Answers that nothing else would ever say are in no request, and nowhere that a page can keep."""

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from aggregator.machine.embedded import EmbeddedServer
from client_sdk.survey import loads_survey
from tests.browser.habits import Served, serving
from tests.browser.respondents import Respondent
from tests.browser.serving import cut_after
from tests.browser.traces import Traces, found_in
from tests.registries import Date
from tests.surveys import Document, question, survey, toml

pytestmark = pytest.mark.slow


def named(count: int) -> list[str]:
    return [f"c{secrets.token_hex(8)}" for _ in range(count)]


def labelled(asked: Document) -> Document:
    """Give each answer a text that is a canary as well, in each language."""
    for texts in asked["answers"].values():
        texts |= {language: f"Q{secrets.token_urlsafe(12)}" for language in texts}
    return asked


@pytest.fixture(scope="module")
def asked() -> Document:
    return survey(
        labelled(question("first", *named(2), prefer_not_to_answer=False)),
        labelled(question("second", *named(3))),
        labelled(question("third", *named(5), mechanism="symmetric_unary")),
        starts=Date("2026-11-01"),
    )


@pytest.fixture(scope="module")
def canaries(asked: Document) -> list[str]:
    """Every name and every text of an answer."""
    return [
        word
        for each in asked["questions"]
        for name, texts in each["answers"].items()
        for word in (name, *texts.values())
    ]


@pytest.fixture(scope="module")
def server(
    valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory, asked: Document
) -> Iterator[Served]:
    with serving(valkey, tmp_path_factory.mktemp("canary"), loads_survey(toml(asked))) as found:
        yield found


def answered(browser: Browser, server: Served, choices: tuple[int, int, int]) -> Traces:
    """Go all ways that a page has, and look at what it keeps wherever one can stand."""
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    traces = Traces(page)
    page.goto(server.address)
    somebody = Respondent(page, server.survey)
    expect(somebody.button("begin")).to_be_visible()
    traces.look("the opening")
    somebody.press("try_title")
    page.get_by_role("radio").first.check()
    somebody.press("try_draw")
    somebody.press("try_rest")
    expect(page.locator(".tosses li")).to_have_count(20)
    traces.look("the made-up question")
    somebody.press("begin")
    for index, choice in enumerate(choices):
        somebody.sees_question(index)
        page.get_by_role("radio").nth(choice).check()
        traces.look(f"question {index}, answered")
        somebody.press("review" if index == 2 else "next")
    somebody.sees("receipt_title")
    somebody.receipt()
    traces.look("the receipt")
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    traces.look("cancelled")
    somebody.press("start_again")
    somebody.press("begin")
    for index, choice in enumerate(choices):
        somebody.answer(index, choice)
    somebody.sees("receipt_title")
    page.reload()  # answers are lost, and go nowhere as they are
    expect(somebody.button("begin")).to_be_visible()
    traces.look("a reload")
    somebody.answer_all(*choices)
    page.go_back()
    somebody.sees_question(2)
    traces.look("a step back")
    page.go_forward()
    somebody.sees("receipt_title")
    server.gate.next("/v1/reports", cut_after)
    somebody.press("send")
    somebody.sees("waiting_title")
    traces.look("an answer that was lost")
    somebody.press("retry")
    somebody.sees("sent_title")
    traces.look("sent")
    page.goto("about:blank")
    page.goto(server.address)
    somebody.sees("answered_title")
    traces.look("coming back")
    context.close()
    return traces


def test_no_answer_leaves_the_page_or_stays_in_it(
    browser: Browser, server: Served, canaries: list[str]
) -> None:
    before = len(server.gate.heard)
    traces = [answered(browser, server, choices) for choices in ((1, 2, 3), (0, 3, 5), (1, 0, 0))]
    heard = server.gate.heard[before:]
    found = [
        told for canary in canaries for each in traces for told in found_in(canary, each.places())
    ]
    told_server = [(f"{each.method} {each.path} at the server", each.whole) for each in heard]
    for canary in canaries:
        found += found_in(canary, iter(told_server))
    assert not found, "\n".join(found)

    # What listens hears: the bodies, in the browser and at the server, and the coin in its place.
    for each in traces:
        (device, first, again) = (body for body in posts_of(each))
        assert device == b"{}"
        assert first == again
        assert found_in(json.loads(first)["nonce"], iter(told_server))
        assert found_in(json.loads(first)["nonce"], each.places())
        assert '"coin"' in each.at("the opening")["IndexedDB"]
        assert '"sent"' in each.at("coming back")["IndexedDB"]
    assert server.counted() == 9


def test_whatever_is_answered_the_requests_differ_in_their_reports_and_what_is_kept_in_nothing(
    browser: Browser, server: Served
) -> None:
    """Nor does an index tell an answer, the number of requests, or what stands in their headers."""
    requests, left = [], []
    for choices in ((0, 0, 0), (1, 3, 5)):
        before = len(server.gate.heard)
        traces = answered(browser, server, choices)
        heard = server.gate.heard[before:]
        # The browser asks for the icon when it finds time.
        requests.append([shape(each) for each in heard if not each.path.endswith(".svg")])
        left.append([(step, place, kept(place, text)) for step, place, text in traces.kept])
        # From the first look to Send, to the byte.
        coin = traces.at("the opening")["IndexedDB"]
        steps = [step for step, place, _ in traces.kept if place == "IndexedDB"]
        asking = steps[: steps.index("an answer that was lost")]
        assert len(asking) == 9
        assert {traces.at(step)["IndexedDB"] for step in asking} == {coin}
    # Modules are fetched side by side, in any order.
    first, second = (sorted(each, key=str) for each in requests)
    assert first == second
    assert left[0] == left[1]
    assert server.counted() == 6


def kept(place: str, text: str) -> object:
    """What is kept without what is drawn anew by everybody."""
    if place == "IndexedDB":
        return None
    if place == "entries of performance":
        # When it was painted, when the icon came, and whether a module that was fetched ahead is
        # told once or twice, is the machine's matter.
        names = {name for name in json.loads(text) if name.startswith("http")}
        return sorted(name for name in names if not name.endswith(".svg"))
    return re.sub(r'"load":[\d.]+', '"load":0', text)


def shape(heard: Any) -> tuple[str, str, list[tuple[str, str]], str]:
    drawn = {"Sottovoce-Mac", "Content-Length"}
    headers = [(name, value) for name, value in heard.headers if name not in drawn]
    body = re.sub(r'"(device|nonce)":"[0-9a-f]{32}"', r'"\1":""', heard.body.decode())
    body = re.sub(r'"response":("[0-9a-f]+"|\d+)', '"response":0', body)
    return heard.method, heard.path, sorted(headers), body


def posts_of(traces: Traces) -> Iterator[bytes]:
    for told in traces.requests:
        if told.startswith("POST "):
            yield bytes.fromhex(told.rpartition(" ")[2])

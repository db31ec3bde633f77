"""The respondent's page in a real Chromium, before the real server and its store."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, Route, expect

from client_sdk.survey import Survey, loads_survey
from tests.aggregator.conftest import World, make_world
from tests.browser.checks import assert_accessible, assert_sound, no_sideways_scroll, tab_order
from tests.browser.respondents import TEXT, Respondent, body_of, said
from tests.browser.visits import Open, Visit
from tests.registries import Date
from tests.surveys import survey as document
from tests.surveys import toml

pytestmark = pytest.mark.slow

EXAMPLE = (Path(__file__).parents[2] / "examples/surveys/habits.toml").read_text("utf-8")
Site = Callable[[Flask], str]
Draw = Callable[[Visit, str], Path]


@pytest.fixture
def survey() -> Survey:
    return loads_survey(TEXT)


@pytest.fixture
def world(redis_url: str, tmp_path: Path, survey: Survey) -> Iterator[World]:
    made = make_world(redis_url, tmp_path, survey.registry_text)
    yield made
    made.store.close()


@pytest.fixture
def address(world: World, survey: Survey, site: Site) -> str:
    """Of the survey's page, at the real application."""
    return f"{site(world.app_with(surveys=[survey]))}/s/habits"


def test_a_survey_is_answered_and_the_receipt_is_what_is_sent(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    expect(somebody.button("begin")).to_be_visible()
    loaded, opened = list(seen.requests), seen.page.url
    parts = seen.page.evaluate(
        "Array.from(document.querySelectorAll('link, script[src]'), (it) => it.href || it.src)"
    )
    assert sorted({address, *parts}) == sorted(loaded)

    somebody.press("try_title")
    seen.page.get_by_role("radio", name=somebody.words("try_no")).check()
    somebody.press("try_draw")
    somebody.press("try_rest")
    expect(seen.page.get_by_role("list", name=somebody.words("try_tosses"))).to_have_count(1)
    expect(seen.page.locator(".tosses li")).to_have_count(20)
    expect(seen.page.get_by_text(somebody.words("try_requests", n=0))).to_be_visible()

    somebody.answer_all(0, 2, 1)
    receipt = somebody.receipt()
    for index, meaning in enumerate(somebody.meanings()):
        sent = said(survey, index, receipt[index])
        told = re.sub("[\u2068\u2069]", "", meaning.partition("{")[0])
        assert somebody.words("meaning") in told
        assert all(name in told for name in sent), (told, sent)
    assert seen.requests == loaded, "something left before Send"
    assert seen.page.url == opened
    assert somebody.kept() == ["coin"]

    with seen.page.expect_response("**/v1/reports") as answered:
        somebody.press("send")
    assert answered.value.json()["reports"] == ["accepted"] * 3
    somebody.sees("sent_title")
    assert [request.url.rpartition("/v1/")[2] for request in somebody.posts] == [
        "devices",
        "reports",
    ]
    body = somebody.posts[1].post_data or ""
    assert body.endswith(f'"reports":[{",".join(receipt)}]}}')
    sent_body = body_of(somebody.posts[1])
    assert sorted(sent_body) == ["device", "nonce", "reports", "sequence", "version"]
    assert sent_body["sequence"] == 1
    assert somebody.kept() == ["sent"]
    assert_sound(seen)


def test_two_clicks_on_send_send_once(address: str, survey: Survey, visit: Open) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    somebody.answer_all(0, 0, 0)
    # The second click of a double click on what was here before.
    somebody.button("send").dispatch_event("click", {"detail": 2})
    somebody.sees("receipt_title")
    assert not somebody.posts
    somebody.button("send").dblclick()
    somebody.sees("sent_title")
    seen.page.wait_for_timeout(200)
    assert [request.url.rpartition("/")[2] for request in somebody.posts] == ["devices", "reports"]
    assert_sound(seen)


def test_what_has_not_left_can_still_be_cancelled(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    seen.page.route("**/v1/devices", lambda route: route.abort("connectionreset"))
    somebody.answer_all(0, 1, 2)
    somebody.press("send")
    somebody.sees("waiting_title")
    seen.page.reload()
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    assert somebody.kept() == ["cancelled"]
    expect(seen.page.get_by_role("button")).to_have_count(0)
    seen.page.reload()  # whoever could go on now would toss another coin
    somebody.sees("cancelled_title")
    assert somebody.kept() == ["cancelled"]
    assert {request.url.rpartition("/")[2] for request in somebody.posts} == {"devices"}


def test_back_moves_between_steps_and_no_address_tells_an_answer(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    somebody.press("begin")
    somebody.answer(0, 1)
    somebody.answer(1, 0)
    somebody.sees_question(2)
    seen.page.go_back()
    somebody.sees_question(1)
    expect(seen.page.get_by_role("radio").first).to_be_checked()
    somebody.press("back")
    somebody.sees_question(0)
    seen.page.go_forward()
    somebody.sees_question(1)
    assert seen.page.url == address
    assert sorted(seen.page.evaluate("Object.keys(history.state)")) == ["depth", "load", "step"]
    seen.page.reload()
    expect(somebody.button("begin")).to_be_visible()
    seen.page.go_forward()  # to a step of the page before: its answers are gone
    somebody.sees_question(0)


def test_going_on_without_an_answer_is_told_at_the_question(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    somebody.press("begin")
    somebody.sees_question(0)
    expect(seen.page.get_by_role("heading", level=1)).to_be_focused()
    somebody.press("next")
    group = seen.page.get_by_role("radiogroup", name=survey.questions[0].text["en"])
    expect(group).to_have_accessible_description(re.compile(somebody.words("choose")))
    expect(group).to_have_attribute("aria-invalid", "true")
    expect(seen.page.get_by_role("radio").first).to_be_focused()
    seen.page.get_by_role("radio").first.check()
    expect(group).not_to_have_attribute("aria-invalid", "true")


def test_a_page_that_came_by_plain_http_asks_nothing(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address.replace("127.0.0.1", "survey.test"))
    somebody = Respondent.at(seen, survey)
    somebody.sees("stopped_title")
    expect(seen.page.get_by_text(somebody.words("not_secure"))).to_be_visible()
    expect(seen.page.get_by_role("radio")).to_have_count(0)


@pytest.mark.parametrize("part", ["survey/survey.js", "sottovoce/sender.js", "survey/flow.js"])
def test_a_module_that_was_changed_on_the_way_does_not_run(
    address: str, survey: Survey, browser: Browser, part: str
) -> None:
    context = browser.new_context()
    page = context.new_page()

    def change(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text() + "\n// changed")

    page.route(f"**/{part}", change)
    page.goto(address)
    somebody = Respondent(page, survey)
    expect(page.get_by_text(somebody.words("starting"))).to_be_visible()
    page.wait_for_timeout(300)
    expect(page.get_by_role("button")).to_have_count(0)
    context.close()


def test_without_javascript_there_is_a_text_and_nothing_to_fill_in(
    address: str, survey: Survey, browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    somebody = Respondent(page, survey)
    told = page.locator("noscript p")  # playwright finds no text in one
    expect(told).to_be_visible()
    expect(told).to_have_text(somebody.words("no_javascript"))
    expect(page.get_by_text(somebody.words("starting"))).to_be_hidden()
    for role in ("radio", "button", "textbox"):
        expect(page.get_by_role(role)).to_have_count(0)
    context.close()


def test_a_page_that_is_left_holds_nothing(address: str, survey: Survey, visit: Open) -> None:
    seen = visit(address)
    somebody = Respondent.at(seen, survey)
    somebody.press("begin")
    somebody.answer(0, 1)
    seen.page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    expect(seen.page.locator("#step")).to_be_empty()
    seen.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    somebody.press("begin")
    somebody.sees_question(0)
    expect(seen.page.get_by_role("radio", checked=True)).to_have_count(0)


def test_an_invitation_is_kept_before_it_leaves_the_address(
    world: World, site: Site, visit: Open
) -> None:
    invited = loads_survey(toml(document(starts=Date("2026-11-01"), admission="invitation")))
    address = f"{site(world.app_with(surveys=[invited]))}/s/habits"
    without = Respondent.at(visit(address), invited)
    without.sees("stopped_title")
    expect(without.page.get_by_text(without.words("invitation_missing"))).to_be_visible()

    seen = visit(f"{address}#i=s3cret-Token&k={'0a' * 32}")
    somebody = Respondent.at(seen, invited)
    expect(somebody.button("begin")).to_be_visible()
    assert seen.page.url == address
    assert somebody.kept() == ["blinding", "coin", "invitation"]
    assert not any("s3cret" in url for url in seen.requests)
    seen.page.get_by_role("link", name="العربية").click()
    expect(seen.page.locator("html")).to_have_attribute("dir", "rtl")
    somebody.language = "ar"
    expect(somebody.button("begin")).to_be_visible()


@pytest.mark.parametrize(("language", "limit"), [("en", "3.5"), ("de", "3,5"), ("ar", "3.5")])
def test_figures_are_written_as_the_language_does_in_the_digits_of_its_texts(
    world: World, site: Site, visit: Open, language: str, limit: str
) -> None:
    text = EXAMPLE.replace("starts = 2026-12-01", "starts = 2026-11-01")
    example = loads_survey(text.replace("epsilon = 2.0", "epsilon = 1.5"))
    seen = visit(f"{site(world.app_with(surveys=[example]))}/s/habits?language={language}")
    figures = seen.page.locator(".figures dd")
    expect(figures).to_have_count(3)
    questions, last_day, epsilon = figures.all_inner_texts()
    assert (questions, epsilon) == ("3", limit)
    assert "2027" in last_day
    assert_sound(seen)


def test_the_receipt_breaks_no_name_on_a_phone(world: World, site: Site, visit: Open) -> None:
    example = loads_survey(EXAMPLE.replace("starts = 2026-12-01", "starts = 2026-11-01"))
    world.catalogue.register(example.registry_text)
    seen = visit(f"{site(world.app_with(surveys=[example]))}/s/habits?language=en", width=390)
    somebody = Respondent.at(seen, example)
    somebody.answer_all(0, 0, 0)
    assert len(somebody.receipt()) == 3
    lines = seen.page.evaluate(
        """() => [...document.querySelectorAll("code")].flatMap((code) => [...code.childNodes])
          .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.includes("survey."))
          .map((node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            return [node.data, new Set([...range.getClientRects()].map((it) => it.top)).size];
          })"""
    )
    names = [f'"{each.metric.name}",' for each in example.questions]
    assert lines == [[name, 1] for name in names]


def steps(somebody: Respondent) -> Iterator[str]:
    """Go through all steps; yield each name when it is there."""
    expect(somebody.button("begin")).to_be_visible()
    yield "opening"
    somebody.press("try_title")
    somebody.press("try_draw")
    somebody.page.get_by_role("radio").first.check()
    somebody.press("try_rest")
    expect(somebody.page.locator(".tosses li")).to_have_count(20)
    yield "trial"
    somebody.press("begin")
    somebody.press("next")
    yield "question-without-answer"
    for index in range(3):
        if index != 1:  # as the first one
            somebody.sees_question(index)
            yield f"question-{index + 1}"
        somebody.answer(index, 1)
    somebody.sees("receipt_title")
    yield "receipt"
    somebody.receipt()
    yield "receipt-open"
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    yield "cancelled"
    somebody.press("start_again")
    somebody.answer_all(0, 0, 0)
    somebody.page.route("**/v1/reports", lambda route: route.abort("connectionreset"))
    somebody.press("send")
    somebody.sees("waiting_title")
    yield "waiting"
    somebody.page.unroute("**/v1/reports")
    somebody.press("retry")
    somebody.sees("sent_title")
    yield "sent"


@pytest.mark.parametrize(
    ("width", "language", "dark"),
    [
        pytest.param(1280, "en", False, id="desk-light"),
        pytest.param(390, "en", True, id="phone-dark"),
        pytest.param(320, "ar", False, id="narrow-arabic"),
    ],
)
def test_every_step_is_accessible_and_no_wider_than_its_window(
    address: str,
    survey: Survey,
    visit: Open,
    screenshot: Draw,
    width: int,
    language: str,
    dark: bool,
) -> None:
    seen = visit(f"{address}?language={language}", width=width, dark=dark)
    for step in steps(Respondent.at(seen, survey, language)):
        screenshot(seen, f"survey-{language}-{width}-{'dark' if dark else 'light'}-{step}")
        no_sideways_scroll(seen)
        assert_accessible(seen)


def test_every_step_fits_320_pixels_and_shows_where_the_focus_is(
    address: str, survey: Survey, visit: Open
) -> None:
    seen = visit(address, width=320)
    for step in steps(Respondent.at(seen, survey)):
        no_sideways_scroll(seen)
        if step != "sent":  # then there is nowhere to go but to another language
            assert len(tab_order(seen)) >= 2
        small = seen.page.evaluate(
            """[...document.querySelectorAll("a, button, summary, label")]
              .map((it) => [it.textContent, it.getBoundingClientRect()])
              .filter(([_, box]) => box.height && (box.height < 24 || box.width < 24))
              .map(([text]) => text)"""
        )
        assert not small

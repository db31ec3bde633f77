"""There is no second draw: whatever a respondent tries, the same answer is the same report."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.habits import Served, habits
from tests.browser.respondents import Respondent
from tests.browser.traces import Traces
from tests.browser.visits import Open

pytestmark = pytest.mark.slow
__all__ = ["habits"]

ANSWERS = (0, 1, 3)
OTHERS = (1, 0, 5)


@pytest.fixture
def somebody(habits: Served, visit: Open) -> Respondent:
    """Whose receipt is open."""
    found = Respondent.at(visit(habits.address), habits.survey)
    found.answer_all(*ANSWERS)
    return found


def reload(somebody: Respondent) -> None:
    somebody.page.reload()


def cancel(somebody: Respondent) -> None:
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    assert somebody.kept() == ["coin"]
    somebody.press("start_again")
    somebody.press("begin")
    expect(somebody.page.get_by_role("radio", checked=True)).to_have_count(0)
    somebody.press("back")


def cancel_and_reload(somebody: Respondent) -> None:
    cancel(somebody)
    reload(somebody)


def practise(somebody: Respondent) -> None:
    """The made-up question draws, too, but from no coin of the survey."""
    reload(somebody)
    somebody.press("try_title")
    somebody.page.get_by_role("radio").first.check()
    somebody.press("try_rest")
    expect(somebody.page.locator(".tosses li")).to_have_count(20)
    somebody.press("back")


def read_it_in_arabic(somebody: Respondent) -> None:
    reload(somebody)
    somebody.page.get_by_role("link", name="العربية").click()
    somebody.language = "ar"


def leave_and_come_back(somebody: Respondent) -> None:
    address = somebody.page.url
    somebody.page.goto("about:blank")
    somebody.page.goto(address)


def another_tab(somebody: Respondent) -> None:
    page = somebody.page.context.new_page()
    page.goto(somebody.page.url)
    somebody.page.close()
    somebody.page = page


def without_network(somebody: Respondent) -> None:
    cancel(somebody)
    somebody.page.context.set_offline(True)


@pytest.mark.parametrize(
    "way",
    [
        reload,
        cancel,
        cancel_and_reload,
        practise,
        read_it_in_arabic,
        leave_and_come_back,
        another_tab,
        without_network,
    ],
    ids=lambda way: way.__name__,
)
def test_the_same_answers_are_the_same_bytes(
    somebody: Respondent, way: Callable[[Respondent], None]
) -> None:
    first = somebody.receipt()
    way(somebody)
    somebody.answer_all(*ANSWERS)
    assert somebody.receipt() == first
    assert not somebody.posts


def test_an_answer_that_is_changed_and_changed_back_is_the_report_that_it_was(
    habits: Served, somebody: Respondent
) -> None:
    first = somebody.receipt()
    page = somebody.page
    for _ in range(3):
        page.go_back()
    somebody.sees_question(0)
    for choices in (OTHERS, ANSWERS, OTHERS, ANSWERS):
        for index, choice in enumerate(choices):
            somebody.answer(index, choice)
        somebody.sees("receipt_title")
        shown = somebody.receipt()
        if choices == ANSWERS:
            assert shown == first
        for index in (2, 1, 0):
            somebody.press("back")
            somebody.sees_question(index)


def test_other_answers_to_one_question_change_no_other_report(somebody: Respondent) -> None:
    first = somebody.receipt()
    somebody.page.reload()
    somebody.answer_all(*ANSWERS[:2], OTHERS[2])
    assert somebody.receipt()[:2] == first[:2]


def test_after_send_the_coin_is_gone_and_the_survey_locked(habits: Served, visit: Open) -> None:
    seen = visit("about:blank")
    traces = Traces(seen.page)
    seen.page.goto(habits.address)
    somebody = Respondent.at(seen, habits.survey)
    expect(somebody.button("begin")).to_be_visible()
    traces.look("before")
    (coin,) = re.findall(r'"([0-9a-f]{64})"', traces.at("before")["IndexedDB"])
    somebody.answer_all(*ANSWERS)
    receipt = somebody.receipt()
    somebody.press("send")
    somebody.sees("sent_title")
    traces.look("sent")
    left = traces.at("sent")
    assert left["IndexedDB"].count("survey.habits") == 1
    assert not any(coin in content for content in left.values())
    assert not any(report in content for report in receipt for content in left.values())
    assert habits.counted() == 3
    for way in (reload, leave_and_come_back, another_tab):
        way(somebody)
        somebody.sees("answered_title")
        expect(somebody.page.get_by_role("radio")).to_have_count(0)
        expect(somebody.page.get_by_role("button")).to_have_count(0)
        somebody.page.go_back()
        expect(somebody.page.get_by_role("radio")).to_have_count(0)
        somebody.page.goto(habits.address)
    assert somebody.kept() == ["sent"]
    assert habits.counted() == 0

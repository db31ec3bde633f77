"""Whatever happens between respondent and server: each answer counts once, and words say so."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import assert_accessible
from tests.browser.habits import Served, habits
from tests.browser.respondents import Respondent
from tests.browser.serving import Held, Mishap, busy, cut_after, cut_before, forged, refused
from tests.browser.visits import Open, Visit

pytestmark = pytest.mark.slow
__all__ = ["habits"]

ANSWERS = (1, 1, 0)
REPORTS = "/v1/reports"
DEVICES = "/v1/devices"


@pytest.fixture
def somebody(habits: Served, visit: Open) -> Respondent:
    """Who stands before Send."""
    habits.gate.heard.clear()
    found = Respondent.at(visit(habits.address), habits.survey)
    found.answer_all(*ANSWERS)
    return found


def prepared(habits: Served, seen: Visit, prepare: Callable[[Page], None]) -> Respondent:
    """Somebody whose browser is prepared before the survey is opened in it."""
    habits.gate.heard.clear()
    prepare(seen.page)
    seen.page.goto(habits.address)
    return Respondent.at(seen, habits.survey)


def sent_once(habits: Served, somebody: Respondent, tries: int) -> None:
    """It was sent so often, as the same bytes, and counted once."""
    somebody.sees("sent_title")
    posted = habits.gate.posted(REPORTS)
    assert len(posted) == tries
    assert len(set(posted)) == 1
    assert habits.counted() == 3
    assert somebody.kept() == ["sent"]


def told(somebody: Respondent, key: str) -> None:
    expect(somebody.page.get_by_text(somebody.words(key), exact=True)).to_be_visible()


# Reload, in every state.


def test_a_reload_while_the_server_holds_its_answer_sends_the_same_again(
    habits: Served, somebody: Respondent
) -> None:
    held = Held()
    habits.gate.next(REPORTS, held)
    somebody.press("send")
    assert held.acted.wait(30)
    somebody.sees("sending")
    assert somebody.page.get_by_role("button").count() == 0
    somebody.page.reload()
    sent_once(habits, somebody, tries=2)
    held.free.set()


def test_a_reload_while_it_enrols_sends_one_message(habits: Served, somebody: Respondent) -> None:
    held = Held()
    habits.gate.next(DEVICES, held)
    somebody.press("send")
    assert held.acted.wait(30)
    somebody.page.reload()
    sent_once(habits, somebody, tries=1)
    held.free.set()
    somebody.page.wait_for_timeout(300)
    assert len(habits.gate.posted(REPORTS)) == 1


@pytest.mark.parametrize("mishap", [cut_before, cut_after], ids=lambda mishap: mishap.__name__)
def test_after_the_connection_broke_a_reload_sends_it_once(
    habits: Served, somebody: Respondent, mishap: Mishap
) -> None:
    habits.gate.next(REPORTS, mishap)
    somebody.press("send")
    somebody.sees("waiting_title")
    told(somebody, "waiting_maybe")
    expect(somebody.button("cancel")).to_have_count(0)
    # Never both: which answer gives this report by this coin, anybody could try.
    assert somebody.kept() == ["sending"]
    somebody.page.reload()
    sent_once(habits, somebody, tries=2)


def test_a_reload_before_send_asks_anew_and_leaves_nothing(
    habits: Served, somebody: Respondent
) -> None:
    page = somebody.page
    habits.gate.heard.clear()
    for step in ("receipt", "question", "trial", "opening"):
        if step == "trial":
            somebody.press("try_title")
        if step == "question":
            somebody.press("begin")
            somebody.answer(0, 1)
        page.reload()
        expect(somebody.button("begin")).to_be_visible()
        expect(page.get_by_role("radio")).to_have_count(0)
    somebody.press("begin")
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    assert not any(each.body for each in habits.gate.heard)
    assert somebody.kept() == ["coin"]


# The browser's Back and Forward.


def test_back_and_forward_from_every_step_and_from_elsewhere(
    habits: Served, somebody: Respondent
) -> None:
    page = somebody.page
    for index in (2, 1, 0):
        page.go_back()
        somebody.sees_question(index)
        expect(page.get_by_role("radio").nth(ANSWERS[index])).to_be_checked()
    page.go_back()
    expect(somebody.button("begin")).to_be_visible()
    for index in (0, 1, 2):
        page.go_forward()
        somebody.sees_question(index)
    page.go_forward()
    somebody.sees("receipt_title")
    # Elsewhere and back: another page whose answers nobody has, wherever the history leads.
    page.goto(f"{habits.url}/s/elsewhere")
    page.go_back()
    expect(somebody.button("begin")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    page.go_forward()
    expect(page.get_by_role("radio", checked=True)).to_have_count(0)
    assert not somebody.posts
    page.goto(habits.address)
    somebody.answer_all(*ANSWERS)
    somebody.press("send")
    sent_once(habits, somebody, tries=1)
    for _ in range(3):
        page.go_back()
        expect(page.get_by_role("radio")).to_have_count(0)
        page.go_forward()
    assert len(somebody.posts) == 2


# Impatience.


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_key_that_is_held_down_on_send_sends_once(
    habits: Served, somebody: Respondent, key: str
) -> None:
    somebody.button("send").focus()
    for _ in range(20):
        somebody.page.keyboard.down(key)  # the second and those after it are repeats
    somebody.page.keyboard.up(key)
    sent_once(habits, somebody, tries=1)
    assert len(somebody.posts) == 2


def test_a_key_that_is_held_down_from_the_beginning_sends_nothing(
    habits: Served, somebody: Respondent
) -> None:
    page = somebody.page
    page.go_back()
    somebody.sees_question(2)
    somebody.button("review").focus()
    for _ in range(20):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    somebody.sees("receipt_title")
    assert not somebody.posts


def test_many_clicks_on_send_and_on_try_again_send_once_each(
    habits: Served, somebody: Respondent
) -> None:
    held = Held()
    habits.gate.next(REPORTS, busy("503 Service Unavailable"), held)
    somebody.button("send").click(click_count=3)
    somebody.sees("waiting_title")
    somebody.button("retry").click(click_count=3)
    assert held.acted.wait(30)
    held.free.set()
    sent_once(habits, somebody, tries=2)


def test_two_tabs_of_which_one_sends_make_one_message(habits: Served, somebody: Respondent) -> None:
    held = Held()
    habits.gate.next(REPORTS, held)
    other = Respondent(somebody.page.context.new_page(), habits.survey)
    other.page.goto(habits.address)
    other.sees("elsewhere_title")
    expect(other.page.get_by_role("radio")).to_have_count(0)
    somebody.press("send")
    assert held.acted.wait(30)
    other.page.reload()
    other.sees("elsewhere_title")
    held.free.set()
    sent_once(habits, somebody, tries=1)
    other.sees("answered_title")


def test_a_tab_goes_on_with_what_another_has_left(habits: Served, somebody: Respondent) -> None:
    habits.gate.next(REPORTS, cut_after)
    somebody.press("send")
    somebody.sees("waiting_title")
    other = Respondent(somebody.page.context.new_page(), habits.survey)
    other.page.goto(habits.address)
    other.sees("elsewhere_title")
    somebody.page.close()
    sent_once(habits, other, tries=2)


# Offline.


def test_a_survey_is_answered_offline_and_goes_out_by_itself(habits: Served, visit: Open) -> None:
    habits.gate.heard.clear()
    seen = visit(habits.address)
    somebody = Respondent.at(seen, habits.survey)
    expect(somebody.button("begin")).to_be_visible()
    seen.page.context.set_offline(True)
    somebody.answer_all(*ANSWERS)
    receipt = somebody.receipt()
    somebody.press("send")
    somebody.sees("waiting_title")
    told(somebody, "offline")
    told(somebody, "waiting_here")
    assert somebody.kept() == ["sending"]
    somebody.press("retry")
    somebody.sees("waiting_title")
    assert not habits.gate.posted("")
    seen.page.context.set_offline(False)  # nobody presses anything
    sent_once(habits, somebody, tries=1)
    (body,) = habits.gate.posted(REPORTS)
    assert all(report.encode() in body for report in receipt)


def test_what_waits_offline_can_be_cancelled(habits: Served, somebody: Respondent) -> None:
    somebody.page.context.set_offline(True)
    somebody.press("send")
    somebody.sees("waiting_title")
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    somebody.page.context.set_offline(False)
    somebody.page.wait_for_timeout(300)
    assert somebody.kept() == ["cancelled"]
    assert not habits.gate.posted("")


# The server.


@pytest.mark.parametrize("path", [DEVICES, REPORTS])
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_busy_server_is_asked_again_after_its_pause_and_not_before(
    habits: Served, visit: Open, path: str, status: str
) -> None:
    seen = visit("about:blank")
    somebody = prepared(habits, seen, lambda page: page.clock.install())
    page = somebody.page
    somebody.answer_all(*ANSWERS)
    habits.gate.next(path, busy(status, 900), busy(status, 0))
    somebody.press("send")
    somebody.sees("waiting_title")
    told(somebody, "server_busy")
    promise = re.escape(somebody.words("waiting_until")).replace(r"\{time\}", "\u2068.+:.+\u2069")
    expect(page.get_by_text(re.compile(promise))).to_be_visible()
    assert_accessible(seen)
    asked = len(habits.gate.posted(path))
    page.clock.fast_forward(890_000)
    page.wait_for_timeout(200)
    assert len(habits.gate.posted(path)) == asked == 1
    page.clock.fast_forward(11_000)
    somebody.sees("waiting_title")  # by its second answer it may be asked at once; it is not
    expect(page.get_by_text(re.compile(promise))).to_be_visible()
    page.wait_for_timeout(200)
    assert len(habits.gate.posted(path)) == 2
    page.clock.fast_forward(5_000)
    sent_once(habits, somebody, tries=1 if path == DEVICES else 3)
    page.clock.fast_forward(3_600_000)
    page.wait_for_timeout(100)
    assert len(habits.gate.posted(path)) == 3


def test_a_server_that_never_answers_is_given_up_after_ten_seconds(
    habits: Served, visit: Open
) -> None:
    somebody = prepared(habits, visit("about:blank"), lambda page: page.clock.install())
    page = somebody.page
    somebody.answer_all(*ANSWERS)
    held = Held()
    habits.gate.next(REPORTS, held)
    somebody.press("send")
    assert held.acted.wait(30)
    somebody.sees("sending")
    page.clock.fast_forward(10_000)
    somebody.sees("waiting_title")
    told(somebody, "waiting_maybe")
    held.free.set()
    somebody.press("retry")
    sent_once(habits, somebody, tries=2)


def test_cancel_ends_the_waiting_for_a_pause(habits: Served, visit: Open) -> None:
    somebody = prepared(habits, visit("about:blank"), lambda page: page.clock.install())
    page = somebody.page
    somebody.answer_all(*ANSWERS)
    habits.gate.next(DEVICES, busy("503 Service Unavailable", 60))
    somebody.press("send")
    somebody.sees("waiting_title")
    somebody.press("cancel")
    somebody.sees("cancelled_title")
    page.clock.fast_forward(120_000)
    page.wait_for_timeout(200)
    assert len(habits.gate.posted(DEVICES)) == 1
    assert somebody.kept() == ["cancelled"]


def other_mac(answer: dict[str, Any]) -> None:
    answer["mac"] = "0" * 64


def other_verdicts(answer: dict[str, Any]) -> None:
    answer["reports"] = ["channel_mismatch"] * 3


@pytest.mark.parametrize(
    ("path", "mishap", "key"),
    [
        (REPORTS, busy("500 Internal Server Error"), "server_busy"),
        (REPORTS, busy("502 Bad Gateway"), "server_busy"),
        (DEVICES, busy("503 Service Unavailable"), "server_busy"),
        (REPORTS, forged(other_mac), "untrusted"),
        (REPORTS, forged(other_verdicts), "untrusted"),
        (REPORTS, busy("200 OK"), "untrusted"),
        (DEVICES, busy("200 OK"), "untrusted"),
        (REPORTS, refused("403 Forbidden", "not_here"), "refused"),
        (DEVICES, refused("401 Unauthorized", "bad_write_key"), "refused"),
        (REPORTS, cut_before, "offline"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_goes_wrong_is_said_and_try_again_counts_once(
    habits: Served, somebody: Respondent, path: str, mishap: Mishap, key: str
) -> None:
    habits.gate.next(path, mishap)
    somebody.press("send")
    somebody.sees("waiting_title")
    words = re.escape(somebody.words(key)).replace(r"\{reason\}", "\u2068[a-z_]+\u2069")
    expect(somebody.page.get_by_text(re.compile(words))).to_be_visible()
    told(somebody, "waiting_here" if path == DEVICES else "waiting_maybe")
    somebody.press("retry")
    sent_once(habits, somebody, tries=1 if path == DEVICES else 2)


# Storage that fails when it is needed.

FULL = """
const put = IDBObjectStore.prototype.put;
let left = LEFT;
IDBObjectStore.prototype.put = function (...given) {
  if (left-- > 0) return put.apply(this, given);
  throw new DOMException('full', 'QuotaExceededError');
};
"""


@pytest.mark.parametrize(("writes", "posts"), [(1, 0), (2, 1)])
def test_what_cannot_be_kept_does_not_leave(
    habits: Served, visit: Open, writes: int, posts: int
) -> None:
    """Only the coin can be written, or that and the reports: then there is a device, no message."""
    script = FULL.replace("LEFT", str(writes))
    somebody = prepared(habits, visit("about:blank"), lambda page: page.add_init_script(script))
    somebody.answer_all(*ANSWERS)
    somebody.press("send")
    somebody.sees("waiting_title")
    told(somebody, "something_wrong")
    assert len(somebody.posts) == posts
    assert not habits.gate.posted(REPORTS)


BLOCKED = {
    "is missing": "delete Object.getPrototypeOf(window).indexedDB; delete window.indexedDB",
    "throws": "IDBFactory.prototype.open = () => { throw new DOMException('', 'SecurityError'); }",
    "rejects": """IDBFactory.prototype.open = () => {
      const request = { error: new DOMException('', 'UnknownError') };
      setTimeout(() => request.onerror());
      return request;
    }""",
    "reads but does not write": FULL.replace("LEFT", "0"),
    "forbids locks": "LockManager.prototype.request = async () => { throw new DOMException(''); }",
    "has no locks": "delete Navigator.prototype.locks",
    "has no subtle": "delete Crypto.prototype.subtle",
    "has no crypto": "delete window.crypto; delete Object.getPrototypeOf(window).crypto",
}


@pytest.mark.parametrize("kind", BLOCKED)
def test_a_browser_that_lacks_something_is_told_so_and_asked_nothing(
    habits: Served, visit: Open, kind: str
) -> None:
    somebody = prepared(
        habits, visit("about:blank"), lambda page: page.add_init_script(BLOCKED[kind])
    )
    somebody.sees("stopped_title")
    words = {"has no locks": "browser_too_old", "has no subtle": "browser_too_old"}
    told(somebody, words.get(kind, "no_randomness" if "crypto" in kind else "storage_blocked"))
    for role in ("radio", "button"):
        expect(somebody.page.get_by_role(role)).to_have_count(0)
    assert not somebody.posts

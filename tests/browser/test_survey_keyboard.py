"""The whole survey by keyboard alone, in each language, on a wide screen and at 400 % zoom."""

import pytest
from playwright.sync_api import expect

from tests.browser.checks import assert_sound, no_sideways_scroll
from tests.browser.habits import Served, habits
from tests.browser.keyboard import Walker
from tests.browser.respondents import Respondent
from tests.browser.visits import Open

pytestmark = pytest.mark.slow
__all__ = ["habits"]

WIDE = (1280, 900)
ZOOMED = (320, 256)
"""What 400 % leaves of 1280 x 1024 (WCAG 1.4.10)."""


@pytest.mark.parametrize(
    ("language", "size"),
    [("en", WIDE), ("en", ZOOMED), ("ar", WIDE), ("ar", ZOOMED), ("de", ZOOMED)],
)
def test_a_survey_is_answered_without_a_mouse(
    habits: Served, visit: Open, language: str, size: tuple[int, int]
) -> None:
    width, height = size
    seen = visit(f"{habits.url}/s/habits?language={language}", width=width, height=height)
    somebody = Respondent.at(seen, habits.survey, language)
    keys = Walker(seen.page)
    expect(somebody.button("begin")).to_be_visible()

    keys.press_at(somebody.button("try_title"))
    somebody.sees("try_title")
    keys.choose(seen.page.get_by_role("radio"), 1)
    keys.press_at(somebody.button("try_draw"), "Space")
    expect(seen.page.locator(".tosses li")).to_have_count(1)
    keys.press_at(somebody.button("try_rest"))
    expect(seen.page.locator(".tosses li")).to_have_count(20)
    no_sideways_scroll(seen)
    keys.press_at(somebody.button("begin"))

    # Without an answer there is no way on, and the focus is where it is to be given.
    somebody.sees_question(0)
    keys.press_at(somebody.button("next"))
    expect(seen.page.get_by_role("radio").first).to_be_focused()
    for index, choice in enumerate((1, 2, 4)):
        somebody.sees_question(index)
        no_sideways_scroll(seen)
        keys.choose(seen.page.get_by_role("radio"), choice)
        keys.press_at(somebody.button("review" if index == 2 else "next"))
    somebody.sees("receipt_title")
    assert not somebody.posts

    # Open the receipt; go back to the last question by the way that one came, and on again.
    summary = seen.page.locator("summary")
    keys.press_at(summary)
    first = seen.page.locator("details code")
    expect(first).to_have_count(3)
    expect(first.first).to_be_visible()
    receipt = first.all_text_contents()
    no_sideways_scroll(seen)
    keys.press_at(summary, "Space", by="Shift+Tab")
    expect(first.first).to_be_hidden()
    keys.press_at(somebody.button("back"))
    somebody.sees_question(2)
    expect(seen.page.get_by_role("radio").nth(4)).to_be_checked()
    keys.press_at(somebody.button("review"))
    somebody.sees("receipt_title")
    keys.press_at(summary)
    assert first.all_text_contents() == receipt

    keys.press_at(somebody.button("send"))
    somebody.sees("sent_title")
    no_sideways_scroll(seen)
    assert [report in (somebody.posts[-1].post_data or "") for report in receipt] == [True] * 3
    assert habits.counted() == 3
    assert_sound(seen)

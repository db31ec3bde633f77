"""Many respondents at once, in browsers of their own: all are counted, and chance keeps its law."""

import json
from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page
from scipy.stats import binom

from client_sdk.survey.odds import sent_as
from tests.browser.habits import Served, habits
from tests.browser.respondents import Respondent, said

pytestmark = pytest.mark.slow
__all__ = ["habits"]

RESPONDENTS = 30
AT_ONCE = 10
FALSE_ALARM = 1e-6
OWN = (1, 0, 4)
"""What all of them answer."""

# Answers by what stands on the page, as fast as it goes.
FILL = """
([begin, questions, last]) => {
  const there = async (selector, text) => {
    for (;;) {
      for (const each of document.querySelectorAll(selector)) {
        if (each.textContent === text && !each.disabled) return each;
      }
      await new Promise((done) => setTimeout(done, 5));
    }
  };
  window.filled = (async () => {
    (await there('button', begin)).click();
    for (const [asked, answer, onward] of questions) {
      await there('h1', asked);
      (await there('label', answer)).click();
      (await there('button', onward)).click();
    }
    await there('h1', last);
  })().catch(String);
}
"""


def fill(somebody: Respondent, choices: Sequence[int]) -> None:
    """Begin to answer all, from the first step to the receipt; nobody waits."""
    questions = somebody.survey.questions
    asked = [
        [
            each.text["en"],
            each.answers[choice].text["en"],
            somebody.words("review" if each is questions[-1] else "next"),
        ]
        for each, choice in zip(questions, choices, strict=True)
    ]
    last = somebody.words("receipt_title")
    somebody.page.evaluate(FILL, [somebody.words("begin"), asked, last])


def finish(somebody: Respondent) -> None:
    assert somebody.page.evaluate("window.filled") is None
    somebody.sees("receipt_title")


def detour(number: int, somebody: Respondent) -> None:
    """Some go straight on; others change their mind, cancel, or lose the page."""
    page = somebody.page
    if number % 3 == 1:
        page.reload()
    elif number % 3 == 2:
        somebody.press("cancel")
        somebody.sees("cancelled_title")
        somebody.press("start_again")
    if number % 3:
        fill(somebody, [0, 2, 6])
        finish(somebody)
        page.go_back()
        somebody.sees_question(2)
        page.reload()
        fill(somebody, OWN)
        finish(somebody)


def test_thirty_respondents_are_counted_once_and_their_reports_keep_the_law(
    habits: Served, browser: Browser
) -> None:
    for batch in range(0, RESPONDENTS, AT_ONCE):
        with ExitStack() as contexts:
            present: list[tuple[int, Respondent]] = []
            for number in range(batch, batch + AT_ONCE):
                context = browser.new_context(locale="en-GB")
                contexts.callback(context.close)
                page: Page = context.new_page()
                page.goto(habits.address)
                somebody = Respondent(page, habits.survey)
                fill(somebody, OWN)
                present.append((number, somebody))
            for _, somebody in present:
                finish(somebody)
            for number, somebody in present:
                detour(number, somebody)
                somebody.press("send")
            for _, somebody in present:
                somebody.sees("sent_title")

    bodies = [json.loads(body) for body in habits.gate.posted("/v1/reports")]
    assert len(bodies) == RESPONDENTS == len({body["device"] for body in bodies})
    assert habits.counted() == 3 * RESPONDENTS
    # Each tail of each question has its share of the false alarms. That chance changes nothing at
    # all is outside for the questions with three answers and with seven.
    share = FALSE_ALARM / (2 * len(habits.survey.questions))
    for index, (asked, own) in enumerate(zip(habits.survey.questions, OWN, strict=True)):
        texts = [said(habits.survey, index, json.dumps(body["reports"][index])) for body in bodies]
        stayed = texts.count([asked.answers[own].text["en"]])
        probability = float(sent_as(asked.metric.mechanism, own, own))
        least = binom.ppf(share, RESPONDENTS, probability)
        most = binom.isf(share, RESPONDENTS, probability)
        assert least <= stayed <= most, (asked.name, stayed, least, most)
        assert asked.name == "ever_late" or most < RESPONDENTS

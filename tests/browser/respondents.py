"""A survey as it is served, and somebody who answers it by what the page says: roles and labels."""

import json
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Locator, Page, Request, Route, expect

from client_sdk.survey import Survey
from client_sdk.web_definition import definition
from tests.browser.visits import Visit
from tests.registries import Date
from tests.surveys import question, survey, toml

TEXT = toml(
    survey(
        question(prefer_not_to_answer=False, deniability=True),
        question("ill_at_work"),
        question(
            "ways", "foot", "bicycle", "bus", "car", mechanism="symmetric_unary", deniability=True
        ),
        starts=Date("2026-11-01"),
    )
)
"""One bit, one cell, several ticks."""
KEPT = """
async (name) => {
  const opening = indexedDB.open("sottovoce", 1);
  await new Promise((done) => (opening.onsuccess = done));
  const store = opening.result.transaction("state").objectStore("state");
  const listing = store.getAllKeys(IDBKeyRange.bound([name], [name, []]));
  await new Promise((done) => (listing.onsuccess = done));
  opening.result.close();
  return listing.result.map(([_, key]) => key).sort();
}
"""


@dataclass
class Respondent:
    """Somebody at a page of a survey.

    Attributes:
        page: The page.
        survey: What it asks.
        language: The language that it is read in.
        posts: Requests that are no GET, in order.
    """

    page: Page
    survey: Survey
    language: str = "en"
    posts: list[Request] = field(default_factory=list)

    @classmethod
    def at(cls, visit: Visit, survey: Survey, language: str = "en") -> "Respondent":
        respondent = cls(visit.page, survey, language)
        visit.page.on("request", respondent._note)
        return respondent

    def _note(self, request: Request) -> None:
        if request.method != "GET":
            self.posts.append(request)

    def words(self, key: str, **values: object) -> str:
        """What the page says in the respondent's language."""
        text = self.survey.interface[self.language].texts[key]
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", f"\u2068{value}\u2069")
        return text

    def button(self, key: str) -> Locator:
        return self.page.get_by_role("button", name=self.words(key), exact=True)

    def press(self, key: str) -> None:
        self.button(key).click()

    def sees(self, key: str) -> None:
        """A heading of the page's own words is there."""
        expect(self.page.get_by_role("heading", name=self.words(key), exact=True)).to_be_visible()

    def sees_question(self, index: int) -> None:
        text = self.survey.questions[index].text[self.language]
        expect(self.page.get_by_role("heading", name=text, exact=True)).to_be_visible()
        progress = self.words("progress", n=index + 1, of=len(self.survey.questions))
        expect(self.page.get_by_text(progress, exact=True)).to_be_visible()

    def answer(self, index: int, choice: int) -> None:
        """Answer the question that is shown, and go on."""
        self.sees_question(index)
        asked = self.survey.questions[index]
        text = asked.answers[choice].text[self.language]
        self.page.get_by_role("radio", name=text, exact=True).check()
        self.press("review" if asked is self.survey.questions[-1] else "next")

    def answer_all(self, *choices: int) -> None:
        """From the beginning to the receipt."""
        self.press("begin")
        for index, choice in enumerate(choices):
            self.answer(index, choice)
        self.sees("receipt_title")

    def receipt(self) -> list[str]:
        """Open it, and return the reports as they are shown."""
        self.page.get_by_text(self.words("show"), exact=True).click()
        shown = self.page.locator("details code")
        expect(shown.first).to_be_visible()
        return shown.all_text_contents()

    def kept(self) -> list[str]:
        """Names of what the browser keeps of this survey."""
        found: list[str] = self.page.evaluate(KEPT, f"survey.{self.survey.name}")
        return found

    def meanings(self) -> list[str]:
        return self.page.locator("details li").all_text_contents()


def body_of(request: Request) -> dict[str, Any]:
    """Return what was posted."""
    read: dict[str, Any] = json.loads(request.post_data or "")
    return read


def failing_once(route: Route, requests: list[Request]) -> None:
    """Let the first request fail on its way, and the others pass; note them all."""
    requests.append(route.request)
    if len(requests) == 1:
        route.abort("connectionreset")
    else:
        route.continue_()


def said(survey: Survey, index: int, report: str) -> list[str]:
    """Return the English texts of the answers that a report names, as its definition says."""
    asked = survey.questions[index]
    stated, response = definition(asked.metric), json.loads(report)["response"]
    by_value = {answer.value: answer.text["en"] for answer in asked.answers}
    names = [by_value[label] for label in stated["labels"]]
    if stated["mechanism"]["kind"] == "cell":
        return [names[response]]
    bits = int(response, 16)
    if stated["mechanism"]["cells"] == 1:
        return [names[bits]]
    return [name for place, name in enumerate(names) if bits >> place & 1]

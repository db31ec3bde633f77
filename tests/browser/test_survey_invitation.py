"""A survey by invitation in a real Chromium, before the real server: one link, one answer."""

from collections.abc import Callable

import pytest
from flask import Flask
from playwright.sync_api import Request, Route, expect

from aggregator.app import create_app
from tests.aggregator.conftest import World, world
from tests.aggregator.respondents import Hall
from tests.browser.checks import assert_sound
from tests.browser.respondents import Respondent, failing_once
from tests.browser.visits import Open

pytestmark = pytest.mark.slow
__all__ = ["world"]

Site = Callable[[Flask], str]
SENT = ["surveys/habits/admissions", "devices", "reports"]


@pytest.fixture
def hall(world: World) -> Hall:
    return Hall(world)


@pytest.fixture
def address(world: World, hall: Hall, site: Site) -> str:
    app = create_app(
        store=world.store,
        keys=world.keys,
        catalogue=world.catalogue,
        clock=lambda: world.now,
        surveys=[hall.survey],
    )
    return site(app)


def sent_by(somebody: Respondent) -> list[str]:
    return [request.url.rpartition("/v1/")[2] for request in somebody.posts]


def test_one_link_is_one_answer(address: str, hall: Hall, visit: Open) -> None:
    link = hall.link(address, hall.tokens[0])
    seen = visit(link)
    somebody = Respondent.at(seen, hall.survey)
    somebody.answer_all(0)
    receipt = somebody.receipt()
    assert not somebody.posts
    with seen.page.expect_response("**/v1/reports") as answered:
        somebody.press("send")
    assert answered.value.json()["reports"] == ["accepted"]
    somebody.sees("sent_title")
    assert sent_by(somebody) == SENT
    assert all(report in (somebody.posts[2].post_data or "") for report in receipt)
    assert hall.tokens[0] not in (somebody.posts[1].post_data or "")
    assert hall.tokens[0] not in str(somebody.posts[1].headers)
    assert somebody.kept() == ["sent"]
    assert_sound(seen)

    other = Respondent.at(visit(link), hall.survey)  # in a browser of somebody else
    other.answer_all(0)
    other.press("send")
    other.sees("waiting_title")
    expect(other.page.get_by_text(other.words("invitation_used"))).to_be_visible()
    assert sent_by(other) == SENT[:1]
    assert hall.world.store.invitations.figures("habits").used == 1


@pytest.mark.parametrize("lost", SENT)
def test_whatever_is_lost_on_the_way_the_invitation_is_not(
    address: str, hall: Hall, visit: Open, lost: str
) -> None:
    seen = visit(hall.link(address, hall.tokens[0]))
    somebody = Respondent.at(seen, hall.survey)
    tries: list[Request] = []

    def answer_lost(route: Route) -> None:
        """The server acts, and its answer does not come."""
        if not tries:
            route.fetch()
        failing_once(route, tries)

    seen.page.route(f"**/v1/{lost}", answer_lost)
    somebody.answer_all(1)
    somebody.press("send")
    somebody.sees("waiting_title")
    seen.page.reload()
    somebody.sees("sent_title")
    assert len(tries) == 2
    if lost != "devices":
        assert tries[0].post_data == tries[1].post_data
    assert hall.world.store.invitations.figures("habits").used == 1
    assert hall.world.folder.fold_once() == 1

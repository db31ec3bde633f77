"""A survey by invitation in a real Chromium, before the real server: one link, one answer."""

from collections.abc import Callable
from wsgiref.types import WSGIApplication

import pytest
from playwright.sync_api import Request, Route, expect

from aggregator.survey.admission import key_document
from aggregator.survey.blind_signatures import PrivateKey
from tests.aggregator.conftest import World, world
from tests.aggregator.respondents import Hall
from tests.browser.checks import assert_sound
from tests.browser.respondents import Respondent, body_of, failing_once
from tests.browser.serving import Gate, busy, forged
from tests.browser.visits import Open, Visit

pytestmark = pytest.mark.slow
__all__ = ["world"]

Site = Callable[[WSGIApplication], str]
KEY = "/v1/surveys/habits/key"
SENT = ["surveys/habits/admissions", "devices", "reports"]


@pytest.fixture
def hall(world: World) -> Hall:
    return Hall(world)


@pytest.fixture
def gate(world: World, hall: Hall) -> Gate:
    app = world.app_with(
        surveys=[hall.survey],
    )
    return Gate(app)


@pytest.fixture
def address(gate: Gate, site: Site) -> str:
    return site(gate)


def sent_by(somebody: Respondent) -> list[str]:
    return [request.url.rpartition("/v1/")[2] for request in somebody.posts]


def losing_one_answer(seen: Visit, path: str) -> list[Request]:
    """Lose the answer to the first request of a path, on which the server acts; note them all."""
    tries: list[Request] = []

    def answer_lost(route: Route) -> None:
        if not tries:
            route.fetch()
        failing_once(route, tries)

    seen.page.route(f"**/v1/{path}", answer_lost)
    return tries


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


def test_another_link_takes_over_and_shows_nothing_of_the_first(
    address: str, hall: Hall, visit: Open
) -> None:
    seen = visit(hall.link(address, hall.tokens[0]))
    somebody = Respondent.at(seen, hall.survey)
    tries = losing_one_answer(seen, SENT[0])
    somebody.answer_all(1)
    somebody.press("send")
    somebody.sees("waiting_title")
    seen.page.goto("about:blank")
    seen.page.goto(hall.link(address, hall.tokens[1]))
    somebody.sees("sent_title")
    first, second = (body_of(request) for request in tries)
    assert [first["invitation"], second["invitation"]] == hall.tokens[:2]
    assert first["blinded"] != second["blinded"]
    assert hall.world.store.invitations.figures("habits").used == 2
    assert hall.world.folder.fold_once() == 1


@pytest.mark.parametrize("lost", SENT)
def test_whatever_is_lost_on_the_way_the_invitation_is_not(
    address: str, hall: Hall, visit: Open, lost: str
) -> None:
    seen = visit(hall.link(address, hall.tokens[0]))
    somebody = Respondent.at(seen, hall.survey)
    tries = losing_one_answer(seen, lost)
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


def test_a_server_with_another_key_than_the_link_names_is_told_nothing(
    address: str, hall: Hall, gate: Gate, visit: Open
) -> None:
    """A key for one respondent would know its signature again."""
    own_key = key_document("habits", PrivateKey.fresh().public)
    # It may say of its digest what it likes.
    own_key["digest"] = hall.key.public.digest
    seen = visit(hall.link(address, hall.tokens[0]))
    somebody = Respondent.at(seen, hall.survey)
    somebody.answer_all(0)
    gate.next(KEY, forged(lambda told: told.update(own_key)))
    somebody.press("send")
    somebody.sees("waiting_title")
    expect(seen.page.get_by_text(somebody.words("invitation_other_key"))).to_be_visible()
    expect(seen.page.get_by_text(somebody.words("waiting_here"))).to_be_visible()
    assert not somebody.posts
    assert hall.world.store.invitations.figures("habits").used == 0
    somebody.press("retry")  # the invitation is as good as it was
    somebody.sees("sent_title")
    assert sent_by(somebody) == SENT


def test_a_server_that_is_busy_when_it_is_asked_for_its_key_is_not_distrusted(
    address: str, hall: Hall, gate: Gate, visit: Open
) -> None:
    seen = visit(hall.link(address, hall.tokens[0]))
    somebody = Respondent.at(seen, hall.survey)
    somebody.answer_all(0)
    gate.next(KEY, busy("503 Service Unavailable"))
    somebody.press("send")
    somebody.sees("waiting_title")
    expect(seen.page.get_by_text(somebody.words("server_busy"))).to_be_visible()
    somebody.press("retry")
    somebody.sees("sent_title")


def test_a_link_that_was_cut_short_is_no_invitation(address: str, hall: Hall, visit: Open) -> None:
    whole = hall.link(address, hall.tokens[0])
    for link in (whole[:-1], whole.partition("&")[0]):
        somebody = Respondent.at(visit(link), hall.survey)
        somebody.sees("stopped_title")
        expect(somebody.page.get_by_text(somebody.words("invitation_missing"))).to_be_visible()
        assert somebody.kept() == []

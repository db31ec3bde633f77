"""The surveys' pages say what came of a survey, and never more than may be published."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aggregator.closing import close_epoch
from aggregator.store import Store
from aggregator.survey.invitations import SurveyKeys
from client_sdk.survey import Survey
from estimator.dashboard.server import invitations_of
from estimator.surveys.results import Result, results
from tests.aggregator.conftest import NOW, make_world
from tests.estimator.dashboard.conftest import Desk
from tests.estimator.dashboard.reading import Element
from tests.estimator.surveys import (
    ILL,
    LATE,
    WHY,
    put,
    survey_of,
    tally_of,
)
from tests.surveys import changed

MINUS = "\N{MINUS SIGN}"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def survey() -> Survey:
    return survey_of(LATE, ILL, WHY)


@pytest.fixture
def show(desk: Desk, survey: Survey) -> Callable[..., Element]:
    """Read the survey's page."""
    desk.world.catalogue.register(survey.registry_text)

    def read(path: str = "/surveys/habits", **given: object) -> Element:
        return desk.page(path, **({"surveys": (survey,)} | given))

    return read


def _labelled(page: Element, name: str) -> Element:
    (found,) = [each for each in page.all("section") if each.given.get("aria-labelledby") == name]
    return found


def percent(share: float | None) -> str:
    assert share is not None
    return f"{100 * share:.2f} %".replace("-", MINUS)


def told(result: Result) -> list[list[str]]:
    return [
        [
            answer.text["en"],
            percent(entry.share),
            percent(entry.standard_error),
            " to ".join(map(percent, entry.interval or ())),
            percent(entry.consistent),
        ]
        for answer, entry in result.answers
    ]


def test_a_survey_that_nobody_has_answered_says_so(show: Callable[..., Element]) -> None:
    page = show()
    assert "No report has been seen yet" in page.text
    for name in ("late", "ill", "why"):
        section = _labelled(page, name)
        assert "No report yet. That does not mean that nobody has an answer." in section.text
        assert not section.all("table") and not section.all("img")
    (row,) = show("/surveys").one("table").rows[1:]
    assert row == [
        *("Habits at work habits", "open", "2026-12-31", "anybody with the link", "3", "3"),
        *("\N{EN DASH}", "nothing yet"),
    ]


def test_a_survey_that_was_ended_early_is_not_open(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    for each in survey.questions:
        (row,) = show("/surveys").one("table").rows[1:]
        assert row[1] == "open"
        close_epoch(desk.world.store, each.metric, 0)
    (row,) = show("/surveys").one("table").rows[1:]
    assert row[1] == "ended early"
    assert "Survey · habits · ended early" in show().text


def test_the_design_is_on_the_page_before_any_answer(show: Callable[..., Element]) -> None:
    page = show()
    late, why = (_labelled(page, name).figures for name in ("late", "why"))
    # e / (1 + e) = 0.731; of optimized unary encoding 1/2 and 1 / (1 + e) = 0.269.
    assert late["Odds"] == "of 100 people 73 send their own answer, and 27 the other one"
    assert why["Odds"] == "of 100 people 50 tick their own answer, and 27 any given other one"
    assert late["Of one answer"] == "epsilon 1"
    # 1000 (2p - 1)^2, since a share of one half comes out as one half.
    assert late["The price of protection"].startswith("1,000 answers say as much as 214 direct")
    facts = page.all("dl")[0].figures
    assert facts["Asked"] == "2026-11-01 to 2026-12-31, last day included (UTC)"
    assert facts["What it costs a respondent"] == "epsilon 3 for all 3 questions together"
    assert facts["Who may answer"] == "anybody who has the link"
    assert "Invitations" not in facts


def test_every_figure_is_that_of_the_release_in_the_order_of_the_page(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    shares = {"late": [0.9, 0.1], "ill": [0.5, 0.25, 0.05, 0.2], "why": [0.4, 0.3, 0.3, 0.0]}
    for each in survey.questions:
        put(desk.releases, each, tally_of(each, shares[each.name], 2000))
    page, found = show(), results(survey, desk.releases)
    for result in found:
        section = _labelled(page, result.question.name)
        assert section.one("table").rows[1:] == told(result)
        assert "Final: 2,000 people answered." in section.text
        assert "provisional" not in section.text
        hrefs = [link.given["href"] for link in section.all("a")]
        name, release = result.question.metric.name, result.release
        assert release is not None
        address = f"/v1/releases/{name}/once?fingerprint={release.fingerprint}"
        assert hrefs == [address, f"{address}&format=csv", f"/metrics/{name}"]
        assert desk.get(address).json["n"] == 2000
    assert [row[0] for row in _labelled(page, "late").one("table").rows[1:]] == ["Yes", "No"]
    ill = found[1].non_response
    assert ill is not None and abs((ill.share or 0) - 0.2) < 1e-2
    section = _labelled(page, "ill")
    assert f"Non-response: an estimated {percent(ill.share)} prefer not to answer" in section.text
    assert "Non-response" not in _labelled(page, "late").text
    (row,) = show("/surveys").one("table").rows[1:]
    assert row[-2:] == ["2,000", "final"]


def test_before_the_end_a_preview_is_shown_and_marked(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    late = survey.questions[0]
    put(desk.releases, late, tally_of(late, [0.7, 0.3], 80), taken_at=NOW - 300)
    page = show()
    section = _labelled(page, "late")
    assert section.given["class"] == "provisional"
    assert "So far, as of 2026-11-30 11:55 UTC: 80 reports." in section.text
    assert "Provisional, not signed, and it will change" in section.text
    assert "renewed after at least 50 more reports" in section.text
    assert section.one("caption").text == "So far, 80 reports"
    put(desk.releases, late, tally_of(late, [0.7, 0.3], 95))
    assert "Final: 95 people answered." in _labelled(show(), "late").text  # once there is one


@pytest.mark.parametrize("taken_at", [None, NOW - 300])
def test_below_min_reports_nothing_is_shown_not_even_how_many(
    show: Callable[..., Element], desk: Desk, survey: Survey, taken_at: float | None
) -> None:
    late = survey.questions[0]
    put(desk.releases, late, tally_of(late, [0.7, 0.3], 49), taken_at=taken_at)
    section = _labelled(show(invitations=lambda name: (200, 49)), "late")
    assert "fewer than 50 people have answered" in section.text
    assert "That is not a zero" in section.text
    assert not section.all("table") and not section.all("img")
    page = show(invitations=lambda name: (200, 49))
    assert "49" not in page.text.replace("1449", "")
    invited = page.all("dl")[0].figures["Invitations"]
    assert invited == "200 made, fewer than 50 of them used"
    (row,) = show("/surveys").one("table").rows[1:]
    assert row[-2:] == ["\N{EN DASH}", "withheld"]


def test_used_invitations_are_told_in_steps_of_min_reports(show: Callable[..., Element]) -> None:
    def told(used: int) -> str:
        page = show(invitations=lambda name: {"habits": (400, used)}.get(name))
        return page.all("dl")[0].figures["Invitations"]

    assert told(199) == told(150) == "400 made, at least 150 of them used (37.50 %)"
    assert told(200) == "400 made, at least 200 of them used (50.00 %)"
    assert "Invitations" not in show(invitations=lambda name: None).all("dl")[0].figures


@pytest.mark.parametrize(
    ("path", "current"), [("/surveys", "page"), ("/surveys/habits", "true"), ("/", None)]
)
def test_the_navigation_shows_that_one_is_among_the_surveys(
    show: Callable[..., Element], path: str, current: str | None
) -> None:
    links = {each.text: each.given.get("aria-current") for each in show(path).one("nav").all("a")}
    assert links["Surveys"] == current
    assert sum(each is not None for each in links.values()) == 1


def test_the_dashboard_asks_the_store_for_invitations_and_does_without(
    show: Callable[..., Element], desk: Desk
) -> None:
    closed = survey_of(LATE, name="closed", admission="invitation")
    store = desk.world.store
    tokens = [f"{number:032x}" for number in range(70)]
    SurveyKeys(store.invitations, desk.world.keys.pseudonym_key).open("closed", closed.expires)
    store.invitations.add("closed", tokens)
    for token in tokens[:60]:
        store.invitations.use("closed", token, token * 8)
    known = invitations_of(store, (closed,))
    assert known("closed") == (70, 60) and known("habits") is None

    def told(store: Store) -> str:
        given = {"surveys": (closed,), "invitations": invitations_of(store, (closed,))}
        return show("/surveys/closed", **given).all("dl")[0].figures["Invitations"]

    assert told(store) == "70 made, at least 50 of them used (71.43 %)"
    assert told(desk.away().store) == "not known while the store is away"


def test_an_impossible_share_stands_as_it_is_with_words_on_it(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    late, _, why = survey.questions
    low = tally_of(late, [1.0, 0.0], 1000)
    low.counts[0, 0] -= 20
    put(desk.releases, late, low)
    far = tally_of(why, [0.5, 0.5, 0.0, 0.0], 1000)
    far.counts[0, 2] -= 120
    put(desk.releases, why, far)
    page, found = show(), results(survey, desk.releases)
    section = _labelled(page, "late")
    yes, no = (entry for _, entry in found[0].answers)
    assert (yes.share or 0) < 0 < 1 < (no.share or 0)
    assert section.one("table").rows[1][1] == percent(yes.share)
    assert section.one("table").rows[1][4] == "0.00 %"
    marked = section.all("td", class_="number below")
    assert [each.text for each in marked] == [percent(yes.share), percent(no.share)]
    texts = [each.text for each in section.all("p", class_="finding")]
    assert f"“Yes” is estimated at {percent(yes.share)}, below zero." in texts[0]
    assert f"“No” is estimated at {percent(no.share)}, above 100 %." in texts[1]
    assert yes.interval and no.interval
    assert f"probably below {percent(yes.interval[1])}" in texts[0]
    assert f"probably above {percent(no.interval[0])}" in texts[1]
    assert texts[2].startswith("Of an interval that sticks out of 0 to 100 %")
    assert len(texts) == 3
    why_texts = " ".join(each.text for each in _labelled(page, "why").all("p", class_="finding"))
    assert "Even the interval of “C”" in why_texts and "made up" in why_texts
    picture = desk.plain_app(surveys=(survey,)).test_client().get("/surveys/habits/late.svg")
    assert MINUS in picture.text


def test_pictures_name_answers_as_respondents_read_them(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    ill = survey.questions[1]
    put(desk.releases, ill, tally_of(ill, [0.5, 0.2, 0.2, 0.1], 500))
    client = desk.plain_app(surveys=(survey,)).test_client()
    for query in ("", "?reports=500", "?width=narrow&reports=500&theme=dark"):
        answer = client.get(f"/surveys/habits/ill.svg{query}")
        assert answer.status_code == 200, answer.text
        texts = [each.text for each in ElementTree.fromstring(answer.text).iter() if each.text]
        places = [texts.index(name) for name in ("Never", "Once", "Often")]
        assert places == sorted(places)
    assert client.get("/surveys/habits/late.svg").status_code == 404  # nothing to draw
    assert client.get("/surveys/habits/none.svg").status_code == 404
    assert client.get("/surveys/nobody").status_code == 404
    assert client.get("/surveys/nobody/late.svg").status_code == 404
    assert client.get("/surveys/habits/ill.svg?width=wide").status_code == 400
    assert client.get("/surveys/habits?x=1").status_code == 400
    sources = [each.given["src"] for each in show().all("img")]
    assert sources == ["/surveys/habits/ill.svg?reports=500"]


def test_reports_of_another_version_of_a_question_are_not_mixed_in(
    show: Callable[..., Element], desk: Desk, survey: Survey
) -> None:
    dearer = survey_of(LATE | {"epsilon": 2.0}).questions[0]
    put(desk.releases, dearer, tally_of(dearer, [0.5, 0.5], 700))
    section = _labelled(show(), "late")
    assert "There are also reports of 1 other version of this question" in section.text
    assert "No report yet" in section.text and "700" not in section.text


def test_what_an_author_writes_is_text(desk: Desk) -> None:
    texts = {"en": HOSTILE, "ar": HOSTILE}
    asked = changed(LATE | {"text": texts}, "answers.yes", texts)
    hostile = survey_of(asked, title=texts)
    put(desk.releases, hostile.questions[0], tally_of(hostile.questions[0], [0.5, 0.5], 90))
    for path in ("/surveys", "/surveys/habits"):
        page = desk.page(path, surveys=(hostile,))
        assert not page.all("script") and HOSTILE in page.text


def test_every_page_is_there_where_only_surveys_are_asked(
    redis_url: str, tmp_path: Path, survey: Survey
) -> None:
    world = make_world(redis_url, tmp_path, survey.registry_text)
    (tmp_path / "releases").mkdir()
    alone = Desk(world, tmp_path / "releases")
    late = survey.questions[0]
    put(alone.releases, late, tally_of(late, [0.5, 0.5], 90))
    try:
        for path in ("/", "/privacy", "/operations", "/registry", "/surveys", "/surveys/habits"):
            assert alone.page(path, surveys=(survey,)).one("h1").text
        overview = alone.page("/", surveys=(survey,))
        assert "No app is asked anything here." in overview.text
        assert "1 survey" in overview.text
        assert "survey habits" in overview.text  # the project
        assert f"/metrics/{late.metric.name}" not in str(overview)
        assert late.metric.name in alone.page("/").text  # told of no survey, it hides none
        assert late.metric.name in alone.page("/privacy", surveys=(survey,)).text
    finally:
        world.store.close()


def test_beside_an_app_the_newest_survey_changes_none_of_its_pages(
    desk: Desk, survey: Survey
) -> None:
    before = [desk.page(path).text for path in ("/", "/privacy", "/registry")]
    desk.world.catalogue.register(survey.registry_text)
    after = [desk.page(path, surveys=(survey,)).text for path in ("/", "/privacy", "/registry")]
    assert after[0].startswith(before[0].split("What devices say")[0])
    assert "shop-app" in after[0] and "survey.habits" not in after[0]
    assert "survey.habits" not in after[2]
    assert desk.get("/v1/metrics").json["project"] == "shop-app"


def test_no_survey_is_no_error(desk: Desk) -> None:
    assert "No survey is asked here." in desk.page("/surveys").text

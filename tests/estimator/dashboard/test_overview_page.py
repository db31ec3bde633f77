"""The overview and the registry's page over a system with everything in it."""

import pytest

from aggregator.keyring.key_file import KeyFile
from client_sdk.registry import loads
from estimator.releases.files import read
from estimator.releases.release import POOLED
from tests.estimator.dashboard.conftest import Desk
from tests.estimator.dashboard.showcase import HOSTILE, PROJECT, REGISTRIES, THEME

METRICS = len(loads(REGISTRIES[1]).metrics)


def test_each_question_stands_with_what_its_latest_release_says(shop: Desk) -> None:
    rows = {row[0].split()[-1]: row[1:] for row in shop.page("/").one("table").rows[1:]}
    release = read(shop.releases / "theme" / f"2026-W47.{POOLED}.json")
    assert release.estimates is not None
    top = max(release.estimates.entries, key=lambda entry: entry.share or 0)
    assert top.interval is not None and top.share is not None
    assert rows["theme"] == [
        "2026-W47",
        f"{release.estimates.n:,}",
        str(top.value),
        f"{100 * top.share:.2f} %",
        f"{100 * top.interval[0]:.2f} % to {100 * top.interval[1]:.2f} %",
    ]
    assert list(rows) == [*loads(REGISTRIES[1]).metrics, "more"]


def test_withheld_and_not_released_are_words_and_never_numbers(shop: Desk) -> None:
    rows = {row[0].split()[-1]: row[1:] for row in shop.page("/").one("table").rows[1:]}
    assert rows["crashed"][0] == "2026-11-26" and rows["crashed"][1].startswith("Withheld: fewer")
    assert len(rows["beta"]) == 1 and rows["beta"][0].startswith("No release yet")


@pytest.mark.parametrize(
    ("name", "hit"),
    [
        ("theme/2026-W47.pooled", ["theme"]),
        ("smokes/once.0123456789abcdef", []),  # beside the one that there is
    ],
)
def test_a_file_that_is_no_release_takes_no_page_away(
    shop: Desk, name: str, hit: list[str]
) -> None:
    path = shop.releases / f"{name}.json"
    assert path.parent.is_dir()
    path.write_text("{}")
    rows = {row[0].split()[-1]: row[1:] for row in shop.page("/").one("table").rows[1:]}
    assert [each for each in rows if rows[each][0].startswith("cannot be read")] == hit
    assert rows["start_hour"][0] == "2026-W47" and len(rows) == METRICS + 1
    odd = shop.page("/operations").part("What looks odd").text
    assert path.name in (rows["theme"][0] if hit else odd)


def test_what_is_asked_no_more_stays_and_says_so(shop: Desk) -> None:
    last = shop.page("/").one("table").rows[-1]
    assert last[0] == "Was the old flag on? old_flag, asked no more"


def test_alarms_are_told_before_the_figures(shop: Desk) -> None:
    found = shop.page("/").part("Look before you use these").all("li")
    assert [each.one("a").text for each in found] == ["home_page"]
    assert "do not look like those of honest devices" in found[0].text


def test_a_release_that_failed_makes_the_system_not_publishing(shop: Desk) -> None:
    standing = shop.page("/").part("Not publishing")
    assert "theme 2026-W47 could not be published: no active signing key." in standing.text
    (shop.releases / "failures.json").unlink()
    assert "Reports are counted" in shop.page("/").part("Healthy").text


def test_without_its_store_the_overview_still_shows_what_was_published(shop: Desk) -> None:
    page = shop.page("/", source=shop.away())
    assert "The store cannot be reached" in page.part("Not publishing").text
    # old_flag has releases and is asked no more; beta is asked, but only the store knows.
    assert len(page.one("table").rows[1:]) == METRICS


@pytest.mark.parametrize("path", ["/", "/registry"])
def test_names_and_values_are_texts_wherever_they_stand(shop: Desk, path: str) -> None:
    answer = shop.plain_app().test_client().get(path).text
    assert "<script" not in answer and "onload=" not in answer.replace("&#34; onload=", "")
    assert "Is <b>this</b> &" in shop.page(path).text
    assert (HOSTILE in shop.page(path).text) == (path == "/")


def test_pages_load_nothing_from_elsewhere_and_run_no_script(shop: Desk) -> None:
    client = shop.plain_app().test_client()
    for path in ("/", "/operations", "/registry", "/login", "/nowhere"):
        answer = client.get(path, headers={"Accept": "text/html"}, follow_redirects=True)
        policy = answer.headers["Content-Security-Policy"]
        assert policy == (
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
            "frame-ancestors 'none'; base-uri 'none'"
        )
        page = type(shop.page("/")).read(answer.text)
        assert not page.all("script") and "style=" not in answer.text
        for link in (*page.all("link"), *page.all("img"), *page.all("source")):
            address = link.given.get("href") or link.given.get("src") or link.given["srcset"]
            assert address.startswith("/") and not address.startswith("//")
            with client.get(address) as found:
                assert found.status_code == 200


def test_an_empty_system_says_what_comes_next(desk: Desk) -> None:
    page = desk.page("/")
    assert all("No release yet" in row[1] for row in page.one("table").rows[1:])
    assert "The schedule has not passed" in page.part("Not publishing").text


# The registry


def test_the_registry_says_what_is_asked_at_what_cost_and_until_when(shop: Desk) -> None:
    page = shop.page("/registry")
    assert page.figures["Lifetime epsilon"] == "400, the most one device may ever spend"
    theme = page.part("Which theme is active? To decide what to polish; the UI team looks.")
    metric = shop.world.metric("theme")
    assert theme.figures == {
        "Owners": "theme@example.org",
        "Answers": "one of 4 values",
        "Each device reports": "each week",
        "Cost of a report": "epsilon 1",
        "Reserved of a life": f"epsilon {metric.share(metric.starts) / 1e6:g}",
        "Mechanism": "generalized_randomized_response",
        "Asked": "from 2026-06-01, until before 2027-06-01",
        "Published from": "100 reports on",
        "Version": metric.fingerprint,
    }
    answers = {
        article.one("h3").text: article.figures["Answers"] for article in page.all("article")
    }
    assert answers["Which gestures are used?"] == "at most 3 of 5 options"
    assert answers["For how many minutes was it used?"] == "a number, counted from 0 to 120"
    assert answers["How many seconds did it load?"] == (
        "a number, counted from 0 to 12, in 12 buckets"
    )
    assert answers["Which site is the start page?"] == "a text, looked for among 4 candidates"
    assert "keeps 2 versions" in page.text
    reserved = sum(m.share(m.starts) for m in shop.world.registry.metrics.values()) / 1e6
    assert page.figures["Not reserved by any metric"] == f"{400 - reserved:g}"


def test_both_bounds_of_what_is_remembered_are_told(shop: Desk) -> None:
    cost = shop.page("/registry").part("Which site is the start page?").figures["Cost of a report"]
    assert cost.startswith("epsilon 1; of all reports together 4 for each of 2 values")


def test_what_ends_soon_or_has_ended_is_marked(shop: Desk) -> None:
    assert "ends in 20 days" in shop.page("/registry").part("Do you smoke?").text
    shop.world.now += 60 * 86_400
    page = shop.page("/registry")
    assert "has ended" in page.part("Do you smoke?").text
    assert "has ended" in page.part("Was the old flag on?").text


def test_every_version_of_a_metric_is_listed(shop: Desk) -> None:
    newer = THEME.replace("epsilon = 1.0", "epsilon = 2.0")
    shop.world.catalogue.register(PROJECT + newer)
    versions = shop.page("/registry").all("article")[0].figures["Versions, oldest first"]
    assert len(versions.split(", ")) == 2
    assert versions.startswith(shop.world.metric("theme").fingerprint)


def test_the_registry_of_a_store_that_is_away_is_a_page_that_says_so(shop: Desk) -> None:
    client = shop.plain_app(source=shop.away()).test_client()
    answer = client.get("/registry", headers={"Accept": "text/html"})
    assert answer.status_code == 503 and answer.mimetype == "text/html"
    assert "cannot be reached" in answer.text and int(answer.headers["Retry-After"]) > 0
    told = client.get("/registry")
    assert told.mimetype == "application/problem+json" and told.status_code == 503


def test_old_keys_are_told(shop: Desk) -> None:
    (shop.releases / "failures.json").unlink()
    keys = KeyFile(shop.world.settings.keys_file).current()
    made = keys.signing_keys[0].created
    if made is None:  # a key file of a test tells no days
        assert "Healthy" in shop.page("/").text
    else:
        shop.world.now += 400 * 86_400
        assert "sottovoce keys rotate signing" in shop.page("/").text

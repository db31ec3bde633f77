"""Pages of means, quantiles and options say what their releases say, in their own units."""

from xml.etree import ElementTree

import pytest

from client_sdk.epochs import parse
from estimator.releases import previews
from estimator.releases.number import in_unit
from estimator.releases.previews import Preview
from estimator.releases.release import compose
from tests.estimator.dashboard.conftest import Desk
from tests.estimator.dashboard.test_metric_page import release_of, status
from tests.estimator.numbers import bucketed, minutes, of_mean, of_quantiles

NOW = 1_796_600_000.0


def test_the_page_of_a_mean_shows_it_and_no_share(shop: Desk) -> None:
    release = release_of(shop, "session_minutes", "2026-10")
    assert release.estimates is not None and release.estimates.mean is not None
    mean = release.estimates.mean
    page = shop.page("/metrics/session_minutes")
    value, error, low, high = (
        in_unit(each, mean.standard_error)
        for each in (mean.value, mean.standard_error, *mean.interval)
    )
    row = page.part("Mean").one("table").rows[1]
    assert row[:4] == ["mean", value, error, f"{low} to {high}"]
    assert f"The estimated mean is {value}, probably between {low} and {high}." in page.text
    assert not [each for each in page.all("h2") if each.text == "Shares"]
    past = page.part("Over time").one("table").rows
    assert past[0] == ["Epoch", "Reports", "mean", "Widest interval, % of range"]
    assert past[1][2] == value
    assert len(past) == 6
    facts = page.part("How sure is this").figures
    assert facts["Range"] == "0 to 120; what is outside counts at its end"
    assert "Sum of negative estimates" not in facts
    assert "For \N{PLUS-MINUS SIGN} 1 % of the range" in facts
    assert "counted at its ends" in page.part("What does this number mean").text


def test_the_overview_says_a_mean_in_its_unit(shop: Desk) -> None:
    release = release_of(shop, "session_minutes", "2026-10")
    assert release.estimates is not None and release.estimates.mean is not None
    mean = release.estimates.mean
    rows = {row[0].split()[-1]: row[1:] for row in shop.page("/").one("table").rows[1:]}
    found = rows["session_minutes"]
    assert found[2:4] == ["mean", in_unit(mean.value, mean.standard_error)]
    assert "%" not in found[4]


@pytest.mark.parametrize("width", ["", "&width=narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_of_a_mean_are_drawn_and_those_of_shares_are_not_there(
    shop: Desk, width: str, theme: str
) -> None:
    client = shop.plain_app().test_client()
    for name in ("number", "number-trend", "width"):
        answer = client.get(f"/metrics/session_minutes/{name}.svg?theme={theme}{width}")
        assert answer.status_code == 200
        assert ElementTree.fromstring(answer.data).tag.endswith("svg")
    for name in ("shares", "trend"):
        assert status(shop, f"/metrics/session_minutes/{name}.svg") == 404
    assert status(shop, "/metrics/theme/number.svg") == 404
    assert status(shop, "/metrics/theme/number-trend.svg") == 404


def test_every_picture_on_a_page_of_numbers_can_be_had(shop: Desk) -> None:
    for name in ("session_minutes", "load_seconds", "gestures"):
        pictures = shop.page(f"/metrics/{name}").all("img")
        assert len(pictures) >= 3
        for picture in pictures:
            assert status(shop, picture.given["src"]) == 200, picture.given["src"]


def test_options_say_that_they_do_not_add_up(shop: Desk) -> None:
    page = shop.page("/metrics/gestures")
    assert "do not add up to 100 %" in page.part("What does this number mean").text
    release = release_of(shop, "gestures", "2026-10")
    assert release.estimates is not None
    assert sum(entry.consistent or 0.0 for entry in release.estimates.entries) > 1.5


def test_quantiles_stand_before_the_shares_of_their_buckets(desk: Desk, metrics: dict) -> None:
    metric = bucketed(metrics)
    for week, median in (("2026-W48", 38.0), ("2026-W49", 41.0)):
        found = of_quantiles(metric, median)
        desk.put(compose(metric, "shop-app", parse("week", week), found, now=NOW))
    page = desk.page("/metrics/buckets")
    rows = page.part("Quantiles").one("table").rows
    assert rows == [
        ["Figure", "Estimate", "95% interval"],
        ["25 % are below", "14", "0 to 30"],
        ["median", "41", "30 to 60"],
        ["75 % are below", "71", "60 to 90"],
    ]
    assert len(page.part("Shares").one("table").rows) == 5
    past = page.part("Over time").one("table").rows
    assert [row[2] for row in past] == ["median", "41", "38"]
    assert past[0][-1] == "Widest interval, points"
    assert "spread evenly" in page.part("What does this number mean").text
    for picture in page.all("img"):
        assert status(desk, picture.given["src"]) == 200
    overview = {row[0].split()[-1]: row[1:] for row in desk.page("/").one("table").rows[1:]}
    assert overview["more"][2:] == ["median", "41", "30 to 60"]


def test_the_epoch_so_far_shows_its_mean_as_provisional(desk: Desk, metrics: dict) -> None:
    metric = minutes(metrics)
    desk.put(compose(metric, "shop-app", parse("week", "2026-W48"), of_mean(30.0), now=NOW))
    open_one = compose(metric, "shop-app", parse("week", "2026-W49"), of_mean(34.5), now=NOW)
    previews.put(Preview(open_one, NOW), desk.releases)
    page = desk.page("/metrics/minutes")
    part = page.part("This epoch so far: provisional")
    assert part.one("table").rows[1][:3] == ["mean", "34.50", "0.80"]
    (picture,) = part.all("img")
    assert picture.given["src"].startswith("/metrics/minutes/preview-number.svg")
    assert status(desk, picture.given["src"]) == 200
    assert status(desk, picture.given["src"].replace("preview-number", "preview")) == 404


def test_releases_of_two_ranges_tell_two_stories(desk: Desk, metrics: dict) -> None:
    metric = minutes(metrics)
    wider = metric._replace(edges=(metric.edges[0], 2 * metric.edges[1]), every=2)
    for week, each in (("2026-W48", wider), ("2026-W49", metric)):
        desk.put(compose(each, "shop-app", parse("week", week), of_mean(30.0), now=NOW))
    assert not [h for h in desk.page("/metrics/minutes").all("h2") if h.text == "Over time"]

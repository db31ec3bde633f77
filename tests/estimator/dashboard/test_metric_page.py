"""A metric's page says what its releases say, and nothing else."""

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from client_sdk.epochs import parse
from estimator.dashboard.pages.meaning import believed, odds, of_the_device
from estimator.estimates import Estimate
from estimator.releases import previews
from estimator.releases.across_epochs import change
from estimator.releases.charts import shown
from estimator.releases.files import read
from estimator.releases.previews import Preview
from estimator.releases.release import POOLED, Privacy, Release
from estimator.releases.width import n_needed
from tests.estimator.conftest import other_version
from tests.estimator.dashboard.conftest import Desk, released
from tests.estimator.dashboard.reading import Element
from tests.estimator.dashboard.showcase import HOSTILE

MINUS = "\N{MINUS SIGN}"


def release_of(desk: Desk, metric: str, epoch: str, fingerprint: str | None = None) -> Release:
    found = sorted((desk.releases / metric).glob(f"{epoch}.{fingerprint or '*'}.json"))
    return read(found[-1])


def percent(share: float) -> str:
    return f"{100 * share:.2f} %".replace("-", MINUS)


def status(desk: Desk, path: str) -> int:
    client = desk.plain_app().test_client()
    return int(client.get(path, headers={"Accept": "text/html"}).status_code)


def addresses(page: Element) -> list[str]:
    return [link.given["href"] for link in page.all("a")]


# Figures


@pytest.mark.parametrize(
    ("metric", "epoch"),
    [("start_hour", "2026-W47"), ("home_page", "2026-W47"), ("hostile.names", "2026-W30")],
)
def test_every_figure_is_that_of_the_release(shop: Desk, metric: str, epoch: str) -> None:
    release = release_of(shop, metric, epoch)
    estimates = release.estimates
    assert estimates is not None
    week = parse("week", epoch)
    before = release_of(shop, metric, f"2026-W{int(epoch[-2:]) - 1}")
    assert before.epoch == f"2026-W{int(epoch[-2:]) - 1}" and week
    moved = {
        entry.value: (
            f"{100 * entry.share:.2f} \N{PLUS-MINUS SIGN} "
            f"{50 * (entry.interval[1] - entry.interval[0]):.2f}{' *' if entry.significant else ''}"
        ).replace("-", MINUS)
        for entry in change(before, release).entries
    }
    wanted = {
        shown(entry.value) if entry.value is None else str(entry.value): [
            percent(entry.share or 0.0),
            percent(entry.standard_error or 0.0),
            " to ".join(percent(end) for end in entry.interval or ()),
            "yes" if entry.significant else "no",
            moved[entry.value],
        ]
        for entry in estimates.all_entries
    }
    page = shop.page(f"/metrics/{metric}?epoch={epoch}")
    table = page.part("Shares").one("table")
    assert {row[0]: row[1:] for row in table.rows[1:]} == wanted
    assert table.rows[0][-1] == f"Points since {before.epoch}"
    assert table.one("caption").text == f"{epoch}, {estimates.n:,} reports"
    top = max(estimates.entries, key=lambda entry: entry.share or 0)
    assert page.one("p", class_="lead").text == (
        f"{estimates.n:,} devices reported. The largest estimated share is "
        f"\N{LEFT DOUBLE QUOTATION MARK}{top.value}\N{RIGHT DOUBLE QUOTATION MARK}: "
        f"{percent(top.share or 0)}, probably between {percent(top.interval[0])} and "
        f"{percent(top.interval[1])}."
    )


def test_how_sure_it_is_and_how_many_reports_that_would_take(shop: Desk) -> None:
    release = release_of(shop, "start_hour", "2026-W47")
    estimates, spent = release.estimates, release.lifetime
    assert estimates is not None and spent is not None
    half, needed = estimates.half_width, n_needed(release)
    assert half is not None and needed == math.ceil(estimates.n * (half / 0.01) ** 2)
    figures = shop.page("/metrics/start_hour").part("How sure is this").figures
    assert figures["Reports"] == f"{estimates.n:,}"
    assert figures["Of how many devices"].startswith(f"{spent.devices:,} had ever reported")
    assert f"{estimates.n / spent.devices:.0%} of them" in figures["Of how many devices"]
    assert figures["Widest interval"] == f"\N{PLUS-MINUS SIGN} {100 * half:.2f} percentage points"
    assert f"{needed:,} reports are needed" in figures["For \N{PLUS-MINUS SIGN} 1 point"]
    assert f"{needed - estimates.n:,} more than" in figures["For \N{PLUS-MINUS SIGN} 1 point"]
    shift = 100 * (estimates.worst_shift or 0)
    assert f"{shift:.2f} percentage points more" in figures["If 1 % of reports are fakes"]
    assert figures["Sample"] == "every device is asked in every epoch"


def test_the_history_has_every_epoch_with_its_reports_and_names_its_gaps(shop: Desk) -> None:
    page = shop.page("/metrics/theme")
    part = page.part("Over time")
    rows = {row[0]: row[1:] for row in part.one("table").rows[1:]}
    assert list(rows)[:3] == ["2026-W47", "2026-W46", "2026-W45"]
    assert rows["2026-W43"] == ["withheld, which is not a zero"]
    assert rows["2026-W40"] == ["no release"]
    for epoch in ("2026-W47", "2026-W41", "2026-W24"):
        pooled = POOLED if epoch == "2026-W47" else None
        estimates = release_of(shop, "theme", epoch, pooled).estimates
        assert estimates is not None and rows[epoch][0] == f"{estimates.n:,}"
        values = part.one("table").rows[0][2:-1]
        by_value = {str(entry.value): entry.share for entry in estimates.entries}
        assert rows[epoch][1:-1] == [percent(by_value[value] or 0.0) for value in values]
        half = estimates.half_width
        assert rows[epoch][-1] == f"\N{PLUS-MINUS SIGN} {100 * (half or 0):.2f}"
    assert "Withheld, which is not a zero: 2026-W43." in part.text
    assert "No release: 2026-W40." in part.text


def test_no_number_stands_without_its_epoch_and_its_reports(shop: Desk) -> None:
    page = shop.page("/metrics/theme?epoch=2026-W46")
    n = release_of(shop, "theme", "2026-W46", POOLED).estimates
    assert n is not None
    for part in ("Shares", "How sure is this"):
        assert f"2026-W46, {n.n:,} reports" in page.part(part).text
    assert f"2026-W46 , {n.n:,} reports" in page.one("nav", class_="pager").text


# What there is to see


def test_neighbours_and_versions_are_linked_pooled_first(shop: Desk) -> None:
    page = shop.page("/metrics/theme?epoch=2026-W46")
    pager = page.one("nav", class_="pager")
    assert pager.one("a", rel="prev").text.endswith("2026-W45")
    assert pager.one("a", rel="next").text.startswith("2026-W47")
    new = shop.world.metric("theme").fingerprint
    assert "Versions: all versions, pooled ," in pager.text
    alone = next(a for a in addresses(pager) if new in a)
    page = shop.page(alone)
    estimates = release_of(shop, "theme", "2026-W46", new).estimates
    assert estimates is not None
    caption = page.part("Shares").one("caption").text
    assert caption == f"2026-W46, {estimates.n:,} reports"
    # Of this version alone, though the pooled release stands for the epoch elsewhere.
    rows = page.part("Over time").one("table").rows
    assert rows[1][1] == f"{estimates.n:,}"


def test_a_version_alone_asked_for_is_its_latest_release(shop: Desk) -> None:
    old = other_version(shop.world.metric("theme"), "2").fingerprint
    page = shop.page(f"/metrics/theme?fingerprint={old}")
    assert page.one("strong", **{"aria-current": "true"}).text == old
    assert len(page.part("Over time").one("table").rows) == 4  # W45, W46, W47


def test_other_questions_under_the_same_name_are_another_story(full: Desk) -> None:
    theme = full.world.metric("theme")
    edited = theme._replace(question="Which theme would you like?")
    full.put(replace(released(edited, "2026-W52"), fingerprint="0123456789abcdef"))
    page = full.page("/metrics/theme")
    assert page.one("h1").text == "Which theme would you like?"
    assert "Over time" not in page.headings() and "Points since" not in page.text


def test_withheld_is_no_zero_and_has_no_n(shop: Desk) -> None:
    page = shop.page("/metrics/crashed")
    told = page.part("Withheld").text
    assert "Fewer than 100 devices reported" in told and "That is not a zero" in told
    assert "2026-11-25" in told  # the last that was published
    assert "How sure is this" not in page.headings() and "Shares" not in page.headings()
    row = page.part("Over time").one("table").rows[1]
    assert row == ["2026-11-26", "withheld, which is not a zero"]
    assert "reports" not in page.one("nav", class_="pager").text
    assert status(shop, "/metrics/crashed/shares.svg") == 404
    assert status(shop, "/metrics/crashed/trend.svg") == 200


def test_negative_estimates_stay_and_say_why(shop: Desk) -> None:
    release = release_of(shop, "start_hour", "2026-W47")
    assert release.estimates is not None
    below = [entry for entry in release.estimates.entries if (entry.share or 0) < 0]
    assert len(below) == 3  # of the showcase
    page = shop.page("/metrics/start_hour")
    marked = page.part("Shares").all("td", class_="number below")
    assert [cell.text for cell in marked] == [percent(entry.share or 0) for entry in below]
    meaning = page.part("What does this number mean").text
    assert "3 estimates are below zero. No true share is" in meaning


def test_unlisted_strings_are_said_to_be_that(shop: Desk) -> None:
    assert shop.page("/metrics/home_page").part("Shares").one("table").rows[-1][0] == "(not listed)"


def test_alarms_come_before_the_figures(shop: Desk) -> None:
    headings = shop.page("/metrics/home_page").headings()
    assert headings.index("Look before you use this") < headings.index("Shares")
    assert "Look before you use this" not in shop.page("/metrics/theme").headings()


def test_an_epoch_that_was_closed_early_says_so(full: Desk) -> None:
    full.put(released(full.world.metric("theme"), "2026-W52", closed_early=True))
    pager = full.page("/metrics/theme").one("nav", class_="pager").text
    assert "closed early, so it covers the part before that" in pager


def test_what_is_asked_and_has_no_release_says_when_the_first_comes(shop: Desk) -> None:
    page = shop.page("/metrics/beta")
    assert page.one("h1").text == "Is the beta in use?"
    assert "The first comes on 2026-12-10" in page.part("No release yet").text
    assert page.all("table") == []
    assert status(shop, "/metrics/beta/shares.svg") == 404


def test_what_is_asked_no_more_keeps_its_page(shop: Desk) -> None:
    assert shop.page("/metrics/old_flag").one("h1").text == "Was the old flag on?"


def test_without_its_store_a_metric_with_releases_has_its_page(shop: Desk) -> None:
    page = shop.page("/metrics/theme", source=shop.away())
    assert "Shares" in page.headings()


def test_what_does_not_exist_is_a_page_that_says_so(shop: Desk) -> None:
    for path, wanted in {
        "/metrics/nothing": 404,
        "/metrics/Theme": 404,
        "/metrics/%2e%2e": 404,
        "/metrics/..%00": 404,
        "/metrics/theme?epoch=2026-W40": 404,
        "/metrics/theme?epoch=2026-W60": 404,
        "/metrics/theme?fingerprint=0123456789abcdef": 404,
        "/metrics/theme?epoch=last": 400,
        "/metrics/theme?epochs=0": 400,
        "/metrics/theme?epochs=366": 400,
        "/metrics/theme?epochs=1e2": 400,
        "/metrics/theme?fingerprint=../x": 400,
        "/metrics/theme?other=1": 400,
        "/metrics/theme?epoch=2026-W47&epoch=2026-W46": 400,
        "/metrics/theme/shares.svg?width=broad": 400,
        "/metrics/theme/shares.svg?theme=pink": 400,
        "/metrics/theme/preview.svg": 404,
        "/metrics/theme/preview.svg?epoch=2026-W49&fingerprint=pooled": 404,
        "/metrics/..%2f/preview.svg": 404,
        "/metrics/theme?epochs=365": 200,
    }.items():
        answer = shop.plain_app().test_client().get(path, headers={"Accept": "text/html"})
        assert answer.status_code == wanted, path
        assert answer.mimetype == "text/html"


def test_strangers_see_neither_page_nor_picture(shop: Desk) -> None:
    client = shop.plain_app(open_here=False).test_client()
    for path in ("", "/shares.svg", "/trend.svg", "/width.svg", "/preview.svg"):
        answer = client.get(f"/metrics/theme{path}")
        assert answer.status_code == 302 and answer.headers["Location"].startswith("/login")


def test_downloads_are_the_releases_of_the_api(shop: Desk) -> None:
    page = shop.page("/metrics/theme")
    found = addresses(page.part("Take it with you"))
    client = shop.plain_app().test_client()
    assert [client.get(address).status_code for address in found] == [200, 200]
    document = client.get(found[0]).json
    assert (document["epoch"], document["fingerprint"]) == ("2026-W47", POOLED)
    for kind in ("sig", "html"):
        path = shop.releases / "theme" / f"2026-W47.{POOLED}.{kind}"
        path.write_text("{}")
    found = addresses(shop.page("/metrics/theme").part("Take it with you"))
    assert [address.rpartition("=")[2] for address in found] == ["pooled", "csv", "sig", "html"]


# Meaning


def test_odds_are_those_of_bayes_and_bounds_are_rounded_up() -> None:
    assert believed(0.5, 1.0) == pytest.approx(math.e / (1 + math.e))  # 0.7311
    assert believed(0.01, 1.0) == pytest.approx(0.01 * math.e / (0.99 + 0.01 * math.e))  # 0.02672
    assert odds(1.0) == (
        "a suspicion of 1 in 2 becomes at most 74 in 100, and one of 1 in 100 becomes at most "
        "27 in 1,000"
    )
    assert "at most 9,997 in 10,000" in odds(8.0)
    assert odds(1e6) == "any suspicion may become near certainty"


def test_of_remembered_answers_both_bounds_are_told() -> None:
    told = " ".join(of_the_device(Privacy(1.0, 4.0, 2, 0.5), once=False))
    assert "factor of 2.72 (e to the power of epsilon, 1)" in told
    assert "factor of 2,981 (epsilon 8: 4 for each of 2 values)" in told
    assert "factor of 1.65 (epsilon 0.5), so 10 reports by up to 148" in told
    unbound = " ".join(of_the_device(Privacy(1.0, 4.0, 2, None), once=False))
    assert "changed is not protected at all" in unbound
    fresh = " ".join(of_the_device(Privacy(1.0), once=False))
    assert "each report moves the odds again" in fresh
    assert len(list(of_the_device(Privacy(1.0), once=True))) == 1


def test_the_page_says_what_the_number_means(shop: Desk) -> None:
    release = release_of(shop, "theme", "2026-W47", POOLED)
    part = shop.page("/metrics/theme").part("What does this number mean").text
    assert "holds the true share in 95 of 100 such cases" in part
    assert release.caveats[0] in part
    assert release.privacy.epsilon == 2.0 and "at most 89 in 100" in part  # e^2 / (1 + e^2) = 0.881
    cost = shop.page("/metrics/theme").part("What it cost in privacy").figures
    assert cost["Of one report"] == "epsilon 2"


# Previews


def test_the_open_epoch_is_shown_apart_and_as_provisional(shop: Desk) -> None:
    page = shop.page("/metrics/theme")
    part = page.part("This epoch so far: provisional")
    assert part.given["class"] == "provisional"
    (found,) = previews.shown(shop.releases, "theme")
    estimates = found.release.estimates
    assert estimates is not None and estimates.n == 240
    assert "2026-W49, as of 2026-11-30 11:55 UTC, 240 reports." in part.text
    assert "Not signed, and it will change" in part.text
    assert {row[0]: row[1] for row in part.one("table").rows[1:]} == {
        str(entry.value): percent(entry.share or 0) for entry in estimates.entries
    }
    (picture,) = part.all("img")
    client = shop.plain_app().test_client()
    drawn = client.get(picture.given["src"])
    assert drawn.status_code == 200 and percent(estimates.entries[0].share or 0) in drawn.text
    assert "2026-W49 so far, provisional, 240 reports" in drawn.text
    shares = client.get("/metrics/theme/shares.svg?epoch=2026-W46").text
    n = release_of(shop, "theme", "2026-W46", POOLED).estimates
    assert n is not None and f"2026-W46, {n.n:,} reports" in shares


def test_a_preview_below_the_least_number_says_only_that(shop: Desk) -> None:
    (found,) = previews.shown(shop.releases, "home_page")
    few = replace(
        found.release,
        status="WITHHELD",
        min_reports=100,
        estimates=None,
        plausibility=None,
        lifetime=None,
    )
    previews.put(previews.Preview(few, found.taken_at), shop.releases)
    part = shop.page("/metrics/home_page").part("This epoch so far: provisional")
    assert "Withheld so far: fewer than 100 reports. That is not a zero." in part.text
    assert part.all("table") == [] and part.all("img") == [] and "80" not in part.text


def test_older_epochs_and_released_ones_have_no_preview_beside_them(shop: Desk) -> None:
    assert "provisional" not in shop.page("/metrics/theme?epoch=2026-W46").text
    (found,) = previews.shown(shop.releases, "theme")
    shop.put(found.release)
    page = shop.page("/metrics/theme")
    assert page.one("nav", class_="pager").one("strong").text == "2026-W49"
    assert "provisional" not in page.text


def test_a_name_that_is_none_leads_out_of_no_folder(shop: Desk) -> None:
    place = next(previews.places(shop.releases))
    (shop.releases / ".previews" / place.name).write_bytes(place.read_bytes())
    epoch, fingerprint, _ = place.name.split(".")
    query = f"epoch={epoch}&fingerprint={fingerprint}"
    assert status(shop, f"/metrics/{place.parent.name}/preview.svg?{query}") == 200
    assert status(shop, f"/metrics/%2e%2e/preview.svg?{query}") == 404


def test_a_metric_without_a_release_shows_its_first_epoch_so_far(shop: Desk) -> None:
    (found,) = previews.shown(shop.releases, "theme")
    previews.put(Preview(replace(found.release, metric="beta"), 1.0), shop.releases)
    headings = shop.page("/metrics/beta").headings()
    assert headings.index("No release yet") < headings.index("This epoch so far: provisional")


def test_a_preview_that_cannot_be_read_takes_nothing_else_away(shop: Desk) -> None:
    for path in previews.places(shop.releases):
        path.write_text("{}")
    page = shop.page("/metrics/theme")
    assert "Shares" in page.headings() and "provisional" not in page.text


def test_the_read_api_never_shows_a_preview(shop: Desk) -> None:
    client = shop.plain_app().test_client()
    assert client.get("/v1/releases/theme/2026-W49").status_code == 404
    listed = client.get("/v1/releases?since=2026-11-23&limit=200").json["releases"]
    assert "2026-W49" not in {release["epoch"] for release in listed}


# Texts that are no markup


PICTURES = ("shares.svg", "trend.svg", "width.svg")


def test_hostile_names_are_texts_on_the_page_and_in_every_attribute(shop: Desk) -> None:
    client = shop.plain_app().test_client()
    text = client.get("/metrics/hostile.names").text
    page = shop.page("/metrics/hostile.names")
    assert page.one("h1").text == 'Is <b>this</b> & "that" <script>alert(1)</script> safe?'
    assert page.one("title").text.startswith("Is <b>this</b> &")
    assert HOSTILE in page.part("Shares").text
    assert page.all("script") == [] and page.all("b") == [] and "<script" not in text
    known = {"class", "href", "src", "srcset", "alt", "id", "lang", "charset", "name", "content"}
    known |= {"rel", "type", "media", "width", "height", "decoding", "scope", "colspan", "tabindex"}
    known |= {"role", "aria-label", "aria-labelledby", "aria-current", "data-label"}

    def check(element: Element) -> None:
        assert set(element.given) <= known, element.given
        for part in element.inside:
            if isinstance(part, Element):
                check(part)

    check(page)


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("query", ["", "?theme=dark", "?width=narrow", "?epoch=2026-W47"])
def test_pictures_are_inert_and_hold_names_as_texts(shop: Desk, picture: str, query: str) -> None:
    answer = shop.plain_app().test_client().get(f"/metrics/hostile.names/{picture}{query}")
    assert answer.status_code == 200 and answer.mimetype == "image/svg+xml"
    root = ElementTree.fromstring(answer.text)
    for element in root.iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "image", "a")
        assert not any(name.lower().startswith("on") for name in element.attrib)
    assert "sandbox" in answer.headers["Content-Security-Policy"] or (
        "default-src 'none'" in answer.headers["Content-Security-Policy"]
    )


def test_every_picture_of_the_page_can_be_had_in_each_size_and_colour(shop: Desk) -> None:
    page = shop.page("/metrics/theme")
    client = shop.plain_app().test_client()
    found = [image.given["src"] for image in page.all("img")]
    found += [source.given["srcset"] for source in page.all("source")]
    assert len(found) == 16  # four pictures, each for desk and phone, light and dark
    for address in found:
        assert client.get(address).status_code == 200, address
    assert all(image.given["alt"] for image in page.all("img"))
    assert "style=" not in client.get("/metrics/theme").text


def test_long_values_stand_whole_in_the_table_and_apart_in_the_picture(full: Desk) -> None:
    long = "https://example.org/" + "a" * 60
    release = released(full.world.metric("theme"), "2026-W52")
    assert release.estimates is not None
    entries = tuple(
        Estimate(long + end, 0.3, 0.01, 0.01, (0.28, 0.32), (0.27, 0.33), True) for end in "12"
    )
    full.put(replace(release, estimates=replace(release.estimates, entries=entries)))
    page = full.page("/metrics/theme")
    assert [row[0] for row in page.part("Shares").one("table").rows[1:]] == [long + "1", long + "2"]
    drawn = full.plain_app().test_client().get("/metrics/theme/shares.svg").text
    assert drawn.count("30.00 %") >= 2


def test_versions_of_one_epoch_that_cannot_be_pooled_are_each_shown(full: Desk) -> None:
    page = full.page("/metrics/theme?epoch=2026-W51")
    pager = page.one("nav", class_="pager")
    assert "pooled" not in pager.text and len([a for a in addresses(pager) if "W51" in a]) == 1


def test_what_is_asked_once_has_one_epoch_and_no_neighbours(full: Desk) -> None:
    page = full.page("/metrics/smokes")
    pager = page.one("nav", class_="pager")
    assert pager.text.startswith("Asked once (latest), 400 reports") and addresses(pager) == []
    assert "Over time" not in page.headings()


def test_a_pooled_trend_goes_on_with_the_version_before(shop: Desk) -> None:
    """The same question and values: what one version said before it had company goes on."""
    rows = shop.page("/metrics/theme").part("Over time").one("table").rows
    assert rows[-1][0] < "2026-W30"


def test_pooled_releases_name_no_sample_of_their_own(shop: Desk) -> None:
    sample = shop.page("/metrics/theme").part("How sure is this").figures["Sample"]
    assert sample == "as each version has it; shares are weighted by it"


def test_every_registered_metric_of_the_showcase_has_a_page(shop: Desk) -> None:
    for name in shop.world.registry.metrics:
        assert status(shop, f"/metrics/{name}") == 200

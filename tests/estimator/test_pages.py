"""Pages of releases: they load nothing, escape everything, and hide what is withheld."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from client_sdk.epochs import parse
from estimator import publish
from estimator.estimate import estimate
from estimator.estimates import Estimate
from estimator.ledger.lifetime import lifetime
from estimator.plausibility import Plausibility
from estimator.releases.charts import shares_chart, shown, trend_chart
from estimator.releases.drawn import draw
from estimator.releases.files import write
from estimator.releases.page import page
from estimator.releases.pages import page_of, write_index, write_pages
from estimator.releases.release import Release, compose

WEEK = parse("week", "2026-W49")
SHARES = [0.5, 0.3, 0.2, 0]
HOSTILE = ("<img src=x onerror=alert(1)>", '"</script><b>', "{{ 7 * 7 }}", "plain")


def released(metric, tally, week=WEEK) -> Release:
    return compose(metric, "shop-app", week, estimate(metric, tally), now=1_796_600_000.0)


def shown_page(release: Release, history: Sequence[Release]) -> str:
    return page(release, history, draw(release, history))


class Elements(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def series(metrics, tally_of) -> list[Release]:
    """Weeks 46 to 51 of theme; 48 is withheld and 50 is missing."""
    theme = metrics["theme"]
    sizes = {46: 9000, 47: 9000, 48: 96, 49: 9000, 51: 9000}
    return [
        released(theme, tally_of(theme, n, SHARES), parse("week", f"2026-W{week}"))
        for week, n in sizes.items()
    ]


def test_a_page_loads_nothing_and_runs_nothing(series) -> None:
    found = Elements(shown_page(series[-1], series))
    assert {"svg", "table", "h1"} <= found.tags
    assert not found.tags & {"script", "img", "link", "iframe", "object", "base", "form", "image"}
    names = {name for name, _ in found.attributes}
    assert "src" not in names and not any(name.startswith("on") for name in names)
    for name, value in found.attributes:
        assert "://" not in value or name.startswith("xmlns"), (name, value)
    policy = dict(found.attributes)["content"]
    assert "default-src 'none'" in " ".join(value for _, value in found.attributes), policy


def test_names_are_text_wherever_they_stand(metrics, tally_of) -> None:
    """Case C53, in question, table and charts."""
    theme = metrics["theme"]._replace(labels=HOSTILE, question=HOSTILE[0])
    history = [released(theme, tally_of(theme, 9000, SHARES), WEEK + i) for i in range(3)]
    found = Elements(shown_page(history[-1], history))
    assert not found.tags & {"img", "script", "b"}
    text = " ".join(found.texts)
    for name in HOSTILE:
        assert name in text


def test_a_withheld_page_shows_no_n_and_no_chart(series) -> None:
    text = shown_page(series[2], series[:3])
    found = Elements(text)
    assert "svg" not in found.tags and "table" not in found.tags
    assert "96" not in text.replace(series[2].fingerprint, "") and "Withheld" in text


def test_a_gap_is_no_zero_and_negative_stays_negative(series) -> None:
    """Case C57: no release, an estimate of 0, and one of -0.03, drawn in three ways."""

    def with_share(release: Release, share: float) -> Release:
        entry = Estimate("light", share, 0.01, 0.01, (share - 0.02, share + 0.02))
        return replace(release, estimates=replace(release.estimates, entries=(entry,)))

    history = [with_share(series[0], 0.0), with_share(series[1], -0.03), series[2], series[3]]
    rows = trend_chart([*history[:3], with_share(series[3], 0.1)])["data"]["values"]
    assert [row["share"] for row in rows] == [0.0, -0.03, None, 0.1]
    bars = [shares_chart(release)["data"]["values"][0] for release in history[:2]]
    assert [bar["text"] for bar in bars] == ["0.00 %", "\N{MINUS SIGN}3.00 %"]
    assert [bar["share"] for bar in bars] == [0.0, -0.03]
    assert shares_chart(series[2]) is None


def test_missing_epochs_break_the_trend(series) -> None:
    rows = trend_chart(series)["data"]["values"]
    light = [(row["day"], row["share"] is None) for row in rows if row["value"] == "light"]
    assert light == [
        ("2026-11-09", False),
        ("2026-11-16", False),
        ("2026-11-23", True),  # withheld
        ("2026-11-30", False),
        ("2026-12-07", True),  # missing
        ("2026-12-14", False),
    ]


def test_long_lists_are_cut_and_say_so(metrics, tally_of) -> None:
    theme = metrics["theme"]
    release = released(theme, tally_of(theme, 9000, SHARES))
    entries = tuple(Estimate(f"v{i}", 0.02, 0.01, 0.01, (0.0, 0.04)) for i in range(50))
    many = replace(release, estimates=replace(release.estimates, entries=entries))
    assert "30 smaller values are in the CSV and JSON files" in shown_page(many, [many])
    assert len(shares_chart(many)["data"]["values"]) == 20
    assert shown("x" * 100) == "x" * 39 + "\N{HORIZONTAL ELLIPSIS}"
    assert (shown(True), shown(False), shown(None)) == ("yes", "no", "(not listed)")


def test_long_values_that_begin_alike_stay_two_in_charts_and_tables(metrics, tally_of) -> None:
    long = "https://example.org/" + "a" * 40
    theme = metrics["theme"]._replace(labels=(long + "1", long + "2", "dark", long + "3"))
    history = [released(theme, tally_of(theme, 9000, SHARES), WEEK + i) for i in range(3)]
    cut = shown(long)
    named = {f"{cut}", f"{cut} (2)", f"{cut} (3)", "dark"}
    bars = shares_chart(history[-1])["data"]["values"]
    assert len(bars) == 4 and {bar["value"] for bar in bars} == named
    rows = trend_chart(history)["data"]["values"]
    assert len(rows) == 12 and {row["value"] for row in rows} == named
    assert f'<th scope="row">{cut} (2)</th>' in shown_page(history[-1], history)


def test_trends_are_of_the_largest_shares_in_the_order_of_their_values(metrics, tally_of) -> None:
    theme = metrics["theme"]
    release = released(theme, tally_of(theme, 9000, SHARES))
    shares = [0.0, 0.01, 0.0, 0.0, 0.0, 0.3, 0.2, 0.1, 0.15, 0.24]
    entries = tuple(
        Estimate(hour, share, 0.01, 0.01, (share, share)) for hour, share in enumerate(shares)
    )
    hours = replace(release, type="ordinal", estimates=replace(release.estimates, entries=entries))
    facets = trend_chart([hours, replace(hours, first_day="2026-12-07", last_day="2026-12-13")])
    assert facets["facet"]["sort"] == ["1", "5", "6", "7", "8", "9"]


def test_a_page_warns_of_reports_that_do_not_look_honest(series) -> None:
    spent = lifetime([1_000_000, 3_000_000], 24_000_000)
    odd = replace(series[-1], plausibility=Plausibility(9.0, 1e-12, 0.5), lifetime=spent)
    text = shown_page(odd, [odd])
    assert "do not look like those of honest devices" in text
    assert "2 devices have spent: median epsilon 2, highest 3; no device may pass 24" in text
    assert "do not look like" not in shown_page(series[-1], series)


def test_a_change_is_told_with_its_error(series) -> None:
    text = shown_page(series[3], series[:4])
    assert "points since" not in text  # the week before is withheld
    assert "points since 2026-W46" in shown_page(series[1], series[:2])
    assert "A change with * is significant" in shown_page(series[1], series[:2])
    assert " *</td>" not in shown_page(series[1], series[:2])


def test_pictures_lie_beside_the_document(series, tmp_path: Path) -> None:
    for release in series:
        write(release, tmp_path)
        write_pages(release, tmp_path)
    last = series[-1]
    path = page_of(tmp_path, last.metric, last.epoch, last.fingerprint)
    for name in ("shares", "trend"):
        svg = path.with_suffix(f".{name}.svg")
        assert ElementTree.parse(svg).getroot().tag.endswith("svg")
        assert path.with_suffix(f".{name}.png").read_bytes().startswith(b"\x89PNG")
    withheld = page_of(tmp_path, last.metric, "2026-W48", last.fingerprint)
    assert withheld.exists() and not withheld.with_suffix(".shares.svg").exists()
    write_index(tmp_path, "shop-app")
    links = [
        v for n, v in Elements((tmp_path / "index.html").read_text()).attributes if n == "href"
    ]
    assert len(links) == 5 and all((tmp_path / link).exists() for link in links)
    assert "2026-W51" in links[0]


def test_a_publisher_that_died_before_the_page_is_mended(
    metrics, tally_of, make_source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theme = metrics["theme"]
    source = make_source(theme)
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    after = 1_800_000_000.0

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_pages", dies)
        with pytest.raises(KeyboardInterrupt):
            publish.publish_due(source, tmp_path, after)
    (document,) = tmp_path.glob("theme/*.json")
    before = document.read_bytes()
    (outcome,) = publish.publish_due(source, tmp_path, after)
    assert outcome.status == "OK" and document.read_bytes() == before
    assert document.with_suffix(".html").exists() and (tmp_path / "index.html").exists()
    assert publish.publish_due(source, tmp_path, after) == []


def test_characters_that_no_picture_can_hold_are_drawn_as_unknown(metrics, tally_of) -> None:
    """The drawing library ends the process over them."""
    theme = metrics["theme"]._replace(labels=("a\b", "b\x7f\uffff", "\x1b[1m", "d\ud800"))
    history = [released(theme, tally_of(theme, 9000, SHARES), WEEK + i) for i in range(2)]
    text = shown_page(history[-1], history)
    assert "a\N{REPLACEMENT CHARACTER}" in text and "\b" not in text

"""Previews of open epochs: what they show, when they are renewed, and who never sees them."""

import json
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk.epochs import end_of, parse
from estimator.dashboard.shelf import Shelf
from estimator.estimate import estimate
from estimator.previews import MOST_SECONDS, renew
from estimator.publish import publish_due
from estimator.releases import previews
from estimator.releases.files import check_tables, releases
from estimator.releases.pages import write_index
from estimator.releases.release import POOLED, Release
from estimator.releases.signatures import faults
from estimator.schedule import previewed

WEEK = parse("week", "2026-W49")
MIDWEEK = end_of("week", WEEK) - 3 * 86_400
LATER = MIDWEEK + 600
CLOSED = end_of("week", WEEK) + 30 * 86_400
SHARES = [0.5, 0.3, 0.2, 0]


@pytest.fixture
def theme(metrics):
    return metrics["theme"]


@pytest.fixture
def source(make_source, theme):
    return make_source(theme)


def only(directory: Path, metric: str = "theme") -> Release:
    (found,) = previews.shown(directory, metric)
    return found.release


def test_a_preview_is_the_release_that_the_epoch_would_have_now(
    source, theme, tally_of, tmp_path
) -> None:
    tally = tally_of(theme, 1000, SHARES)
    source.add(theme, WEEK, tally)
    assert renew(source, tmp_path, MIDWEEK) == 1
    (found,) = previews.shown(tmp_path, "theme")
    assert found.taken_at == MIDWEEK
    assert found.release.epoch == "2026-W49" and found.release.status == "PUBLISHED"
    assert found.release.estimates == estimate(theme, tally)
    # The ledger is read for releases only: it is long.
    assert found.release.lifetime is None


def test_below_the_least_number_a_preview_tells_nothing_but_that(
    source, theme, tally_of, tmp_path
) -> None:
    source.add(theme, WEEK, tally_of(theme, theme.min_reports - 1, SHARES))
    assert renew(source, tmp_path, MIDWEEK) == 1
    release = only(tmp_path)
    assert release.status == "WITHHELD" and release.estimates is None
    (path,) = previews.places(tmp_path)
    document = json.loads(path.read_text())["release"]
    assert document["n"] is None and document["estimates"] is None
    source.add(theme, WEEK, tally_of(theme, 1, SHARES))
    assert renew(source, tmp_path, LATER) == 1
    assert only(tmp_path).estimates.n == theme.min_reports


def test_two_previews_differ_by_the_least_number_of_reports_or_not_at_all(
    source, theme, tally_of, tmp_path
) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    (path,) = previews.places(tmp_path)
    before = path.read_bytes()
    source.add(theme, WEEK, tally_of(theme, theme.min_reports - 1, SHARES))
    assert renew(source, tmp_path, LATER) == 0
    assert path.read_bytes() == before
    source.add(theme, WEEK, tally_of(theme, 1, SHARES))
    assert renew(source, tmp_path, LATER + 600) == 1
    (found,) = previews.shown(tmp_path, "theme")
    assert found.release.estimates.n == 1000 + theme.min_reports
    assert found.taken_at == LATER + 600


def test_of_two_schedules_one_at_a_time_decides_what_may_follow(
    source, theme, tally_of, tmp_path
) -> None:
    """Else each would compare with the preview before, and theirs might differ by few reports."""
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    source.add(theme, WEEK, tally_of(theme, 100, SHARES))
    others: list[Future[int]] = []
    works = source.tally

    def slow(metric, epoch):
        tally = works(metric, epoch)
        if not others:
            others.append(pool.submit(renew, source, tmp_path, LATER))
            source.add(theme, WEEK, tally_of(theme, 3, SHARES))
            wait(others, timeout=0.5)
        return tally

    source.tally = slow
    with ThreadPoolExecutor(1) as pool:
        assert renew(source, tmp_path, LATER) == 1
        assert others[0].result() == 0
    assert only(tmp_path).estimates.n == 1100


def test_fewer_reports_than_before_change_nothing(source, theme, tally_of, tmp_path) -> None:
    """A store that came back from a backup."""
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    source.kept[theme.name, theme.fingerprint, WEEK] = tally_of(theme, 400, SHARES)
    assert renew(source, tmp_path, LATER) == 0
    assert only(tmp_path).estimates.n == 1000


def test_nothing_is_closed_and_nothing_is_a_release(source, theme, tally_of, tmp_path) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    assert source.closed == []
    assert releases(tmp_path) == [] and list(check_tables(tmp_path)) == []
    assert list(faults(tmp_path, {})) == []
    shelf = Shelf(tmp_path)
    assert shelf.metrics() == [] and list(shelf.after(None)) == []
    write_index(tmp_path, "shop-app")
    assert "theme" not in (tmp_path / "index.html").read_text()


def test_a_metric_whose_name_ends_like_a_file_is_no_release_either(
    make_source, metrics, tally_of, tmp_path
) -> None:
    named = [
        metrics["theme"]._replace(name=f"theme.{kind}") for kind in ("json", "csv", "sig", "truth")
    ]
    source = make_source(*named)
    for metric in named:
        source.add(metric, WEEK, tally_of(metric, 1000, SHARES))
    assert renew(source, tmp_path, MIDWEEK) == 4
    assert releases(tmp_path) == [] and list(faults(tmp_path, {})) == []
    assert [path for path in tmp_path.glob("*/*") if path.name != "open"] == []


def test_what_was_released_since_has_no_preview(source, theme, tally_of, tmp_path) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    publish_due(source, tmp_path, CLOSED)
    assert len(list(previews.places(tmp_path))) == 1
    assert renew(source, tmp_path, CLOSED) == 0
    assert list(previews.places(tmp_path)) == []


def test_an_epoch_that_is_over_and_not_released_keeps_its_last_preview(
    source, theme, tally_of, tmp_path
) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    assert renew(source, tmp_path, CLOSED) == 0
    assert only(tmp_path).estimates.n == 1000


def test_a_preview_of_what_the_store_does_not_know_goes(source, theme, tally_of, tmp_path) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    source.kept.clear()
    renew(source, tmp_path, LATER)
    assert list(previews.places(tmp_path)) == []


def test_a_metric_that_fails_stops_no_other_and_keeps_what_it_showed(
    make_source, metrics, tally_of, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theme, home = metrics["theme"], metrics["home_page"]
    source = make_source(home, theme)
    day = parse("day", "2026-12-03")
    source.add(home, day, Tally(np.full(4, 100), np.full((4, 32), 50)))
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    for failing in ("epochs_with_reports", "tally"):
        source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
        before = only(tmp_path).estimates.n
        works = getattr(source, failing)

        def fails(metric, *more, works=works):
            if metric.name == "home_page":
                raise ValueError("a tally that cannot be")
            return works(metric, *more)

        with monkeypatch.context() as patch:
            patch.setattr(source, failing, fails)
            assert renew(source, tmp_path, LATER) == 1
        assert only(tmp_path).estimates.n == before + 1000
        assert only(tmp_path, "home_page").estimates.n == 400


def test_versions_are_shown_together_and_only_as_each_is_shown(
    make_source, theme, version_of, tally_of, tmp_path
) -> None:
    old = version_of(theme, "2")
    source = make_source(old, theme)
    source.add(old, WEEK, tally_of(old, 500, SHARES))
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    assert renew(source, tmp_path, MIDWEEK) == 3
    release = only(tmp_path)
    assert release.fingerprint == POOLED and release.estimates.n == 1500
    source.add(old, WEEK, tally_of(old, 20, SHARES))
    source.add(theme, WEEK, tally_of(theme, 300, SHARES))
    assert renew(source, tmp_path, LATER) == 2
    assert dict(only(tmp_path).channels.pooled_from) == {
        old.fingerprint: 500,
        theme.fingerprint: 1300,
    }


def test_a_preview_that_cannot_be_read_is_taken_anew(source, theme, tally_of, tmp_path) -> None:
    source.add(theme, WEEK, tally_of(theme, 1000, SHARES))
    renew(source, tmp_path, MIDWEEK)
    (path,) = previews.places(tmp_path)
    path.write_text("[]")
    assert renew(source, tmp_path, LATER) == 1
    assert only(tmp_path).estimates.n == 1000


def test_a_pass_ends_in_time_and_the_next_begins_where_it_ended(
    make_source, theme, tally_of, tmp_path
) -> None:
    named = [theme._replace(name=name) for name in ("a", "b", "c")]
    source = make_source(*named)
    for metric in named:
        source.add(metric, WEEK, tally_of(metric, 1000, SHARES))
    seconds = iter([0.0, 1.0, MOST_SECONDS, MOST_SECONDS + 1])
    assert renew(source, tmp_path, MIDWEEK, lambda: next(seconds)) == 2
    assert previews.shown(tmp_path, "c") == []
    seconds = iter([0.0, 1.0, MOST_SECONDS + 1])
    assert renew(source, tmp_path, LATER, lambda: next(seconds)) == 1
    assert only(tmp_path, "c").estimates.n == 1000


def test_a_store_that_is_away_costs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def away() -> None:
        raise ConnectionError("the store is away")

    previewed(away)
    (record,) = caplog.records
    assert record.getMessage() == "open epochs could not be previewed: the store is away"

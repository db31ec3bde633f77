"""Means, quantiles and options in releases: said in full wherever releases are read or drawn."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from aggregator.tally import Tally
from client_sdk.epochs import parse
from client_sdk.mechanisms import GeneralizedRandomizedResponse, SquareWave
from estimator.dashboard.pages.history import history
from estimator.dashboard.pages.meaning import of_the_figures
from estimator.drawing import svg_of
from estimator.errors import NotPublishable
from estimator.estimate import estimate
from estimator.inversion.distribution import matrix
from estimator.notices.digest import Digest, _released
from estimator.notices.digest_words import as_text
from estimator.pool import pool, poolable
from estimator.publish_figures import summary
from estimator.releases import rows, telling
from estimator.releases.across_epochs import average, change, smoothed
from estimator.releases.drawn import draw
from estimator.releases.files import check_tables, read, schema_text, write
from estimator.releases.number import in_unit
from estimator.releases.number_charts import number_chart, number_trend_chart
from estimator.releases.page import page
from estimator.releases.release import Channels, can_pool, compose, compose_pooled
from estimator.releases.table import COLUMNS, as_csv
from estimator.releases.width import half_width, n_needed, width_chart
from tests.estimator.numbers import LABELS, bucketed, minutes, of_mean, of_quantiles

NOW = 1_796_600_000.0


def released(metric, estimates, week="2026-W49"):
    return compose(metric, "shop-app", parse("week", week), estimates, now=NOW)


@pytest.fixture
def mean(metrics):
    return released(minutes(metrics), of_mean(31.4))


@pytest.fixture
def quantiles(metrics):
    metric = bucketed(metrics)
    return released(metric, of_quantiles(metric))


def test_what_was_written_about_numbers_is_read_back_and_keeps_to_the_schema(
    mean, quantiles, tmp_path
):
    validator = Draft202012Validator(json.loads(schema_text()))
    for release in (mean, quantiles):
        written, created = write(release, tmp_path)
        assert created
        assert written == release
        path = tmp_path / release.metric / f"2026-W49.{release.fingerprint}.json"
        validator.validate(json.loads(path.read_text()))
        assert read(path).text() == path.read_text()
    assert not list(check_tables(tmp_path))


def test_a_document_of_a_mean_has_no_entries_and_is_no_withheld_one(mean):
    document = mean.to_dict()
    assert document["estimates"] == []
    assert document["range"] == [0, 120]
    assert document["mean"]["value"] == 31.4
    assert document["mean"]["interval"] == pytest.approx([31.4 - 1.568, 31.4 + 1.568], abs=1e-3)
    assert "range" not in replace(mean, range=None).to_dict()


def test_a_table_of_numbers_says_which_figure_a_row_is(mean, quantiles):
    (row,) = csv.DictReader(io.StringIO(as_csv(mean)))
    assert (row["figure"], row["value"], row["share"]) == ("mean", "", "")
    told = mean.estimates.mean
    assert float(row["estimate"]) == told.value
    assert (float(row["low"]), float(row["high"])) == told.interval
    assert float(row["standard_error_reporters"]) == told.standard_error_reporters
    rows = list(csv.DictReader(io.StringIO(as_csv(quantiles))))
    assert [each["figure"] for each in rows] == ["share"] * 4 + ["quantile"] * 3
    assert [each["value"] for each in rows[:4]] == list(LABELS)
    assert [(each["part"], each["estimate"]) for each in rows[4:]] == [
        ("0.25", "14.5"),
        ("0.5", "41.0"),
        ("0.75", "71.0"),
    ]


def test_tables_without_numbers_are_as_they_always_were(metrics, tally_of):
    """They are cached for ever, and compared with documents of years ago."""
    from estimator.estimate import estimate

    theme = metrics["theme"]
    release = released(theme, estimate(theme, tally_of(theme, 500, [0.5, 0.3, 0.2, 0])))
    assert as_csv(release).splitlines()[0] == ",".join(COLUMNS)
    keys = {tuple(row) for row in release.estimates.rows()}
    assert len(keys) == 1
    assert "figure" not in keys.pop()


def test_rows_of_a_number_all_have_the_same_columns(quantiles, mean):
    rows = replace(quantiles.estimates, mean=mean.estimates.mean).rows()
    assert len({tuple(sorted(row)) for row in rows}) == 1
    assert "quantile 0.5" in repr(quantiles.estimates)
    assert "mean" in repr(mean.estimates)
    assert "share" not in repr(mean.estimates)


def test_caveats_say_what_figures_of_numbers_and_options_are_not(metrics, mean, quantiles):
    clamped = "Values outside the range were counted at its ends"
    assert any(clamped in each for each in mean.caveats)
    assert mean.caveats[0].startswith("The mean is of devices that recorded")
    assert not any("share is" in each for each in mean.caveats)
    assert any(clamped in each for each in quantiles.caveats)
    assert any("Inside a bucket nothing is known" in each for each in quantiles.caveats)
    options = metrics["theme"]._replace(type="multi_select", most=2)
    release = released(options, of_quantiles(bucketed(metrics)))
    assert any("do not add up to 100 %" in each for each in release.caveats)
    assert not any("outside the range" in each for each in release.caveats)
    theme = metrics["theme"]
    plain = released(theme, of_quantiles(bucketed(metrics)))
    assert not any("do not add up" in each for each in plain.caveats)


def test_smoothed_shares_are_called_biased_and_not_unbiased(metrics):
    class SquareWave(GeneralizedRandomizedResponse):
        name = "square_wave"

    metric = bucketed(metrics)
    smooth = _like(SquareWave, metric.mechanism)
    caveats = released(metric._replace(mechanism=smooth), of_quantiles(metric)).caveats
    assert any("smoothed, which is biased" in each for each in caveats)
    assert not any("unbiased" in each for each in caveats)


def test_smoothed_shares_promise_nothing_that_smoothing_breaks(metrics):
    mechanism = SquareWave.from_epsilon(4, 2)
    metric = metrics["theme"]._replace(type="ordinal", mechanism=mechanism)
    counts = np.rint(3000 * matrix(mechanism)[:, [1]].T).astype(np.int64)  # all hold the second
    found = estimate(metric, Tally(np.array([counts.sum()]), counts))
    release = released(metric, found)
    top = found.entries[1]
    assert top.share < 0.9 and top.interval[1] < 1  # the true one is 1, which is the point
    assert {entry.design_effect for entry in found.entries} == {None}
    assert n_needed(release) is None
    assert "Price of privacy" not in dict(telling.sureness(release, found))
    said = " ".join(of_the_figures(release, found))
    assert "holds the share as smoothed in 95 of 100" in said
    assert "true share" not in said and "urely above zero" not in said
    summary = telling.summary(release, found)
    assert "largest share as smoothed is" in summary and "probably" not in summary


def _like(kind, made):
    twin = object.__new__(kind)
    twin.__dict__.update(vars(made))
    return twin


def test_a_law_of_more_than_two_probabilities_is_not_published_as_two(metrics):
    class OwnLaw(GeneralizedRandomizedResponse):
        def channel(self, value, cohort):
            return super().channel(value, cohort)

    theme = metrics["theme"]
    own = theme._replace(mechanism=_like(OwnLaw, theme.mechanism))
    assert (Channels.of(own).p_true, Channels.of(own).p_false) == (None, None)
    assert Channels.of(theme).p_true == float(theme.mechanism.p_true)


def test_means_of_versions_are_pooled_by_the_devices_that_they_stand_for():
    parts = [of_mean(30.0, 0.8, 0.6, n=3000), of_mean(50.0, 2.0, 1.5, n=1000)]
    assert poolable(parts)
    found = pool(parts, [1.0, 0.25]).mean  # 3,000 and 4,000 devices
    assert found.value == pytest.approx((3 * 30 + 4 * 50) / 7)
    error = np.hypot(3 * 0.8, 4 * 2.0) / 7
    assert found.standard_error == pytest.approx(error)
    assert found.standard_error_reporters == pytest.approx(np.hypot(3 * 0.6, 4 * 1.5) / 7)
    assert found.interval[1] - found.value == pytest.approx(1.959964 * error, rel=1e-6)


def test_a_mean_is_not_pooled_with_shares_nor_over_two_ranges(metrics, mean, quantiles):
    assert not poolable([mean.estimates, quantiles.estimates])
    wider = replace(mean, fingerprint="0" * 16, range=(0.0, 240.0))
    assert not can_pool([mean, wider])
    assert can_pool([mean, replace(wider, range=mean.range)])


def test_a_pooled_release_leaves_quantiles_to_the_versions_and_says_so(metrics, quantiles):
    both = compose_pooled(bucketed(metrics), [quantiles, replace(quantiles, fingerprint="0" * 16)])
    assert both.estimates.quantiles == ()
    assert any("Quantiles are those of single versions" in each for each in both.caveats)
    assert both.range == (0, 120)


def test_pooled_options_stay_options(metrics):
    found = of_quantiles(bucketed(metrics))
    half = tuple(replace(entry, share=0.9) for entry in found.entries)
    options = replace(found, entries=half, quantiles=())
    assert [e.consistent for e in pool([options, options], [1, 1], adding_up=False).entries] == [
        0.9
    ] * 4
    assert sum(e.consistent for e in pool([options, options], [1, 1]).entries) == pytest.approx(1)


def test_means_of_epochs_are_combined_for_any_overlap(metrics):
    metric = minutes(metrics)
    before = released(metric, of_mean(30.0, 1.0, 0.6, n=3000), "2026-W48")
    after = released(metric, of_mean(33.0, 1.0, 0.6, n=1000), "2026-W49")
    moved = change(before, after).mean
    noise, sampling = np.hypot(0.6, 0.6), 2 * 0.8
    assert moved.value == pytest.approx(3.0)
    assert moved.standard_error_reporters == pytest.approx(noise)
    assert moved.standard_error == pytest.approx(np.hypot(noise, sampling))
    assert moved.significant is False
    far = released(metric, of_mean(34.5, 1.0, 0.6), "2026-W50")  # 2.5 standard errors
    assert change(before, far).mean.significant is True
    both = average([before, after])
    assert both.entries == ()
    assert both.mean.value == pytest.approx(30.75)
    assert both.mean.significant is None
    assert both.to_dict()["mean"]["interval"] == list(both.mean.interval)
    assert [point.mean.value for point in smoothed([before, after])] == pytest.approx([30.75] * 2)


def test_a_mean_beside_shares_makes_none_of_them_less_sure(metrics, quantiles, mean):
    both = replace(quantiles.estimates, mean=mean.estimates.mean)
    metric = bucketed(metrics)
    weeks = [released(metric, found, "2026-W48") for found in (quantiles.estimates, both)]
    after = [released(metric, found, "2026-W49") for found in (quantiles.estimates, both)]
    alone, beside = (change(*pair) for pair in zip(weeks, after, strict=True))
    assert beside.entries == alone.entries
    assert beside.mean is not None


def test_means_of_two_ranges_are_not_compared(metrics):
    metric = minutes(metrics)
    before = released(metric, of_mean(30.0), "2026-W48")
    after = replace(released(metric, of_mean(34.0)), range=(0.0, 60.0))
    with pytest.raises(NotPublishable, match="another range"):
        change(before, after)


def test_quantiles_are_not_combined_and_that_is_said(metrics, quantiles):
    before = released(bucketed(metrics), of_quantiles(bucketed(metrics)), "2026-W48")
    found = change(before, quantiles)
    assert found.mean is None
    assert len(found.entries) == 4
    assert found.method.endswith("quantiles cannot be combined")


def test_the_width_of_a_mean_is_a_part_of_its_range(mean, quantiles):
    half = 1.959963984540054 * 0.8
    assert half_width(mean) == pytest.approx(half / 120)
    assert n_needed(mean) == pytest.approx(5000 * (half / 1.2) ** 2, abs=1)
    assert half_width(quantiles) == quantiles.estimates.half_width
    assert summary([mean]).halfwidth == pytest.approx(half / 120)
    assert half_width(replace(mean, estimates=None)) is None


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (31.4159, 0.88, "31.42"),
        (31.4159, 8.8, "31.4"),
        (31415.9, 880.0, "31,416"),
        (-0.001, 0.9, "0.00"),
        (-3.21, 0.9, "\N{MINUS SIGN}3.21"),
        (1e-7, 2e-8, "0.000000100"),
        (12.0, 0.0, "12"),
    ],
)
def test_figures_have_as_many_decimals_as_their_error_tells(value, spread, text):
    assert in_unit(value, spread) == text


def test_words_name_the_mean_or_the_median(mean, quantiles):
    assert telling.summary(mean, mean.estimates) == (
        "5,000 devices reported. The estimated mean is 31.40, probably between 29.83 and 32.97."
    )
    assert "The estimated median is 41, probably between 30 and 60." in telling.summary(
        quantiles, quantiles.estimates
    )
    facts = dict(telling.sureness(mean, mean.estimates))
    assert facts["Widest interval"] == "\N{PLUS-MINUS SIGN} 1.6, which is 1.31 % of the range"
    assert facts["If 1 % of reports are fakes"] == "the mean may be off by up to 1.5 more"
    assert telling.influence(mean) == "1.5"
    assert telling.influence(quantiles).endswith(" points")
    assert telling.influence(replace(mean, estimates=None)) == "\N{EN DASH}"
    assert "Sum of negative estimates" not in facts
    assert facts["Range"] == "0 to 120; what is outside counts at its end"
    said = " ".join(of_the_figures(mean, mean.estimates))
    assert "The interval of a mean holds the true one in 95 of 100" in said
    assert "share" not in said


def test_a_table_of_a_mean_shows_its_change(metrics, mean):
    before = released(minutes(metrics), of_mean(20.0), "2026-W48")
    found = rows.table(mean, [], [before, mean])
    (row,) = found.numbers
    assert (found.rows, found.hidden, found.since) == ((), 0, "2026-W48")
    assert (row.name, row.value, row.error) == ("mean", "31.40", "0.80")
    assert row.interval == "29.83 to 32.97"
    assert row.change == "11.4 \N{PLUS-MINUS SIGN} 2.7 *"


def test_a_mean_is_drawn_on_its_range_and_over_time(metrics, mean):
    metric = minutes(metrics)
    chart = number_chart(mean)
    domain = chart["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert domain == [0, 120]
    back = [released(metric, of_mean(30.0), "2026-W47"), mean]  # W48 is missing
    rows = number_trend_chart(back)["data"]["values"]
    assert [row["value"] for row in rows] == [30.0, None, 31.4]
    drawn = draw(mean, back)
    assert drawn.shares is drawn.trend is None
    assert [name for name, _ in drawn.by_name()] == ["number", "number-trend"]
    assert "31.40" in drawn.number
    assert "% of the range" in svg_of(width_chart(back))
    assert number_trend_chart([mean]) is None


def test_an_epoch_between_two_gaps_keeps_its_point(metrics):
    metric = minutes(metrics)
    weeks = ("2026-W40", "2026-W42", "2026-W44")
    rows = number_trend_chart([released(metric, of_mean(30.0), week) for week in weeks])
    assert [row["alone"] for row in rows["data"]["values"]] == [True, False, True, False, True]


def test_quantiles_are_drawn_beside_shares_and_the_median_over_time(metrics, quantiles):
    metric = bucketed(metrics)
    before = released(metric, of_quantiles(metric, median=38.0), "2026-W48")
    rows = number_trend_chart([before, quantiles])["data"]["values"]
    assert [(row["value"], row["low"], row["high"]) for row in rows] == [
        (38.0, 30.0, 60.0),
        (41.0, 30.0, 60.0),
    ]
    drawn = draw(quantiles, [before, quantiles])
    assert None not in vars(drawn).values()


def test_pages_of_numbers_show_figures_and_no_empty_list_of_shares(metrics, mean, quantiles):
    text = page(mean, [mean], draw(mean, [mean]))
    assert "The estimated mean is 31.40" in text
    assert "Estimated shares." not in text
    assert "significant" not in text
    both = page(quantiles, [quantiles], draw(quantiles, [quantiles]))
    assert "median" in both
    assert "Estimated shares." in both


def test_the_history_of_a_mean_has_a_column_for_it(metrics, mean):
    before = released(minutes(metrics), of_mean(20.0), "2026-W48")
    found = history([before, mean])
    assert found.values == ("mean",)
    assert [epoch.shares for epoch in found.epochs] == [("31.40",), ("20.00",)]
    assert found.epochs[0].width == "\N{PLUS-MINUS SIGN} 1.31"


def test_a_digest_says_means_and_their_changes_and_is_read_back(metrics, mean):
    before = released(minutes(metrics), of_mean(20.0), "2026-W48")
    each = _released(mean, NOW, before, None)
    digest = Digest("shop-app", "2026-12-08", NOW - 86_400, NOW, (each,), (), ())
    assert Digest.from_dict(json.loads(json.dumps(digest.to_dict()))) == digest
    text = as_text(digest)
    assert "Mean: 31.40 (95% interval 29.83 to 32.97)." in text
    assert "The mean has changed since 2026-W48: +11.4 \N{PLUS-MINUS SIGN} 2.7." in text
    assert "noise could not explain" not in text


def test_digests_written_before_there_were_means_are_still_read(mean):
    digest = Digest("shop-app", "2026-12-08", 0.0, NOW, (_released(mean, NOW, None, None),), (), ())
    document = json.loads(json.dumps(digest.to_dict()))
    for name in ("number", "number_change"):
        del document["released"][0][name]
    (each,) = Digest.from_dict(document).released
    assert each.number is None

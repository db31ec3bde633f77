"""Numbers from metrics.toml to what people read: reported, counted, published, drawn, compared."""

import json
from datetime import date

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from aggregator.tally import Tally
from client_sdk.epochs import end_of, parse
from client_sdk.randomness import Coin
from client_sdk.registry import loads
from estimator.canary.monitor import survey
from estimator.dashboard.published import _asks_the_same
from estimator.due import due_at
from estimator.previews import renew
from estimator.publish import publish_epoch
from estimator.releases import previews
from estimator.releases.across_epochs import change
from estimator.releases.files import read, releases, schema_text
from estimator.releases.release import POOLED
from sottovoce.__main__ import main
from tests.registries import registry

WEEK = parse("week", "2026-W49")
MINUTES = """
[metrics.minutes]
question = "For how many minutes was it used?"
type = "number"
range = [0, 120]
missing = 0
mechanism = "one_bit_mean"
sensitivity = "product"
epsilon = 2.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-11-23
expires = 2027-02-01
"""
METRIC = loads(registry(MINUTES, lifetime=100)).metrics["minutes"]


def reported(metric, numbers) -> Tally:
    """The tally of devices that record these numbers, each with fresh randomness."""
    mechanism, coin = metric.mechanism, Coin()
    counts = np.zeros((1, mechanism.cells), np.int64)
    for number in numbers:
        value, _ = metric.encode(number)
        response = mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin)
        for cell in mechanism.support(response):
            counts[0, cell] += 1
    return Tally(np.array([len(numbers)]), counts)


@pytest.fixture
def published(make_source, tmp_path):
    """Two weeks of 4,000 devices; the second week they stay longer, and some beyond the range."""
    source = make_source(METRIC)
    chance = np.random.default_rng(8)
    truth = []
    for place, scale in enumerate((10.0, 40.0)):
        numbers = chance.gamma(2.0, scale, 4000)
        truth.append(float(np.clip(numbers, 0, 120).mean()))
        source.add(METRIC, WEEK + place, reported(METRIC, numbers.tolist()))
        due = due_at([METRIC], WEEK + place)
        (outcome,) = publish_epoch(
            source, tmp_path, due, "minutes", f"2026-W{49 + place}", early=False
        )
        assert outcome.status == "OK", outcome
    return tmp_path, truth


def test_a_mean_is_published_with_the_error_it_has(published):
    """Each of two within 5 of its standard errors: false in one of 800,000 runs."""
    directory, truth = published
    found = releases(directory)
    validator = Draft202012Validator(json.loads(schema_text()))
    for release, true in zip(found, truth, strict=True):
        mean = release.estimates.mean
        assert release.estimates.entries == ()
        assert abs(mean.value - true) < 5 * mean.standard_error
        assert (release.channels.p_true, release.channels.p_false) == (None, None)
        assert release.range == (0, 120)
        validator.validate(release.to_dict())
        text = (directory / "minutes" / f"{release.epoch}.{release.fingerprint}.html").read_text()
        assert "The estimated mean is" in text
    drawn = {path.name.partition(".")[2].partition(".")[2] for path in directory.glob("*/*.svg")}
    assert drawn == {"number.svg", "number-trend.svg"}
    assert change(*found).mean.significant
    (row,) = survey(directory, date(2026, 12, 20), 0.01)
    assert row.alarms == ()
    assert row.half_width == pytest.approx(
        (found[1].estimates.mean.interval[1] - found[1].estimates.mean.interval[0]) / 240
    )


def test_the_command_line_tells_means(published, capsys, tmp_path):
    directory, _ = published
    where = ["--releases", str(directory)]
    mean = releases(directory)[1].estimates.mean
    assert main(["releases", "minutes", "2026-W50", *where]) == 0
    shown = capsys.readouterr().out
    assert f"{mean.value:.6g}" in shown
    assert f"{mean.standard_error:.4g}" in shown
    assert "counted at its ends" in shown
    assert main(["releases", "minutes", *where, "--change", "2026-W49", "2026-W50"]) == 0
    shown = capsys.readouterr().out
    assert "mean" in shown and "yes" in shown
    assert main(["releases", "minutes", *where, "--smoothed"]) == 0
    assert capsys.readouterr().out.count("  mean  ") == 2
    assert main(["releases", *where, "--csv", "-"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.endswith("figure,part,estimate")
    assert all(",mean,," in row for row in rows)
    assert main(["monitor", *where]) == 0
    assert "No alarms" in capsys.readouterr().out


def test_tables_of_all_kinds_go_under_one_header(published, metrics, tally_of, capsys):
    from estimator.estimate import estimate
    from estimator.releases.files import write
    from estimator.releases.release import compose

    directory, _ = published
    theme = metrics["theme"]
    found = estimate(theme, tally_of(theme, 500, [0.5, 0.3, 0.2, 0]))
    write(compose(theme, "shop-app", WEEK, found, now=1.8e9), directory)
    assert main(["releases", "--releases", str(directory), "--csv", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()
    widths = {line.count(",") for line in lines if "HYPERLINK" not in line}
    assert len(lines) == 1 + 2 + 4
    assert len(widths) == 1


def test_check_explains_the_error_of_a_mean_as_a_part_of_its_range(tmp_path, capsys):
    path = tmp_path / "metrics.toml"
    path.write_text(registry(MINUTES, lifetime=100))
    main(["check", str(path), "--explain"])
    shown = capsys.readouterr().out
    (line,) = (line for line in shown.splitlines() if line.startswith("minutes"))
    error = METRIC.mechanism.rare_variance**0.5 / 100
    assert line.rstrip().endswith(f"{100 * error:.2f} % of range")


def test_a_mean_has_previews_and_versions_of_one_range_are_pooled(make_source, tmp_path):
    wider = loads(registry(MINUTES.replace("120", "240"), lifetime=100)).metrics["minutes"]
    finer = loads(registry(MINUTES.replace("2.0", "1.0"), lifetime=100)).metrics["minutes"]
    middle = end_of("week", WEEK) - 3 * 86_400
    for number, (other, pooled) in enumerate(((wider, False), (finer, True))):
        directory = tmp_path / str(number)
        directory.mkdir()
        source = make_source(METRIC, other)
        for each in (METRIC, other):
            source.add(each, WEEK, reported(each, [30.0] * 500))
        renew(source, directory, middle)
        shown = previews.shown(directory, "minutes")
        assert all(each.release.estimates.mean is not None for each in shown)
        assert [each.release.fingerprint == POOLED for each in shown] == (
            [True] if pooled else [False, False]
        )
        due = due_at([METRIC, other], WEEK)
        outcomes = publish_epoch(source, directory, due, "minutes", "2026-W49", early=False)
        assert {outcome.status for outcome in outcomes} == {"OK"}
        assert any(outcome.fingerprint == POOLED for outcome in outcomes) == pooled
        found = [read(outcome.path) for outcome in outcomes]
        assert _asks_the_same(*found[:2]) == pooled
    both = next(each for each in found if each.fingerprint == POOLED).estimates
    errors = [e.estimates.mean.standard_error for e in found if e.fingerprint != POOLED]
    assert both.mean.standard_error == pytest.approx(np.hypot(*errors) / 2)


@pytest.mark.parametrize("mechanism", ["piecewise", "discrete_laplace"])
def test_every_mechanism_of_numbers_is_published_alike(mechanism, make_source, tmp_path):
    """Within 5 standard errors: false in one of 1.7 million runs."""
    metric = loads(registry(MINUTES.replace("one_bit_mean", mechanism), lifetime=100)).metrics[
        "minutes"
    ]
    source = make_source(metric)
    source.add(metric, WEEK, reported(metric, [30.0, 90.0, 96.0] * 200))
    due = due_at([metric], WEEK)
    (outcome,) = publish_epoch(source, tmp_path, due, "minutes", "2026-W49", early=False)
    release = read(outcome.path)
    mean = release.estimates.mean
    assert abs(mean.value - 72) < 5 * mean.standard_error
    assert (release.channels.p_true, release.estimates.entries) == (None, ())
    (row,) = survey(tmp_path, date(2026, 12, 20), 0.01)
    assert row.alarms == ()


def test_a_smoothed_distribution_is_published_as_biased_and_nobody_is_called_present(
    make_source, tmp_path
):
    text = MINUTES.replace("one_bit_mean", "square_wave").replace("missing", "buckets = 8\nmissing")
    metric = loads(registry(text, lifetime=100)).metrics["minutes"]
    source = make_source(metric)
    source.add(metric, WEEK, reported(metric, [10.0, 40.0, 50.0, 100.0] * 250))
    due = due_at([metric], WEEK)
    (outcome,) = publish_epoch(source, tmp_path, due, "minutes", "2026-W49", early=False)
    release = read(outcome.path)
    assert any("smoothed, which is biased" in each for each in release.caveats)
    assert not any("unbiased" in each for each in release.caveats)
    assert {entry.significant for entry in release.estimates.entries} == {None}
    page = outcome.path.with_suffix(".html").read_text()
    assert page.count("<td>\N{EN DASH}</td>") == 8
    (row,) = survey(tmp_path, date(2026, 12, 20), 0.01)
    assert row.alarms == ()


def test_quantiles_are_published_near_the_truth(make_source, tmp_path):
    """Wrong about where the median may lie in less than one of a million runs."""
    text = MINUTES.replace("one_bit_mean", "hierarchical_histogram").replace(
        "missing", "buckets = 16\nmissing"
    )
    metric = loads(registry(text, lifetime=100)).metrics["minutes"]
    mechanism, coin = metric.mechanism, Coin()
    chance = np.random.default_rng(9)
    numbers = np.clip(chance.normal(60, 20, 3000), 0, 120)
    reports = np.zeros(mechanism.cohorts, np.int64)
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    for number in numbers.tolist():
        cohort = int(chance.integers(mechanism.cohorts))
        value, _ = metric.encode(number)
        response = mechanism.instantaneous(mechanism.permanent(value, cohort, coin), coin)
        reports[cohort] += 1
        counts[cohort, list(mechanism.support(response))] += 1
    source = make_source(metric)
    source.add(metric, WEEK, Tally(reports, counts))
    due = due_at([metric], WEEK)
    (outcome,) = publish_epoch(source, tmp_path, due, "minutes", "2026-W49", early=False)
    release = read(outcome.path)
    assert release.channels.p_true is None
    (median,) = (each for each in release.estimates.quantiles if each.part == 0.5)
    # A standard error of the median is less than 2; the ends are two of them and a bucket away.
    assert 45 <= median.value <= 75
    assert 30 <= median.interval[0] < median.interval[1] <= 90
    assert any("Inside a bucket nothing is known" in each for each in release.caveats)
    assert "The estimated median is" in outcome.path.with_suffix(".html").read_text()
    drawn = {path.name.split(".", 2)[2] for path in tmp_path.glob("*/*.svg")}
    assert drawn == {"shares.svg", "number.svg"}
    (row,) = survey(tmp_path, date(2026, 12, 20), 0.01)
    assert row.alarms == ()

"""Releases: what they say, what they withhold, and that nobody can change them."""

import csv
import io
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from aggregator.tally import Tally
from client_sdk.epochs import parse
from estimator.errors import DocumentError
from estimator.estimate import estimate
from estimator.ledger.lifetime import lifetime
from estimator.plausibility import Plausibility
from estimator.releases.files import path_of, read, releases, schema_text, write
from estimator.releases.release import compose, compose_pooled
from estimator.releases.table import COLUMNS, as_csv

WEEK = parse("week", "2026-W49")


def named(release):
    return release.metric, release.epoch, release.fingerprint


def released(metric, tally, epoch=WEEK):
    return compose(metric, "shop-app", epoch, estimate(metric, tally), now=1_796_600_000.0)


def test_a_release_says_what_was_asked_and_what_it_cost(metrics, tally_of):
    theme = metrics["theme"]
    document = released(theme, tally_of(theme, 5000, [0.5, 0.3, 0.2, 0])).to_dict()
    assert document["question"] == "Which theme is active?"
    assert (document["project"], document["metric"]) == ("shop-app", "theme")
    assert (document["epoch"], document["first_day"], document["last_day"]) == (
        "2026-W49",
        "2026-11-30",
        "2026-12-06",
    )
    assert document["fingerprint"] == theme.fingerprint
    assert (document["status"], document["n"], document["min_reports"]) == ("PUBLISHED", 5000, 100)
    assert document["mechanism"] == "generalized_randomized_response"
    assert document["p_true"] == float(theme.mechanism.p_true)
    assert document["privacy"] == {"epsilon_per_report": float(theme.mechanism.epsilon)}
    assert document["level"] == 0.95
    assert len(document["estimates"]) == 4
    assert any("biased" in caveat for caveat in document["caveats"])
    assert document["code_version"]


def test_a_memoized_metric_states_both_bounds(metrics):
    home = metrics["home_page"]
    tally = Tally(np.full(4, 100), np.full((4, 32), 50))
    privacy = released(home, tally, parse("day", "2026-12-01")).to_dict()["privacy"]
    assert privacy["epsilon_permanent"] == pytest.approx(8)
    assert privacy["epsilon_same_changes"] == pytest.approx(16)
    assert "T x epsilon_instantaneous" in privacy["bounds"]


@pytest.mark.parametrize(("n", "status"), [(0, "WITHHELD"), (99, "WITHHELD"), (100, "PUBLISHED")])
def test_the_threshold_is_on_the_exact_number_of_reports(metrics, tally_of, n, status):
    """Case C55: 96 would round to 100."""
    theme = metrics["theme"]
    release = released(theme, tally_of(theme, n, [0.5, 0.3, 0.2, 0]))
    assert release.status == status


def test_a_withheld_release_shows_no_estimate_no_count_and_no_n(metrics, tally_of, tmp_path):
    theme, tally = metrics["theme"], tally_of(metrics["theme"], 96, [0.5, 0.3, 0.2, 0])
    seen = Plausibility(None, None, 0.5), lifetime([96], 24_000_000)
    release, _ = write(
        compose(theme, "shop-app", WEEK, estimate(theme, tally), *seen, now=1_796_600_000.0),
        tmp_path,
    )
    document = release.to_dict()
    assert document["n"] is None
    assert document["estimates"] is None
    for path in tmp_path.rglob("*.*"):
        assert "96" not in path.read_text().replace(theme.fingerprint, "")
    rows = list(csv.DictReader(io.StringIO(as_csv(release))))
    assert len(rows) == 1
    assert (rows[0]["status"], rows[0]["n"], rows[0]["share"]) == ("WITHHELD", "", "")


def test_a_second_publication_gives_back_the_first_byte_for_byte(metrics, tally_of, tmp_path):
    """Case C42: five late reports and a second run change nothing."""
    theme = metrics["theme"]
    tally = tally_of(theme, 1000, [0.5, 0.3, 0.2, 0])
    first, created = write(released(theme, tally), tmp_path)
    path = path_of(tmp_path, "theme", "2026-W49", theme.fingerprint)
    before = {p: p.read_bytes() for p in (path, path.with_suffix(".csv"))}
    late = tally + tally_of(theme, 5, [1, 0, 0, 0])
    second, created_again = write(released(theme, late), tmp_path)
    assert (created, created_again) == (True, False)
    assert second == first
    assert second.estimates.n == 1000
    assert {p: p.read_bytes() for p in before} == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_of_eight_publishers_at_once_one_writes_and_all_return_its_release(
    metrics, tally_of, tmp_path
):
    theme = metrics["theme"]
    made = [released(theme, tally_of(theme, 1000 + i, [0.5, 0.3, 0.2, 0])) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda release: write(release, tmp_path), made))
    assert sum(created for _, created in results) == 1
    assert len({release.text() for release, _ in results}) == 1
    assert sorted(p.suffix for p in (tmp_path / "theme").iterdir()) == [".csv", ".json"]


def test_a_publisher_that_died_between_the_files_is_mended(metrics, tally_of, tmp_path):
    theme = metrics["theme"]
    release, _ = write(released(theme, tally_of(theme, 1000, [0.5, 0.3, 0.2, 0])), tmp_path)
    table = path_of(tmp_path, "theme", "2026-W49", theme.fingerprint).with_suffix(".csv")
    before = table.read_bytes()
    table.unlink()
    write(release, tmp_path)
    assert table.read_bytes() == before


def test_releases_are_read_back_as_they_were_written(metrics, tally_of, tmp_path):
    theme, home = metrics["theme"], metrics["home_page"]
    written = [
        released(home, Tally(np.full(4, 100), np.full((4, 32), 50)), parse("day", "2026-12-01")),
        released(theme, tally_of(theme, 1000, [0.5, 0.3, 0.2, 0])),
        released(theme, tally_of(theme, 10, [0.5, 0.3, 0.2, 0]), WEEK + 1),
    ]
    spent, odd = lifetime([1_000_000, 2_000_000], 24_000_000), Plausibility(7.0, 1e-9, 0.5)
    written[0] = replace(written[0], lifetime=spent, plausibility=odd)
    for release in reversed(written):
        write(release, tmp_path)
    assert releases(tmp_path) == written
    document = json.loads(path_of(tmp_path, *named(written[0])).read_text())
    assert document["plausibility"]["alarm"] is True
    assert document["lifetime_epsilon"]["highest"] == 2
    assert releases(tmp_path / "nothing here") == []


def test_every_release_follows_the_published_schema(metrics, tally_of, version_of):
    theme, home, smokes = metrics["theme"], metrics["home_page"], metrics["smokes"]
    bits = Tally(np.full(4, 100), np.full((4, 32), 50))
    shares = [0.5, 0.3, 0.2, 0]
    parts = [released(theme, tally_of(theme, 1000, shares))]
    parts.append(released(version_of(theme, "2"), tally_of(version_of(theme, "2"), 500, shares)))
    seen = Plausibility(None, None, 0.5), lifetime([96], 24_000_000)
    documents = [
        *parts,
        compose_pooled(theme, parts),
        released(theme, tally_of(theme, 10, shares)),
        compose(
            home,
            "shop-app",
            parse("day", "2026-12-01"),
            estimate(home, bits),
            *seen,
            now=1_796_600_000.0,
        ),
        released(home._replace(candidates=()), bits, parse("day", "2026-12-01")),
        released(smokes, tally_of(smokes, 400, [0.7, 0.3]), 0),
    ]
    schema = json.loads(schema_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for release in documents:
        validator.validate(json.loads(release.text()))
    leaky = documents[3].to_dict() | {"n": 10}
    assert not validator.is_valid(leaky)
    assert not validator.is_valid(documents[0].to_dict() | {"extra": 1})


def test_a_spreadsheet_takes_no_text_for_a_formula_and_numbers_stay_numbers(metrics, tally_of):
    labels = ("=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "plain")
    theme = metrics["theme"]._replace(labels=labels)
    from client_sdk.mechanisms import build

    wide = build("generalized_randomized_response", domain=6, epsilon=1)
    theme = theme._replace(mechanism=wide)
    counts = np.array([[1000, 0, 0, 0, 0, 0]])
    rows = list(
        csv.DictReader(io.StringIO(as_csv(released(theme, Tally(np.array([1000]), counts)))))
    )
    assert tuple(rows[0]) == COLUMNS
    assert [row["value"] for row in rows] == [
        "'=HYPERLINK(1)",
        "'+1",
        "'-1",
        "'@x",
        "'\tx",
        "plain",
    ]
    assert float(rows[1]["share"]) < 0
    assert rows[0]["significant"] == "true"


def test_a_foreign_file_among_the_releases_is_named(tmp_path):
    (tmp_path / "theme").mkdir()
    path = tmp_path / "theme" / "2026-W49.x.json"
    for text in ("{", "[]", "{}", json.dumps({"schema": 2})):
        path.write_text(text)
        with pytest.raises(DocumentError, match=r"2026-W49\.x\.json"):
            read(path)


def test_a_once_metric_lasts_from_its_start_to_its_expiry(metrics, tally_of):
    smokes = metrics["smokes"]
    release = released(smokes, tally_of(smokes, 1000, [0.9, 0.1]), 0)
    assert (release.epoch, release.first_day, release.last_day) == (
        "once",
        "2026-11-01",
        "2026-11-30",
    )

"""From metric and tally to entries: every type, no reports, and cases that others got wrong."""

import json

import numpy as np
import pytest
from scipy import stats

import estimator
from aggregator.tally import Tally
from client_sdk.mechanisms import GeneralizedRandomizedResponse, RandomizedResponse, Rappor
from estimator.errors import DecodeError
from estimator.estimate import estimate
from estimator.pool import pool, poolable


def test_entries_follow_the_labels_and_carry_all_fields(metrics, tally_of):
    theme = metrics["theme"]
    found = estimate(theme, tally_of(theme, 10_000, [0.5, 0.3, 0.2, 0.0]), 0.9)
    assert [entry.value for entry in found.entries] == list(theme.labels)
    assert [entry.share for entry in found.entries] == pytest.approx([0.5, 0.3, 0.2, 0], abs=2e-3)
    assert [entry.significant for entry in found.entries] == [True, True, True, False]
    assert sum(entry.consistent for entry in found.entries) == pytest.approx(1)
    for entry in found.entries:
        assert entry.simultaneous_interval[0] < entry.interval[0] < entry.share
        assert entry.share < entry.interval[1] < entry.simultaneous_interval[1]
        assert entry.standard_error_reporters <= entry.standard_error
    assert (found.n, found.level) == (10_000, 0.9)
    assert found.epsilon == pytest.approx(1)


def test_the_document_has_the_names_of_the_design(metrics, tally_of):
    theme = metrics["theme"]
    document = estimate(theme, tally_of(theme, 1000, [0.5, 0.3, 0.2, 0])).to_dict()
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert {"n", "epsilon", "level", "estimates"} <= set(document)
    assert set(document["estimates"][0]) == {
        "value",
        "share",
        "standard_error",
        "standard_error_reporters",
        "interval",
        "simultaneous_interval",
        "significant",
        "consistent",
        "signal_to_noise",
        "design_effect",
    }


def test_a_boolean_has_an_entry_for_no_and_for_yes(metrics):
    """Case C01: 230 of 1000 yes through two coins; raw below zero, shown as zero."""
    smokes = metrics["smokes"]._replace(
        mechanism=RandomizedResponse.from_probabilities("0.75", "0.25")
    )
    no, yes = estimate(smokes, Tally(np.array([1000]), np.array([[230]]))).entries
    assert (no.value, yes.value) == (False, True)
    assert (no.share, yes.share) == pytest.approx((1.04, -0.04))
    assert yes.standard_error == pytest.approx(0.0266158, abs=5e-8)
    assert no.interval == pytest.approx((1 - yes.interval[1], 1 - yes.interval[0]))
    assert yes.simultaneous_interval == yes.interval
    assert (no.significant, yes.significant) == (True, False)
    assert (no.consistent, yes.consistent) == pytest.approx((1, 0))
    assert no.standard_error_reporters == pytest.approx(yes.standard_error_reporters)


def test_a_design_with_p_true_below_p_false_gives_ordered_intervals(metrics):
    """Case C11: Warner's statement on one die face, 750 of 1000 say yes."""
    cards = RandomizedResponse.from_probabilities("1/6", "5/6")
    smokes = metrics["smokes"]._replace(mechanism=cards)
    no, yes = estimate(smokes, Tally(np.array([1000]), np.array([[750]]))).entries
    assert yes.share == pytest.approx(0.125)
    assert yes.standard_error == pytest.approx(0.0205396, abs=5e-8)
    assert no.interval[0] < no.share < no.interval[1]
    assert yes.interval[0] < yes.share < yes.interval[1]
    assert yes.significant and no.significant


def test_no_is_one_minus_yes_in_a_design_that_treats_them_differently(metrics):
    """P(yes|yes) = 0.8, P(yes|no) = 0.3: "no" has the probabilities 0.7 and 0.2."""
    lopsided = RandomizedResponse.from_probabilities("0.8", "0.3")
    smokes = metrics["smokes"]._replace(mechanism=lopsided)
    no, yes = estimate(smokes, Tally(np.array([1000]), np.array([[700]]))).entries
    assert (no.share, yes.share) == pytest.approx((0.2, 0.8))
    assert no.interval == pytest.approx((1 - yes.interval[1], 1 - yes.interval[0]))
    assert no.standard_error == pytest.approx(yes.standard_error)
    assert no.standard_error_reporters == pytest.approx(yes.standard_error_reporters)
    # 300 no where 200 are expected of yes-holders alone; 210 could be chance.
    assert no.significant
    rare = estimate(smokes, Tally(np.array([1000]), np.array([[790]]))).entries[0]
    assert not rare.significant


def test_an_integer_label_stays_an_integer(metrics, tally_of):
    hours = metrics["theme"]._replace(labels=(0, 6, 12, 18))
    found = estimate(hours, tally_of(hours, 1000, [0.25] * 4)).to_dict()
    assert [entry["value"] for entry in found["estimates"]] == [0, 6, 12, 18]


@pytest.mark.parametrize("name", ["theme", "smokes", "home_page"])
def test_no_reports_is_null_and_neither_zero_nor_nan(metrics, name):
    """Case C57: an absent estimate is not an estimate of zero."""
    metric = metrics[name]
    document = estimate(metric, Tally.zero(metric.mechanism)).to_dict()
    assert document["n"] == 0
    assert [e["value"] for e in document["estimates"]] == list(metric.labels or metric.candidates)
    for entry in [*document["estimates"], *([document["other"]] if "other" in document else [])]:
        assert {v for key, v in entry.items() if key != "value"} == {None}


def test_zero_below_zero_and_nothing_are_three_things(metrics):
    smokes = metrics["smokes"]._replace(
        mechanism=RandomizedResponse.from_probabilities("0.75", "0.25")
    )
    found = [
        estimate(smokes, Tally(np.array([n]), np.array([[yes]]))).entries[1]
        for n, yes in ((0, 0), (1000, 250), (1000, 235))
    ]
    assert [entry.share for entry in found] == [None, 0.0, pytest.approx(-0.03)]
    assert [entry.consistent for entry in found] == [None, 0.0, 0.0]


def test_strings_have_entries_for_candidates_and_one_for_the_rest(metrics):
    home = metrics["home_page"]
    rng = np.random.default_rng(8)
    reports = np.full(4, 5000)
    counts = np.zeros((4, 32), np.int64)
    for cohort in range(4):
        for value, held in (("example.org", 2000), ("example.com", 500)):
            law = [float(p) for p in home.mechanism.channel(value, cohort)]
            counts[cohort] += rng.binomial(held, law)
        for other in range(2500):
            law = [float(p) for p in home.mechanism.channel(f"site {other}", cohort)]
            counts[cohort] += rng.binomial(1, law)
    found = estimate(home, Tally(reports, counts))
    assert [entry.value for entry in found.entries] == ["example.org", "example.com"]
    for entry, truth in zip((*found.entries, found.other), (0.4, 0.1, 0.5), strict=True):
        assert entry.share == pytest.approx(truth, abs=5 * entry.standard_error)
        assert entry.significant
    assert found.other.value is None
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert not document["misfit"]["alarm"]
    assert document["condition"] >= 1


def test_strings_without_candidates_have_nothing_to_estimate(metrics):
    home = metrics["home_page"]._replace(candidates=())
    tally = Tally(np.full(4, 10), np.full((4, 32), 5))
    found = estimate(home, tally)
    assert (found.entries, found.other.share, found.misfit) == ((), None, None)


def test_few_reports_that_cannot_tell_candidates_apart_are_no_estimate_and_no_failure(metrics):
    """Forty candidates on the 32 bits of the one cohort that has reported, of four."""
    metric = metrics["home_page"]._replace(candidates=tuple(f"{i}.example" for i in range(40)))
    mechanism = metric.mechanism
    reports = np.array([1] + [0] * (mechanism.cohorts - 1))
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    found = estimate(metric, Tally(reports, counts))
    assert found.n == 1
    assert {entry.share for entry in found.all_entries} == {None}
    assert len(found.all_entries) == 41
    hopeless = metric._replace(candidates=tuple(f"{i}.example" for i in range(200)))
    with pytest.raises(DecodeError, match="depend on each other"):
        estimate(hopeless, Tally(reports, counts))


@pytest.mark.parametrize("level", [0, 1, -1, 95])
def test_a_level_outside_zero_and_one_is_refused(metrics, level):
    theme = metrics["theme"]
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        estimate(theme, Tally.zero(theme.mechanism), level)


def test_a_tally_of_another_shape_is_refused(metrics):
    with pytest.raises(ValueError, match="must have shape"):
        estimate(metrics["theme"], Tally.zero(metrics["smokes"].mechanism))


@pytest.mark.parametrize(
    ("domain", "flipped"),
    [(165, 0.000136352115), (969, 0.000804272425), (2925, 0.002425492656)],
)
def test_epsilon_fixes_the_flip_rate_to_other_values(domain, flipped):
    """Case C03: (k-1)/(k-1+e^14), not the redraw rate k/(k-1+e^14).

    The case prints 0.000804274225 in the second place; 0.000805103285 * 968/969, from its own
    redraw rate, is 0.000804272425.
    """
    mechanism = GeneralizedRandomizedResponse.from_epsilon(domain, 14)
    assert float(1 - mechanism.p_true) == pytest.approx(flipped, abs=5e-13)


@pytest.mark.parametrize(
    ("p", "q", "f", "hashes", "one", "permanent"),
    [
        ("0.1", "0.9", "0.2", 2, 6.06539, 8.788898),
        ("0.5", "0.75", "0.5", 2, 1.074286, 4.394449),
        ("0.5", "0.75", "0.5", 1, 0.537143, 2.197225),
        ("0.25", "0.75", "0.5", 1, 1.021651, 2.197225),
    ],
)
def test_epsilon_of_rappor_counts_hashes_and_effective_probabilities(
    p, q, f, hashes, one, permanent
):
    """Case C20."""
    mechanism = Rappor(32, hashes, 1, f=f, p=p, q=q)
    assert float(mechanism.epsilon) == pytest.approx(one, abs=5e-6)
    assert float(mechanism.epsilon_permanent) == pytest.approx(permanent, abs=5e-7)


@pytest.mark.parametrize(
    ("epsilon", "f"),
    [
        ("0.5", 0.875647),
        ("1", 0.7550813),
        ("4", 0.2384058),
        ("8", 0.0359724),
        ("10", 0.0133857),
        ("12", 0.0049452),
    ],
)
def test_f_is_solved_exactly_and_by_the_number_of_hashes(epsilon, f):
    """Case C27: f = 2/(1 + e^(epsilon/2h)), never rounded towards less noise."""
    for hashes in (1, 2):
        made = Rappor.from_epsilons(
            64, hashes, 1, epsilon="0.1", epsilon_permanent=str(float(epsilon) * hashes)
        )
        assert float(made.f) == pytest.approx(f, abs=5e-7)
        assert float(made.epsilon_permanent) <= float(epsilon) * hashes


def test_versions_are_pooled_by_their_numbers_of_reports(metrics, tally_of, version_of):
    theme = metrics["theme"]
    versions = (theme, version_of(theme, "2"))
    parts = [
        estimate(version, tally_of(version, n, [0.5, 0.3, 0.2, 0]))
        for version, n in zip(versions, (3000, 1000), strict=True)
    ]
    assert poolable(parts)
    both = pool(parts, [1, 1])
    for entry, first, second in zip(both.entries, *(p.entries for p in parts), strict=True):
        assert entry.share == pytest.approx(0.75 * first.share + 0.25 * second.share)
        variance = (0.75 * first.standard_error) ** 2 + (0.25 * second.standard_error) ** 2
        assert entry.standard_error == pytest.approx(variance**0.5)
        # Nearly the normal one: supports are many.
        half = stats.norm.isf(0.025) * entry.standard_error
        assert entry.interval == pytest.approx((entry.share - half, entry.share + half), abs=2e-3)
    assert (both.n, both.epsilon) == (4000, pytest.approx(2))


def test_mixed_versions_in_the_field_stay_unbiased(metrics, tally_of, version_of):
    """4,000 devices run each version; of one a quarter reports, and their users differ."""
    theme = metrics["theme"]
    spread = version_of(theme, "2")._replace(every=4)
    parts = [
        estimate(theme, tally_of(theme, 4000, [0.5, 0.3, 0.2, 0])),
        estimate(spread, tally_of(spread, 1000, [0.1, 0.2, 0.7, 0])),
    ]
    inclusions = [float(version.inclusion) for version in (theme, spread)]
    shares = [entry.share for entry in pool(parts, inclusions).entries]
    # Expected tallies, rounded to whole reports: at most half a report in 1,000 is off.
    assert shares == pytest.approx([0.3, 0.25, 0.45, 0], abs=0.003)
    by_reports = [entry.share for entry in pool(parts, [1, 1]).entries]
    assert by_reports[0] == pytest.approx(0.42, abs=0.003)


def test_a_value_that_no_version_has_a_report_of_is_not_certain_when_pooled(metrics):
    """At epsilon 8 the estimated error is 0 then; of 200 devices 1 % may hold it all the same."""
    mechanism = GeneralizedRandomizedResponse.from_epsilon(4, 8)
    theme = metrics["theme"]._replace(mechanism=mechanism)
    part = estimate(theme, Tally(np.array([100]), np.array([[60, 40, 0, 0]])))
    both = pool([part, part], [1.0, 1.0])
    for entry, alone in zip(both.entries, part.entries, strict=True):
        low, high = entry.interval
        assert low < 0.01 < high or entry.share > 0.1
        assert high - low == pytest.approx(
            (alone.interval[1] - alone.interval[0]) / 2**0.5, rel=0.2
        )
        outer_low, outer_high = entry.simultaneous_interval
        assert outer_low < low + 1e-12 and high < outer_high


def test_only_versions_with_reports_and_the_same_values_are_pooled(metrics, tally_of):
    theme = metrics["theme"]
    full = estimate(theme, tally_of(theme, 1000, [0.5, 0.3, 0.2, 0]))
    empty = estimate(theme, Tally.zero(theme.mechanism))
    renamed = theme._replace(labels=("a", "b", "c", "d"))
    other = estimate(renamed, tally_of(renamed, 1000, [0.5, 0.3, 0.2, 0]))
    for parts in ([], [full], [full, empty], [full, other]):
        assert not poolable(parts)


def test_a_notebook_shows_a_table_and_gives_flat_rows(metrics):
    found = estimator.estimate(metrics["theme"], estimator.Tally.of([4000, 3000, 2500, 500]))
    head, columns, *lines = repr(found).splitlines()
    assert head == "10,000 reports, epsilon 1 each"
    assert columns.split() == ["value", "share", "std.", "error", "95%", "interval", "present"]
    assert len(lines) == 4 and lines[0].startswith("light") and lines[0].endswith("yes")
    rows = found.rows()
    assert rows[0]["low"] < rows[0]["share"] < rows[0]["high"]
    assert all(not isinstance(value, list | tuple | dict) for row in rows for value in row.values())
    home = metrics["home_page"]
    strings = estimate(home, Tally.of(np.full((4, 32), 50), np.full(4, 100)))
    assert repr(strings).splitlines()[-1].startswith("(not listed)")
    assert [row["unlisted"] for row in strings.rows()] == [False, False, True]
    assert "no estimate" in repr(estimate(metrics["theme"], Tally.of([0, 0, 0, 0])))


@pytest.mark.parametrize(
    ("counts", "reports", "message"),
    [
        ([1.5, 2], None, "counts must be whole"),
        ([-1, 2], None, "counts must be whole"),
        ([1, 2], [3, 4], "one number per row"),
        ([1, 2], [-3], "reports must be whole"),
    ],
)
def test_a_tally_of_nonsense_is_refused(counts, reports, message):
    with pytest.raises(ValueError, match=message):
        Tally.of(counts, reports)

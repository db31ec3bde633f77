"""Planning: golden figures, laws of all mechanisms, inverse questions, verdicts that help."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aggregator.tally import Tally
from client_sdk.errors import RegistryError
from client_sdk.mechanisms import CATALOGUE, HierarchicalHistogram, OneBitMean, build, choose
from client_sdk.metric import Memoize
from estimator.debias import Channel
from estimator.decode import predicted_standard_error
from estimator.estimate import estimate
from estimator.inversion.asked_by_cohort import worst_shift as shift_of_asked
from estimator.planning import inverse, poisoning, spending
from estimator.planning.curves import EPSILONS, chart, curves
from estimator.planning.figures import Figures
from estimator.planning.inverse import Target, epsilon_for, needed, values_for
from estimator.planning.laws import MeanLaw, ShareLaw
from estimator.planning.mechanism_laws import Unlisted, law_of, remembered_law
from estimator.planning.question import Question, made_up
from estimator.planning.ranking import Choice, rank
from estimator.planning.sketch_shapes import EQUAL, best_shape
from estimator.planning.verdict import percent, round_up, verdict
from estimator.plausibility import popcount_law, worst_shift
from estimator.uncertainty import normal_quantile, significant

GOLDEN = json.loads(Path(__file__).with_name("golden_planning.json").read_text())
ONE = Decimal(1)
ranked = lru_cache(rank)
REMEMBERED = Memoize(Decimal(4), 2)


def golden(section: str, start: str) -> Any:
    cases = [case for case in GOLDEN[section] if case["id"].startswith(start)]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=lambda case: case["id"])


def law_through(case: dict[str, Any]) -> ShareLaw:
    return ShareLaw(0.0, Channel.from_probabilities(case["p_star"], case["q_star"]))


def lists(values: int, devices: int, **own: Any) -> Question:
    return Question("category", ONE, devices, made_up("value", values), **own)


def strings(candidates: int, devices: int, **own: Any) -> Question:
    return Question("string", ONE, devices, candidates=made_up("candidate", candidates), **own)


def mechanism_of(name: str) -> Any:
    kind = CATALOGUE[name]
    fields: dict[str, Any] = {"epsilon": "1.5"}
    if kind.encodes in ("one", "several"):
        fields["domain"] = {"randomized_response": 2}.get(name, 11)
    if kind.encodes == "several":
        fields["most"] = 3
    if kind.memoizes:
        fields["epsilon_permanent"] = "1.5" if name == "d_bit_flip" else "4"
    return build(name, **fields)


# Golden figures


@golden("planner", "plan-")
def test_golden_numbers_of_reports(case: dict[str, Any]) -> None:
    assert law_through(case).reports_for_error(case["target_se"], case["f"]) == case["n"]


@golden("planner", "detect-")
def test_golden_decision_levels_and_detection_limits(case: dict[str, Any]) -> None:
    """Of the normal law: that of estimates which are no single count."""
    law, level, cells = replace(law_through(case), counted=False), 1 - case["alpha"], case["cells"]
    decided = law.decision_level(case["n"], level, cells)
    limit = law.detection_limit(case["n"], level, cells)
    assert decided == pytest.approx(case["critical_level"], rel=1e-9)
    assert limit == pytest.approx(case["detection_limit_power95"], rel=1e-9)
    assert limit is not None
    assert law.reports_for_detection(limit, level, cells) == pytest.approx(case["n"], abs=1)


@golden("planner", "grr-vs-oue")
def test_golden_crossover_of_the_default(case: dict[str, Any]) -> None:
    epsilon, last = Decimal(str(case["eps"])), case["grr_better_up_to_d"]
    assert math.floor(case["crossover_d"]) == last
    for values, best in ((last, "generalized_randomized_response"), (last + 1, "optimized_unary")):
        both = ("generalized_randomized_response", "optimized_unary")
        laws = {name: law_of(build(name, domain=values, epsilon=epsilon)) for name in both}
        assert choose(values, epsilon) == best == min(both, key=lambda n: laws[n].error(0, 1))


@golden("planner", "hh-split")
def test_golden_split_of_a_tree(case: dict[str, Any]) -> None:
    levels = case["groups"]
    tree = HierarchicalHistogram.from_epsilon(4**levels, case["eps"], 4)
    assert tree.node_variance == pytest.approx(case["user_split_var_times_n"], rel=1e-9)
    split = law_of(build("optimized_unary", domain=4, epsilon=Decimal(case["eps"]) / levels))
    assert split is not None
    assert split.variance(0, 1) == pytest.approx(case["budget_split_var_times_n"], rel=1e-9)


@golden("planner", "bonferroni")
def test_golden_quantiles_over_many_values(case: dict[str, Any]) -> None:
    found = [normal_quantile(1 - case["alpha"], cells) for cells in case["cells"]]
    assert found == pytest.approx(case["z"], rel=1e-9)


@pytest.mark.parametrize(
    "case", [c for c in GOLDEN["poisoning"] if "p_star" in c], ids=lambda case: case["id"]
)
def test_golden_shifts_by_fakes(case: dict[str, Any]) -> None:
    channel, fakes = law_through(case).channel, case["malicious_fraction"]
    down, up = poisoning.shift_range(channel, case["f"], fakes)
    assert (down, up) == pytest.approx((case["max_down"], case["max_up"]), rel=1e-9)
    factor = case["per_report_gain_factor"]
    assert up / fakes + case["f"] == pytest.approx(factor, rel=1e-9)


@golden("poisoning", "poison-mga")
def test_golden_gain_over_several_targets(case: dict[str, Any]) -> None:
    for short, name in (
        ("grr", "generalized_randomized_response"),
        ("oue", "optimized_unary"),
    ):
        mechanism = build(name, domain=case["d"], epsilon=case["eps"])
        channel = Channel.of_values(mechanism)
        gain = poisoning.gain(channel, mechanism.kind, case["r"], case["f_T"], case["beta"])
        assert gain == pytest.approx(case[short], rel=1e-9)


@golden("poisoning", "poison-duchi")
def test_golden_shift_of_a_mean(case: dict[str, Any]) -> None:
    """There numbers lie in [-1, 1], here in [0, 1]."""
    channel = Channel.of(OneBitMean.from_epsilon(case["eps"]))
    part = (1 + case["honest_mean"]) / 2
    _, up = poisoning.shift_range(channel, part, case["malicious_fraction"])
    assert 2 * up == pytest.approx(case["max_up"], rel=1e-9)


@golden("poisoning", "weight-")
def test_golden_weights_of_honest_reports(case: dict[str, Any]) -> None:
    name = "optimized_unary" if "oue" in case["id"] else "symmetric_unary"
    law = popcount_law(build(name, domain=16, epsilon=1))
    assert law is not None
    ones = np.arange(len(law))
    mean = law @ ones
    assert mean == pytest.approx(case["mean_ones"], rel=1e-9)
    assert law @ (ones - mean) ** 2 == pytest.approx(case["var_ones"], rel=1e-9)


# Laws


@settings(max_examples=100, deadline=None)
@given(
    a=st.floats(0, 1e4), b=st.floats(-50, 50), part=st.floats(0.01, 1), share=st.floats(0.001, 0.99)
)
def test_a_channel_has_the_variance_of_any_unbiased_estimate(
    a: float, b: float, part: float, share: float
) -> None:
    if a + b < 1.001 or a < 1e-6:  # no estimate is more exact than the values themselves
        return

    def scaled(f: float) -> float:
        return (a + b * f - f * f) / part

    law = ShareLaw.of_variances(scaled, 0.0)
    channel = law.channel
    assert 0 <= channel.p_false < channel.p_true <= 1
    for f in (0.0, share, 1.0):
        assert law.variance(f, 7) == pytest.approx(scaled(f) / 7, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "square_wave"])
def test_every_mechanism_has_the_law_of_its_rare_values(name: str) -> None:
    mechanism = mechanism_of(name)
    law = law_of(mechanism, ("a", "b"), Unlisted(()))
    assert law is not None
    assert 0 < law.worst_shift < 1
    if isinstance(law, MeanLaw):
        assert law.worst_error(100) == pytest.approx((mechanism.rare_variance / 100) ** 0.5)
        assert law.error(0.5, 100) <= law.worst_error(100) * (1 + 1e-9)
        return
    if mechanism.encodes == "string":  # a candidate more, and the hash functions that there are
        stated = predicted_standard_error(mechanism, ("a", "b"), 100)
        assert law.error(0, 100) == pytest.approx(stated, rel=1e-9)
        assert law.error(0, 100) == pytest.approx(mechanism.rare_variance**0.5 / 10, rel=0.02)
        return
    # Of a tree nodes above a rare leaf are held all the same.
    near = 0.03 if name == "hierarchical_histogram" else 1e-9
    assert law.error(0, 100) == pytest.approx((mechanism.rare_variance / 100) ** 0.5, rel=near)


def test_collisions_with_unlisted_strings_do_not_average_out() -> None:
    mechanism = build("count_mean_sketch", epsilon=2, cells=64, hashes=4)
    held = Unlisted((0.2, 0.1))
    law = law_of(mechanism, ("a", "b"), held)
    assert isinstance(law, ShareLaw)
    for n in (1000, 10**6, 10**9):
        stated = predicted_standard_error(mechanism, ("a", "b"), n, held.shares)
        assert law.error(0, n) == pytest.approx(stated, rel=1e-3)
    floor = law.floor**0.5
    assert law.error(0, 10**12) == pytest.approx(floor, rel=1e-3)
    assert law.reports_for_error(floor * 0.99, 0) is None
    n = law.reports_for_error(floor * 1.5, 0)
    assert n is not None
    assert law.error(0, n) <= floor * 1.5 < law.error(0, n * 0.99)


def test_fakes_of_d_bit_flip_join_the_cohorts_that_are_asked() -> None:
    mechanism = mechanism_of("d_bit_flip")
    law = law_of(mechanism)
    assert law is not None
    assert law.worst_shift == shift_of_asked(mechanism)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if CATALOGUE[name].memoizes])
def test_averages_of_remembered_noise_come_down_to_the_first_stage(name: str) -> None:
    mechanism = mechanism_of(name)
    once, ever = law_of(mechanism, ("a",)), remembered_law(mechanism, ("a",))
    assert once is not None and ever is not None
    if name == "d_bit_flip":  # sends what it remembers
        assert ever.error(0, 100) == once.error(0, 100)
        return
    assert ever.error(0, 100) < once.error(0, 100) / 2
    first = {
        "memoized_optimized_unary": build("optimized_unary", domain=11, epsilon=4),
        "memoized_symmetric_unary": build("symmetric_unary", domain=11, epsilon=4),
        "memoized_generalized_randomized_response": build(
            "generalized_randomized_response", domain=11, epsilon=4
        ),
        "loloha": build("optimized_local_hashing", domain=11, epsilon=4, cells=mechanism.cells),
    }
    if name in first:  # a mechanism of its own, of epsilon_permanent
        assert ever.error(0, 100) == pytest.approx((first[name].rare_variance / 100) ** 0.5)
        return
    q, p = (float(chance) for chance in (mechanism.stages.unset, mechanism.stages.set))
    wanted = (q * (1 - q) / mechanism.hashes / 100) ** 0.5 / (p - q)
    assert ever.error(0, 100) == pytest.approx(wanted, rel=0.1)


def test_fresh_noise_is_averaged_out() -> None:
    assert remembered_law(build("optimized_unary", domain=4, epsilon=1)) is None


@pytest.mark.parametrize(
    "name",
    [n for n, kind in CATALOGUE.items() if kind.encodes == "one" and n != "square_wave"],
)
def test_a_plan_states_what_a_release_of_expected_counts_will_state(name: str) -> None:
    """Errors, intervals and the worst shift of a value that nobody holds, the others alike."""
    values = 2 if name == "randomized_response" else 11
    memoize = None
    if CATALOGUE[name].memoizes:
        memoize = Memoize(Decimal("1.5") if name == "d_bit_flip" else Decimal(4), 1)
    asked = Question("ordinal", Decimal("1.5"), 66_000, made_up("value", values), memoize=memoize)
    if values == 2:
        asked = Question("boolean", Decimal("1.5"), 66_000)
    choice = rank(replace(asked, mechanism=name)).choices[0]
    metric, mechanism, figures = choice.metric, choice.metric.mechanism, choice.figures
    n = np.full(mechanism.cohorts, 66_000 / mechanism.cohorts)
    drawn = np.full(mechanism.cohorts, 66_000 // mechanism.cohorts)
    widths, errors, shifts = [], [], []
    for rare in range(values) if values > 2 else (1,):
        held = np.full(values, 1 / (values - 1))
        held[rare] = 0
        law = np.array(
            [
                [[float(p) for p in mechanism.channel(v, cohort)] for v in range(values)]
                for cohort in range(mechanism.cohorts)
            ]
        )
        counts = np.einsum("c,v,cvy->cy", n, held, law)
        found = estimate(metric, Tally(drawn, counts.round().astype(np.int64)))
        entry = found.entries[rare]
        assert entry.interval is not None and entry.simultaneous_interval is not None
        (low, high), (lowest, highest) = entry.interval, entry.simultaneous_interval
        widths.append((high - low, highest - lowest))
        errors.append(entry.standard_error)
        shifts.append(found.worst_shift)
    assert figures.rare_error == pytest.approx(max(errors), rel=0.02)
    stated = figures.interval_width, figures.simultaneous_width
    assert stated == pytest.approx(max(widths), rel=0.03)
    assert figures.worst_shift == pytest.approx(max(shifts), rel=1e-2)


@pytest.mark.parametrize("n", [500, 50_000])
@pytest.mark.parametrize("epsilon", ["1", "4", "8"])
@pytest.mark.parametrize("name", ["optimized_unary", "generalized_randomized_response"])
def test_limits_are_those_of_exact_decisions_where_few_supports_are_expected(
    name: str, epsilon: str, n: int
) -> None:
    law = law_of(build(name, domain=200, epsilon=epsilon))
    assert isinstance(law, ShareLaw)
    limit, channel = law.detection_limit(n, 0.95, 200), law.channel
    if limit is None:
        assert n * channel.gap**2 < 100
        return
    supports = np.arange(n + 1)
    present = supports[significant(supports, n, channel, level=0.95, cells=200)][0]

    def power(share: float) -> float:
        return float(stats.binom.sf(present - 1, n, channel.support(share)))

    # Within a fifth of the least share that is called present in 95 of 100 epochs.
    assert power(0.8 * limit) < 0.95 < power(1.2 * limit)
    assert law.reports_for_detection(limit, 0.95, 200) == pytest.approx(n, abs=1)


# Rankings


def test_all_that_can_answer_are_ranked_by_the_error_of_a_rare_value() -> None:
    ranking = rank(lists(64, 10_000))
    errors = [choice.figures.rare_error for choice in ranking.choices]
    assert errors == sorted(errors)
    named = {choice.name for choice in ranking.choices}
    one_of = {n for n, kind in CATALOGUE.items() if kind.encodes == "one" and not kind.memoizes}
    assert named == one_of - {"randomized_response", "square_wave", "hierarchical_histogram"}
    assert ranking.best is not None and ranking.default is not None
    assert ranking.best.name == "subset_selection"
    assert ranking.default.name == "optimized_unary"
    assert ranking.gain == pytest.approx(1.0204, abs=1e-4)


def test_the_default_of_a_yes_no_question_is_the_best() -> None:
    ranking = rank(Question("boolean", ONE, 20_000))
    assert ranking.best is not None and ranking.best.name == "randomized_response"
    assert ranking.gain == 1


def test_numbers_are_answered_by_shares_of_buckets_and_by_means() -> None:
    asked = Question("number", ONE, 10_000, range=(Decimal(0), Decimal(9)), buckets=16)
    ranking = rank(asked)
    kinds = [choice.figures.of for choice in ranking.choices if choice.law is not None]
    assert kinds == sorted(kinds, reverse=True) and set(kinds) == {"share", "mean"}
    last = ranking.choices[-1]
    assert last.name == "square_wave" and last.law is None and "smoothed" in last.notes[0]
    assert last.figures.rare_error is None and last.figures.bytes > 0
    tree, unary = ranking.named("hierarchical_histogram"), ranking.named("optimized_unary")
    assert tree is not None and unary is not None
    assert (tree.figures.rare_error or 0) > (unary.figures.rare_error or 1)
    assert (tree.figures.range_error or 1) < (unary.figures.range_error or 0)  # what it is for
    only_mean = rank(replace(asked, buckets=0))
    assert {choice.figures.of for choice in only_mean.choices} == {"mean"}
    assert only_mean.default is None


def test_a_memory_restricts_to_mechanisms_that_remember() -> None:
    ranking = rank(lists(20, 50_000, memoize=REMEMBERED))
    assert all(CATALOGUE[choice.name].memoizes for choice in ranking.choices)
    assert list(ranking.refused) == ["d_bit_flip"]
    assert "must be equal" in ranking.refused["d_bit_flip"]
    assert all(choice.figures.epsilon_reserved == 8 for choice in ranking.choices)
    equal = rank(lists(20, 50_000, memoize=Memoize(ONE, 2)))
    assert [choice.name for choice in equal.choices] == ["d_bit_flip"]


def test_the_average_of_a_block_of_epochs_is_about_all_devices() -> None:
    """Each of them reports in one of the epochs, and after some blocks has told all it will."""
    asked = lists(20, 50_000, memoize=REMEMBERED, mechanism="loloha")
    whole, fifth = (rank(replace(asked, every=every)).choices[0].figures for every in (1, 5))
    assert fifth.averaged_error == pytest.approx(whole.averaged_error)
    assert fifth.rare_error == pytest.approx((whole.rare_error or 0) * 5**0.5)


def test_figures_are_those_of_the_channel_on_the_wire() -> None:
    choice = rank(replace(lists(172, 5000), mechanism="optimized_unary")).choices[0]
    found = choice.figures
    assert isinstance(found, Figures)
    channel = Channel.of(choice.metric.mechanism)
    q = channel.p_false
    assert found.rare_error == pytest.approx((q * (1 - q) / 5000) ** 0.5 / channel.gap)
    counts = np.arange(5001)
    called = significant(counts, 5000, channel, level=0.95, cells=172)
    assert ((channel.invert(counts / 5000) > (found.decision_level or 0)) == called).all()
    assert found.epsilon <= 1 and found.epsilon == pytest.approx(1)
    assert (found.bits, found.counters) == (172, 172)
    assert found.worst_shift == worst_shift(choice.metric.mechanism)
    down, up = found.shift_range or (0, 0)
    assert -found.worst_shift < down < 0 < up < found.worst_shift


def test_a_plan_from_few_supports_is_said_to_be_rough() -> None:
    asked = Question(
        "category", Decimal(6), 200, made_up("value", 50), mechanism="block_hadamard_response"
    )
    rough, fine = (rank(replace(asked, devices=n)).choices[0].notes for n in (200, 100_000))
    assert rough == (
        "a rare value is expected to get 4.3 supports: what is said to be present and visible is "
        "rough",
    )
    assert fine == ()


def test_where_supports_are_counted_no_plan_is_rough() -> None:
    asked = Question(
        "category", Decimal(6), 1000, made_up("value", 50), mechanism="optimized_unary"
    )
    (choice,) = rank(asked).choices
    assert isinstance(choice.law, ShareLaw) and choice.law.rare_supports(1000) < 3
    assert choice.notes == ()


def test_what_no_file_could_declare_is_not_planned() -> None:
    with pytest.raises(RegistryError, match="must be one of"):
        rank(replace(lists(8, 100), mechanism="one_bit_mean"))
    with pytest.raises(ValueError, match="devices must be at least 1"):
        lists(8, 0)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        lists(8, 10, share=1.5)
    with pytest.raises(ValueError, match="candidates"):
        Question("string", ONE, 10)


# Sketches


def test_the_shape_of_a_sketch_is_of_least_error_and_then_of_fewest_cohorts() -> None:
    asked = strings(5, 20_000, memoize=REMEMBERED)
    found = best_shape("rappor", asked).mechanism
    law = law_of(found, asked.candidates)
    assert law is not None
    error = law.error(asked.smallest_share, asked.reports)
    for bits, hashes, cohorts in ((128, 2, 64), (256, 1, 64), (256, 1, found.cohorts)):
        shape = {"name": "rappor", "bits": bits, "hashes": hashes, "cohorts": cohorts}
        other = law_of(asked.metric(shape).mechanism, asked.candidates)
        assert other is not None
        assert error <= other.error(asked.smallest_share, asked.reports) * EQUAL
    assert found.cohorts < 64


def test_a_remembered_sketch_says_that_it_is_a_fingerprint() -> None:
    asked = strings(5, 20_000, memoize=REMEMBERED)
    (choice,) = ranked(asked).choices
    assert "strong fingerprint" in choice.notes[0]
    options = choice.figures.options
    assert f"shared by about {20_000 / options['cohorts']:,.0f} devices" in choice.notes[0]
    assert options["p"] == pytest.approx(1 - options["q"])
    assert choice.metric.mechanism.epsilon <= 1
    assert (choice.metric.mechanism.epsilon_permanent or 9) <= 4
    named = {each.name for each in ranked(strings(5, 20_000)).choices}
    assert named == {"count_mean_sketch", "hadamard_count_mean_sketch"}


# The other way round


@pytest.mark.parametrize(
    "name",
    [
        "optimized_unary",
        "generalized_randomized_response",
        "hierarchical_histogram",
        "loloha",
        "d_bit_flip",
    ],
)
def test_the_number_of_reports_is_the_least_that_is_enough(name: str) -> None:
    memoize = REMEMBERED if CATALOGUE[name].memoizes else None
    if name == "d_bit_flip":
        memoize = Memoize(ONE, 2)
    asked = lists(20, 1000, mechanism=name, memoize=memoize, share=0.03)
    (choice,) = rank(replace(asked, type="ordinal")).choices
    law = choice.law
    assert law is not None
    for error in (0.004, 0.0031):
        n = Target(error=error).reports(choice, asked)
        assert n is not None
        assert law.error(0.03, n) <= error * (1 + 1e-9)
        assert law.error(0.03, n - 1) > error * (1 - 1e-9)
    n = Target(limit=0.03).reports(choice, asked)
    assert n is not None
    limits = [law.detection_limit(each, 0.95, 20) or 1 for each in (n, n - 1)]
    assert limits[0] <= 0.03 * (1 + 1e-9) and limits[1] > 0.03 * (1 - 1e-9)


def test_devices_are_reports_over_the_part_of_them_that_report() -> None:
    asked = lists(20, 1000, every=4, sample=Decimal("0.5"), mechanism="optimized_unary")
    (choice,) = rank(asked).choices
    target = Target(error=0.01)
    reports, devices = target.reports(choice, asked), target.devices(choice, asked)
    assert reports is not None and devices == 8 * reports
    assert asked.reports == 125


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        (lists(20, 50_000, mechanism="optimized_unary"), Target(error=0.005)),
        (lists(20, 50_000, mechanism="subset_selection"), Target(limit=0.02)),
        (lists(20, 50_000, mechanism="loloha", memoize=REMEMBERED), Target(limit=0.02)),
        (Question("number", ONE, 9000, range=(Decimal(0), ONE)), Target(error=0.01)),
    ],
)
def test_epsilon_for_a_target_is_the_least_that_is_enough(asked: Question, target: Target) -> None:
    choice = rank(asked).best
    assert choice is not None
    epsilon = epsilon_for(choice, asked, target)
    assert epsilon is not None

    def enough(epsilon: Decimal) -> bool:
        there = replace(asked.at(epsilon), mechanism=choice.name)
        return target.met_by(rank(there).choices[0], there)

    assert enough(epsilon) and not enough(epsilon * Decimal("0.97"))


def test_no_epsilon_makes_few_reports_exact() -> None:
    asked = Question("boolean", ONE, 100, share=0.3)
    choice = rank(asked).best
    assert choice is not None
    found = needed(choice, asked, Target(error=0.01))
    assert found.epsilon is None
    assert found.reports is not None and found.reports > 100


def test_targets_are_one_of_two() -> None:
    with pytest.raises(ValueError, match="give an error or a detection limit"):
        Target()
    with pytest.raises(ValueError, match="between 0 and 1"):
        Target(error=2)


def test_fewer_values_are_the_most_that_a_target_allows() -> None:
    asked = lists(40, 20_000, mechanism="generalized_randomized_response")
    (choice,) = rank(asked).choices
    target = Target(limit=0.05)
    values = values_for(choice, asked, target)
    assert values is not None and 2 < values < 40
    for count, enough in ((values, True), (values + 1, False)):
        there = asked.with_values(count)
        assert target.met_by(rank(there).choices[0], there) is enough
    assert inverse.values_for(choice, lists(40, 50), target) is None


# Budgets


def test_a_budget_lasts_so_many_epochs() -> None:
    metric = lists(20, 1000, every=2).metric()
    found = spending.lifetime(metric, Decimal(24))
    assert (found.charge, found.reports, found.epochs, found.days) == (1.0, 24, 48, 336)
    assert spending.lifetime(metric, Decimal("0.9")).reports == 0
    kept = lists(20, 1000, memoize=REMEMBERED).metric()
    assert spending.lifetime(kept, Decimal(8)).reports is None
    assert spending.lifetime(kept, Decimal("7.9")).reports == 0
    once = lists(20, 1000, epoch="once").metric()
    assert spending.lifetime(once, Decimal(8)).reports == 1


def test_spreading_costs_its_root_in_error_and_saves_its_part_of_epsilon() -> None:
    asked = lists(20, 50_000)
    choice = rank(asked).best
    assert choice is not None
    rows = spending.spreading(choice, asked, Decimal(24))
    errors = [row.error or 0 for row in rows]
    for row, error in zip(rows, errors, strict=True):
        assert row.reports == 50_000 / row.every
        assert error == pytest.approx(errors[0] * row.every**0.5)
        assert row.lasts_days == 168 * row.every
    assert (rows[0].yearly, rows[1].yearly) == (53, 27)  # a year touches 53 weeks, 27 blocks of 2


# Verdicts


def test_a_question_that_cannot_be_answered_is_told_so_with_figures() -> None:
    found = verdict(rank(lists(172, 5000, share=0.02)))
    assert not found.answers
    assert found.text == (
        "5,000 reports at epsilon 1 over 172 values: nothing below 14 % is visible; 2 % matters"
    )
    assert found.helps[0] == "more devices: 240,000 of them"
    assert found.helps[1].startswith("a larger epsilon: ")


def test_each_help_makes_the_share_visible() -> None:
    asked = lists(40, 20_000, share=0.04, mechanism="generalized_randomized_response")
    helps = dict(text.split(": ", 1) for text in verdict(rank(asked)).helps if ": " in text)
    devices = int(helps["more devices"].split()[0].replace(",", ""))
    assert verdict(rank(replace(asked, devices=devices))).answers
    assert verdict(rank(asked.at(Decimal(helps["a larger epsilon"])))).answers
    assert verdict(rank(asked.with_values(int(helps["fewer values"])))).answers
    (longer,) = (text for text in verdict(rank(asked)).helps if text.startswith("longer epochs"))
    times = int(longer.split("which ")[1].split()[0])
    assert verdict(rank(replace(asked, devices=times * asked.devices))).answers
    assert not verdict(rank(replace(asked, devices=(times - 1) * asked.devices))).answers


def test_a_question_that_can_be_answered_needs_no_help() -> None:
    found = verdict(rank(Question("boolean", ONE, 20_000)))
    assert found.answers and not found.helps
    assert found.text == "20,000 reports at epsilon 1 yes/no: nothing below 2.3 % is visible"


def test_nothing_is_visible_where_no_share_is() -> None:
    found = verdict(rank(lists(172, 20)))
    assert "nothing is visible, whatever its share" in found.text


def test_figures_in_sentences_are_round() -> None:
    assert [percent(each) for each in (0.138542, 0.0205, 1.2)] == ["14 %", "2.1 %", "over 100 %"]
    assert [round_up(each) for each in (7, 10, 236_001)] == [7, 10, 240_000]


# Curves


def test_curves_are_the_errors_over_devices_and_over_epsilon() -> None:
    asked = lists(64, 10_000)
    ranking = rank(asked)
    by_devices = curves(ranking, "devices")
    names = [line.mechanism for line in by_devices]
    assert "optimized_unary" in names and len(names) <= 6
    assert "exponential" not in names  # of errors beyond all measure
    assert "subset_selection" in names or "optimized_local_hashing" in names
    default = ranking.default
    assert default is not None
    (drawn,) = (line for line in by_devices if line.mechanism == default.name)
    assert dict(drawn.points)[10_000] == pytest.approx(default.figures.rare_error)
    (drawn,) = (c for c in curves(ranking, "epsilon") if c.mechanism == default.name)
    assert [at for at, _ in drawn.points] == [float(epsilon) for epsilon in EPSILONS]
    assert dict(drawn.points)[1] == pytest.approx(default.figures.rare_error)
    whole = chart(by_devices, "devices", "errors")
    assert len(whole["data"]["values"]) == sum(len(line.points) for line in by_devices)


def test_curves_of_remembered_noise_end_below_its_epsilon() -> None:
    ranking = rank(lists(20, 10_000, memoize=Memoize(Decimal(2), 1)))
    for line in curves(ranking, "epsilon"):
        assert max(at for at, _ in line.points) == 1.5


def test_a_choice_declares_itself() -> None:
    for asked in (lists(20, 1000), strings(5, 20_000), strings(5, 20_000, memoize=REMEMBERED)):
        choice = ranked(asked).best
        assert isinstance(choice, Choice)
        again = asked.metric(choice.declared())
        assert again.mechanism.parameters() == choice.metric.mechanism.parameters()


@pytest.mark.parametrize("name", ["block_hadamard_response", "optimized_unary"])
def test_no_share_is_visible_that_nobody_may_hold(name: str) -> None:
    law = law_of(build(name, domain=4, epsilon=30))
    assert law is not None
    limit = law.detection_limit(1000, 0.95, 4)
    assert limit is not None and (1 - limit) ** 1000 <= 0.05 * (1 + 1e-9)
    assert law.reports_for_detection(limit, 0.95, 4) == 1000


def test_a_limit_that_is_hardly_missed_is_not_said_to_be_what_matters() -> None:
    asked = replace(lists(20, 10_000, mechanism="optimized_unary"), share=None)
    limit = rank(asked).choices[0].figures.detection_limit
    assert limit is not None
    found = verdict(rank(replace(asked, share=limit * 0.9999)))
    assert found.answers is False
    assert found.text.endswith(f"{percent(limit)} matters, and is just missed")

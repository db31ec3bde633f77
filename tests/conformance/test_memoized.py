"""Remembered noise: two stages solved together, and what many reports of one value lose."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.audit import audit, law
from client_sdk.errors import OptionError, ParameterError
from client_sdk.mechanisms import (
    DBitFlip,
    GeneralizedRandomizedResponse,
    LocalHashing,
    Loloha,
    Mechanism,
    MemoizedGeneralizedRandomizedResponse,
    MemoizedOptimizedUnary,
    MemoizedSymmetricUnary,
    OptimizedUnary,
    Rappor,
    SymmetricUnary,
    build,
)
from client_sdk.mechanisms.thresholds import log_ratio, multiple
from client_sdk.mechanisms.two_stage import BitStages, CellStages
from estimator.debias import Channel
from estimator.uncertainty import variance_population, variance_reporters

LGrr = MemoizedGeneralizedRandomizedResponse
GOLDEN = {
    entry["id"]: entry
    for entry in json.loads(
        (Path(__file__).parent / "golden_longitudinal.json").read_text("utf-8")
    )["longitudinal"]
}
EXACT: Any = {"rel": 1e-9, "abs": 0}


def golden(prefix: str) -> Any:
    found = [
        pytest.param(each, id=name) for name, each in GOLDEN.items() if name.startswith(prefix)
    ]
    return pytest.mark.parametrize("entry", found)


def of_golden(entry: dict[str, Any], protocol: str) -> Mechanism:
    one, permanent = entry["eps_1"], entry["eps_perm"]
    if protocol == "lsue":
        return MemoizedSymmetricUnary.from_epsilons(8, one, permanent)
    if protocol == "losue":
        return MemoizedOptimizedUnary.from_epsilons(8, one, permanent)
    if protocol == "lgrr":
        return LGrr.from_epsilons(entry["d"], one, permanent)
    return Loloha.from_epsilons(100, entry["g"], one, permanent)


# The reference's numbers


@golden("epsN-")
def test_the_loss_of_many_reports_of_one_value_is_the_golden_one(entry: dict[str, Any]) -> None:
    mechanism = of_golden(entry, entry["protocol"])
    for reports, loss in entry["eps_N"].items():
        assert float(mechanism.epsilon_of(int(reports))) == pytest.approx(loss, **EXACT)
    sums = all(mechanism.epsilon_of(n) <= multiple(mechanism.epsilon, n) for n in range(1, 31))
    assert sums == entry.get("sum_eps_1_is_a_bound", True)


@golden("lsue-")
def test_symmetric_stages_are_the_golden_ones(entry: dict[str, Any]) -> None:
    compare_bits(of_golden(entry, "lsue"), entry)


@golden("losue-")
def test_optimized_stages_are_the_golden_ones(entry: dict[str, Any]) -> None:
    compare_bits(of_golden(entry, "losue"), entry)


def compare_bits(mechanism: Mechanism, entry: dict[str, Any]) -> None:
    assert isinstance(mechanism, MemoizedSymmetricUnary | MemoizedOptimizedUnary)
    stages = mechanism.stages
    found = [stages.set, stages.unset, stages.high, stages.low, mechanism.p_true, mechanism.p_false]
    names = ("p1", "q1", "p2", "q2", "p_star", "q_star")
    assert [float(p) for p in found] == pytest.approx([entry[name] for name in names], **EXACT)
    variance = variance_reporters(0.1, 10_000, Channel.of_values(mechanism))
    assert float(variance) == pytest.approx(entry["var_fixed_n10000_f0.1"], **EXACT)


@golden("lgrr-")
def test_k_ary_stages_are_solved_for_the_real_k(entry: dict[str, Any]) -> None:
    """Trap 15: the second stage solved as if k = 2 is 26 times noisier at k = 50."""
    mechanism = of_golden(entry, "lgrr")
    assert isinstance(mechanism, LGrr)
    compare_cells(mechanism.stages, entry)
    assert float(mechanism.epsilon) == pytest.approx(entry["eps_1"], **EXACT)
    wrong = CellStages(entry["d"], mechanism.stages.keep, Fraction(entry["widely_copied_p2"]))
    loss = float(log_ratio(wrong.p_true, wrong.p_false))
    assert loss == pytest.approx(entry["exact_eps1_at_widely_copied_p2"], **EXACT)
    assert loss < 0.95 * entry["eps_1"]


@golden("loloha-")
def test_hashed_stages_are_the_golden_ones(entry: dict[str, Any]) -> None:
    mechanism = of_golden(entry, "loloha")
    assert isinstance(mechanism, Loloha)
    # q* there is the chance of a cell under functions drawn at random, 1/g; here collisions are
    # fewer by just so much as the set of functions is finite.
    collision = mechanism.hashing.collision
    p, q = mechanism.p_true, mechanism.p_false
    assert mechanism.support_false == collision * p + (1 - collision) * q
    compare_cells(mechanism.stages, entry | {"q_star": float(q)})
    g = entry["g"]
    assert float(p / g + (1 - Fraction(1, g)) * q) == pytest.approx(entry["q_star"], **EXACT)
    published = Channel.from_probabilities(p, Fraction(1, g))
    variance = float(variance_reporters(0.1, 10_000, published))
    assert variance == pytest.approx(entry["var_fixed_n10000_f0.1"], **EXACT)
    own = float(variance_reporters(0.1, 10_000, Channel.of_values(mechanism)))
    assert own == pytest.approx(variance, rel=0.03)
    assert mechanism.epsilon_permanent is not None
    lifetime = mechanism.most_memories * float(mechanism.epsilon_permanent)
    assert lifetime == pytest.approx(entry["lifetime_bound"], **EXACT)


def compare_cells(stages: CellStages, entry: dict[str, Any]) -> None:
    found = [stages.keep, stages.leave, stages.keep_again, stages.leave_again]
    found += [stages.p_true, stages.p_false]
    names = ("p1", "q1", "p2", "q2", "p_star", "q_star")
    assert [float(p) for p in found] == pytest.approx([entry[name] for name in names], **EXACT)


@golden("dbitflip-")
def test_d_bit_flip_is_the_golden_one(entry: dict[str, Any]) -> None:
    mechanism = DBitFlip.from_probabilities(entry["k"], entry["d"], entry["p"], entry["q"])
    assert float(mechanism.epsilon) == pytest.approx(entry["exact_eps"], **EXACT)
    n, f, asked = entry["n"], entry["f"], float(mechanism.asked)
    noise = float(variance_reporters(f, n * asked, Channel.of(mechanism)))
    nominal = noise + f * (1 - asked) / asked / n
    assert nominal == pytest.approx(entry["var_nominal_divisor"], **EXACT)
    solved = DBitFlip.from_epsilon(entry["k"], entry["d"], entry["eps"])
    assert float(solved.epsilon) == pytest.approx(entry["eps"], **EXACT)


@golden("change-leak-")
def test_a_change_tells_what_the_reference_says(entry: dict[str, Any]) -> None:
    """Half of the reports of one value and half of another, against one value; all sequences."""
    permanent, rounds = entry["eps_perm"], entry["T"]
    kept = Fraction(math.exp(permanent) / (1 + math.exp(permanent)))
    stages = BitStages(kept, 1 - kept, Fraction(3, 4), Fraction(1, 4))

    def chance(ones: int, of: int, bit: int) -> Fraction:
        set_ = stages.set if bit else stages.unset
        memos = ((set_, stages.high), (1 - set_, stages.low))
        return sum((m * p**ones * (1 - p) ** (of - ones) for m, p in memos), Fraction(0))

    half = rounds // 2
    worst = Fraction(1)
    for first, second in product(range(half + 1), repeat=2):
        changed = chance(first, half, 1) * chance(second, half, 0)
        constant = chance(first + second, rounds, 1)
        worst = max(worst, changed / constant, constant / changed)
    loss = float(log_ratio(worst, Fraction(1)))
    assert loss == pytest.approx(entry["eps_half_change_vs_constant"], **EXACT)
    one = float(log_ratio(stages.p_true, 1 - stages.p_true))
    assert half * one == pytest.approx(entry["sum_eps1_of_differing_reports"], **EXACT)
    assert half * one < loss < rounds * math.log(3)  # the fresh stage alone bounds it


# Exactness


@pytest.mark.parametrize("reports", [1, 2, 3])
@pytest.mark.parametrize(
    "mechanism",
    [
        LGrr.from_epsilons(4, "0.5", 2),
        LGrr.from_epsilons(2, 1, 3),
        MemoizedSymmetricUnary.from_epsilons(2, 1, 2),
        MemoizedOptimizedUnary.from_epsilons(3, "0.5", 4),
        Loloha.from_epsilons(9, 3, "0.5", 4),
        DBitFlip.from_epsilon(5, 3, 1),
        Rappor(3, 1, 1, f="0.5", p="0.25", q="0.75"),
        OptimizedUnary.from_epsilon(3, 1),
        GeneralizedRandomizedResponse.from_epsilon(5, 1),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_loss_of_many_reports_is_that_of_all_their_sequences(
    mechanism: Mechanism, reports: int
) -> None:
    if isinstance(mechanism, Rappor):
        values: Any = [
            "a",
            next(
                t for t in "bcdefgh" if mechanism.cells_for(t, 0) != (mechanism.cells_for("a", 0))
            ),
        ]
    else:
        first = mechanism.cells_for(0, 0)
        other = next(v for v in range(1, 9) if mechanism.cells_for(v, 0) != first)
        values = [0, other]
    laws = [sequence_law(mechanism, value, reports) for value in values]
    worst = max(
        max(laws[0][each] / laws[1][each], laws[1][each] / laws[0][each])
        for each in laws[0]
        if laws[0][each]
    )
    # Sums of fresh losses are rounded up, in the sixtieth digit.
    loss, stated = log_ratio(worst, Fraction(1)), mechanism.epsilon_of(reports)
    assert 0 <= stated - loss <= Decimal("1e-57")


def sequence_law(mechanism: Mechanism, value: Any, reports: int) -> dict[tuple[int, ...], Fraction]:
    """The law of so many responses, in order of size: their order tells nothing."""
    found: dict[tuple[int, ...], Fraction] = {}
    for memo, weight in law(lambda coin: mechanism.permanent(value, 0, coin))[0].items():
        fresh = law(lambda coin, memo=memo: mechanism.instantaneous(memo, coin))[0]
        for chosen in product(sorted(fresh), repeat=reports):
            if list(chosen) == sorted(chosen):
                chance = weight * math.prod((fresh[y] for y in chosen), start=Fraction(1))
                found[chosen] = found.get(chosen, Fraction(0)) + chance
    return found


epsilons = st.decimals(Decimal("0.01"), Decimal(20), places=3)
ABOVE = st.decimals(Decimal("0.001"), Decimal(20), places=3)


@given(epsilons, ABOVE, st.integers(2, 4096), st.sampled_from([2, 3, 4, 5, 16, 31]))
@settings(max_examples=60, deadline=None)
def test_neither_loss_ever_exceeds_what_was_asked(
    one: Decimal, more: Decimal, domain: int, cells: int
) -> None:
    permanent = one + more
    made: list[Mechanism] = [
        kind.from_epsilons(domain, one, permanent)
        for kind in (MemoizedSymmetricUnary, MemoizedOptimizedUnary, LGrr)
    ]
    made.append(Loloha.from_epsilons(domain, cells, one, permanent))
    for mechanism in made:
        assert mechanism.epsilon_permanent is not None
        assert one * Decimal("0.99999") < mechanism.epsilon <= one
        # 2**-64 is 1/78 of the smallest probability at 40.
        assert permanent * Decimal("0.999") < mechanism.epsilon_permanent <= permanent
        assert mechanism.epsilon < mechanism.epsilon_permanent
        assert mechanism.epsilon_of(1) == mechanism.epsilon
        assert mechanism.epsilon_of(2) <= mechanism.epsilon_permanent
    flip = DBitFlip.from_epsilon(domain, min(domain, cells), one)
    assert one * Decimal("0.99999") < flip.epsilon <= one


@pytest.mark.parametrize("one", ["1e-9", "0.01", "1", "20"])
@pytest.mark.parametrize("more", ["1e-25", "1e-18", "1e-9"])
@pytest.mark.parametrize(
    "make",
    [
        lambda one, permanent: MemoizedSymmetricUnary.from_epsilons(5, one, permanent),
        lambda one, permanent: MemoizedOptimizedUnary.from_epsilons(5, one, permanent),
        lambda one, permanent: LGrr.from_epsilons(5, one, permanent),
        lambda one, permanent: Loloha.from_epsilons(50, 5, one, permanent),
    ],
    ids=["lsue", "losue", "lgrr", "loloha"],
)
def test_losses_that_are_nearly_equal_are_kept_apart(
    make: Callable[[Decimal, Decimal], Mechanism], one: str, more: str
) -> None:
    asked = Decimal(one)
    mechanism = make(asked, asked + Decimal(more))
    assert mechanism.epsilon <= asked
    assert mechanism.epsilon_permanent is not None
    assert mechanism.epsilon <= mechanism.epsilon_permanent <= asked + Decimal(more)


pairs = st.tuples(epsilons, ABOVE)


@given(pairs, st.integers(2, 6), st.sampled_from([2, 3, 4]), st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_any_parameters_survive_the_exact_audit(
    pair: tuple[Decimal, Decimal], domain: int, cells: int, bits: int
) -> None:
    one, permanent = pair[0], sum(pair, Decimal(0))
    made: list[Mechanism] = [
        MemoizedSymmetricUnary.from_epsilons(min(domain, 3), one, permanent),
        MemoizedOptimizedUnary.from_epsilons(16 * domain, one, permanent),
        LGrr.from_epsilons(domain, one, permanent),
        Loloha.from_epsilons(domain + 4, cells, one, permanent),
        DBitFlip.from_epsilon(domain, min(bits, domain), one),
    ]
    for mechanism in made:
        found = audit(mechanism)
        assert found.problems == []
        assert found.worst == mechanism.epsilon
        assert found.worst_permanent == mechanism.epsilon_permanent


def test_equal_or_turned_losses_are_refused() -> None:
    for one, permanent in ((1, 1), (2, 1)):
        for name in ("memoized_symmetric_unary", "memoized_optimized_unary", LGrr.name, "loloha"):
            with pytest.raises(ParameterError, match="epsilon_permanent must be above epsilon"):
                build(name, domain=5, epsilon=one, epsilon_permanent=permanent)
    with pytest.raises(ParameterError, match="sends what it remembers"):
        build("d_bit_flip", domain=5, epsilon=1, epsilon_permanent=2)
    for kind in (MemoizedSymmetricUnary, MemoizedOptimizedUnary, LGrr):
        with pytest.raises(ParameterError, match="too small"):
            kind.from_epsilons(5, "1e-26", "1e-25")
        with pytest.raises(ParameterError, match="too small"):
            kind.from_epsilons(5, "1e-25", 1)


@pytest.mark.parametrize(
    ("name", "options", "option"),
    [
        ("memoized_symmetric_unary", {"p_true": "0.7"}, "p_true"),
        (LGrr.name, {"cells": 4}, "cells"),
        ("loloha", {"cells": 6}, "cells"),
        ("loloha", {"cells": 1}, "cells"),
        ("loloha", {"bits": 4}, "bits"),
        ("d_bit_flip", {"bits": 0}, "bits"),
        ("d_bit_flip", {"hashes": 2}, "hashes"),
    ],
)
def test_a_wrong_option_is_named(name: str, options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        build(name, domain=20, epsilon=1, epsilon_permanent=2, **options)
    assert caught.value.option == option


def test_the_name_alone_gives_sensible_parameters() -> None:
    loloha = build("loloha", domain=50, epsilon=1, epsilon_permanent=2)
    assert loloha.cells == 4  # round(e + 1), a power of two
    assert build("loloha", domain=50, epsilon=20, epsilon_permanent=21).cells == 47
    assert build("loloha", domain=2, epsilon=1, epsilon_permanent=2).cells == 2
    flip = build("d_bit_flip", domain=50, epsilon=1)
    assert (flip.cells, flip.cohorts) == (4, 50)
    assert build("d_bit_flip", domain=3, epsilon=1).cohorts == 1  # all are asked for all


def test_memoization_costs_no_variance_beside_one_report_at_the_same_epsilon() -> None:
    for memoized, plain in (
        (MemoizedSymmetricUnary.from_epsilons(9, 1, 4), SymmetricUnary.from_epsilon(9, 1)),
        (MemoizedOptimizedUnary.from_epsilons(9, 1, 4), OptimizedUnary.from_epsilon(9, 1)),
        (LGrr.from_epsilons(9, 1, 4), GeneralizedRandomizedResponse.from_epsilon(9, 1)),
    ):
        assert memoized.rare_variance == pytest.approx(plain.rare_variance, rel=1e-9)
    loloha = Loloha.from_epsilons(300, 4, 1, 4)
    hashing = build("optimized_local_hashing", domain=300, epsilon=1, cells=4)
    assert isinstance(hashing, LocalHashing)
    assert loloha.rare_variance == pytest.approx(hashing.rare_variance, rel=1e-9)


# What a device remembers


def test_values_that_share_a_memory_have_one_name_and_one_response() -> None:
    for mechanism in (Loloha.from_epsilons(40, 4, 1, 2), DBitFlip.from_epsilon(40, 3, 1)):
        for cohort in range(0, mechanism.cohorts, 5):
            names = {mechanism.remembered_as(value, cohort) for value in range(40)}
            assert len(names) <= mechanism.most_memories == 4
            cells = {mechanism.cells_for(value, cohort) for value in range(40)}
            assert len(cells) == len(names)


def test_no_more_memories_are_needed_than_a_mechanism_says() -> None:
    assert LGrr.from_epsilons(7, 1, 2).most_memories == 7
    assert Loloha.from_epsilons(7, 4, 1, 2).most_memories == 4
    assert DBitFlip.from_epsilon(7, 3, 1).most_memories == 4
    assert DBitFlip.from_epsilon(3, 3, 1).most_memories == 3
    assert Rappor(3, 1, 1, f="0.5", p="0.25", q="0.75").most_memories is None


# Variances


@pytest.mark.parametrize(
    ("stages", "share", "n_times_variance"),
    [
        # Trap 14 (multi-freq-ldpy's VAR_Long_Pure gives 1.24 and 16.36).
        (BitStages(*map(Fraction, ("0.5", "0.2", "0.9", "0.01"))), 1.0, 3.478),
        (BitStages(*map(Fraction, ("0.5", "0.2", "0.7", "0.3"))), 0.5, 17.11),
    ],
    ids=["asymmetric", "symmetric"],
)
def test_the_variance_of_two_stages_holds_at_every_share(
    stages: BitStages, share: float, n_times_variance: float
) -> None:
    channel = Channel.from_probabilities(stages.p_true, stages.p_false)
    assert float(variance_population(share, 1, channel)) == pytest.approx(
        n_times_variance, rel=5e-4
    )

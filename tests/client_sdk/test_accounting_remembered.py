"""Memoized metrics in accounts: every history of values that a short life can have, enumerated."""

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from client_sdk.accounting import Remembered, account, covering_changes, same_changes
from client_sdk.audit import law
from client_sdk.errors import ParameterError, RegistryError
from client_sdk.mechanisms import DBitFlip, Mechanism, build
from client_sdk.mechanisms import MemoizedGeneralizedRandomizedResponse as LGrr
from client_sdk.mechanisms import MemoizedSymmetricUnary as LSue
from client_sdk.mechanisms.thresholds import log_ratio
from client_sdk.randomness import ONE
from client_sdk.registry import loads

GOLDEN: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads(Path(__file__).with_name("golden_accounting.json").read_text())[
        "longitudinal"
    ]
}
History = tuple[int, ...]


def test_a_life_of_a_remembered_and_a_fresh_metric_is_the_references() -> None:
    entry = GOLDEN["ledger"]
    # os: two reports of "win" and one of "mac"; crash: four with fresh noise.
    os = Remembered(LSue.from_epsilons(3, 1, 2), (2, 1))
    crash = build("randomized_response", domain=2, epsilon="0.5")
    found = account([(crash, 4)], [os])
    memos, fresh = os.enforced / 1e6, account([(crash, 4)]).enforced / 1e6
    assert (memos, fresh) == (entry["memo_total"], entry["fresh_total"])
    assert found.enforced / 1e6 == entry["lifetime"]
    exact = entry["same_change_pattern_exact"]
    assert found.same_changes == pytest.approx(exact, rel=1e-9)
    assert found.epsilon <= found.same_changes <= found.enforced / 1e6
    assert found.covering_changes == pytest.approx(
        2 + 3 * float(os.mechanism.epsilon_instantaneous)
    )


def test_what_is_remembered_is_added_plainly_to_what_rules_say_of_fresh_reports() -> None:
    kept = Remembered(LSue.from_epsilons(3, 1, 2), (30, 30))
    fresh, both = account([(0.1, 100)]), account([(0.1, 100)], [kept])
    assert both.epsilon == pytest.approx(fresh.epsilon + float(same_changes(kept)))
    assert (both.rule, both.figures) == (fresh.rule, fresh.figures)
    assert both.enforced == fresh.enforced + 4_000_000


def test_values_that_were_never_reported_cost_nothing() -> None:
    kept = Remembered(LSue.from_epsilons(3, 1, 2), (0, 5, 0))
    assert kept.enforced == 2_000_000
    assert same_changes(kept) == kept.mechanism.epsilon_of(5)


def test_what_remembers_nothing_is_refused() -> None:
    fresh = build("randomized_response", domain=2, epsilon=1)
    with pytest.raises(ParameterError, match="randomized_response remembers nothing"):
        account([], [Remembered(fresh, (3,))])


def test_where_the_remembered_response_is_sent_no_bound_covers_changes() -> None:
    flips = Remembered(DBitFlip.from_epsilon(5, 2, 1), (3,))
    assert covering_changes([flips]) is None
    assert account([(1, 1)], [flips]).covering_changes is None
    assert account([(1, 1)], [flips._replace(reports=(0,))]).covering_changes == 1


# Every history of a short life


def stages(
    mechanism: Mechanism,
) -> tuple[list[dict[int, Fraction]], dict[int, dict[int, Fraction]]]:
    """What each value is remembered as, and what each memory sends."""
    assert mechanism.domain is not None

    def remember(value: int) -> Any:
        return lambda coin: mechanism.permanent(value, 0, coin)

    def send(memory: int) -> Any:
        return lambda coin: mechanism.instantaneous(memory, coin)

    memories = [law(remember(value))[0] for value in range(mechanism.domain)]
    return memories, {memory: law(send(memory))[0] for memory in memories[0]}


def outcome_laws(mechanism: Mechanism, reports: int) -> dict[History, list[Fraction]]:
    """The law of all sequences of reports, by the history of values; one memory for each value."""
    memories, sent = stages(mechanism)
    outcomes = list(product(sorted(next(iter(sent.values()))), repeat=reports))

    def chance(history: History, outcome: Sequence[int]) -> Fraction:
        whole = Fraction(1)
        for value in set(history):
            own = [y for y, had in zip(outcome, history, strict=True) if had == value]
            whole *= sum(
                (
                    weight * math.prod((sent[memory][y] for y in own), start=Fraction(1))
                    for memory, weight in memories[value].items()
                ),
                Fraction(0),
            )
        return whole

    return {
        history: [chance(history, outcome) for outcome in outcomes]
        for history in product(range(len(memories)), repeat=reports)
    }


def losses(mechanism: Mechanism, reports: int) -> Iterator[tuple[History, History, Decimal]]:
    laws = outcome_laws(mechanism, reports)
    for one, other in product(laws, repeat=2):
        worst = max(p / q for p, q in zip(laws[one], laws[other], strict=True))
        yield one, other, log_ratio(worst, Fraction(1))


def reports_of_values(history: History) -> tuple[int, ...]:
    return tuple(history.count(value) for value in dict.fromkeys(history))


def pattern(history: History) -> tuple[int, ...]:
    """Which reports have equal values."""
    return tuple(history.index(value) for value in history)


SHORT_LIVES = [
    pytest.param(LGrr.from_epsilons(2, "0.5", 1), 4, id="two values, four reports"),
    pytest.param(LGrr.from_epsilons(3, "0.7", 3), 3, id="three values, three reports"),
    pytest.param(LGrr.from_epsilons(4, "0.5", 4), 2, id="four values, two reports"),
    pytest.param(LSue.from_epsilons(2, 1, 2), 3, id="two bits, three reports"),
    # Half-and-half against constant loses more than T epsilon here at T = 8 (reference 10.3).
    pytest.param(LGrr(2, int(ONE * 0.7310585786300049), 3 * ONE // 4), 5, id="reference 10.3"),
]


@pytest.mark.parametrize(("mechanism", "reports"), SHORT_LIVES)
def test_the_bound_that_covers_changes_is_never_below_any_two_histories(
    mechanism: Mechanism, reports: int
) -> None:
    bound = covering_changes([Remembered(mechanism, (reports,))])
    assert bound is not None
    worst = max(loss for _, _, loss in losses(mechanism, reports))
    assert worst <= bound
    # It is no empty bound either: one history that changes with every report comes near it.
    assert worst > bound / 4


@pytest.mark.parametrize(("mechanism", "reports"), SHORT_LIVES)
def test_histories_that_change_alike_lose_at_most_the_sum_over_their_values(
    mechanism: Mechanism, reports: int
) -> None:
    attained = Decimal(0)
    for one, other, loss in losses(mechanism, reports):
        if pattern(one) != pattern(other):
            continue
        kept = Remembered(mechanism, reports_of_values(one))
        bound = same_changes(kept)
        assert loss - bound <= Decimal("1e-50")
        assert float(bound) <= kept.enforced / 1e6
        attained = max(attained, loss / bound)
    assert attained == pytest.approx(1)  # tight: exact where all values differ


@pytest.mark.parametrize("rounds", [2, 4, 8])
def test_a_change_tells_what_the_reference_says_and_only_one_figure_covers_it(rounds: int) -> None:
    entry = GOLDEN[f"change-leak-T{rounds}"]
    kept = Fraction(math.exp(1) / (1 + math.exp(1)))
    mechanism = LGrr(2, int(ONE * kept), 3 * ONE // 4)
    memories, sent = stages(mechanism)

    def chance(ones: int, of: int, value: int) -> Fraction:
        return sum(
            (
                weight * sent[memory][1] ** ones * sent[memory][0] ** (of - ones)
                for memory, weight in memories[value].items()
            ),
            Fraction(0),
        )

    half = rounds // 2
    worst = Fraction(1)
    for first, second in product(range(half + 1), repeat=2):
        changed = chance(first, half, 1) * chance(second, half, 0)
        constant = chance(first + second, rounds, 1)
        worst = max(worst, changed / constant, constant / changed)
    loss = log_ratio(worst, Fraction(1))
    assert float(loss) == pytest.approx(entry["eps_half_change_vs_constant"], rel=1e-9)
    sums = half * float(mechanism.epsilon)
    assert sums == pytest.approx(entry["sum_eps1_of_differing_reports"], rel=1e-9)
    bound = covering_changes([Remembered(mechanism, (half, half))])
    assert bound is not None and sums < float(loss) <= float(bound)


# Windows

DAILY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 3.5
contact = "telemetry@example.org"
window = {{ days = {days}, epsilon = {epsilon} }}
"""
SOMETIMES = """
[metrics.{name}]
question = "Did the app crash on that day?"
type = "boolean"
sensitivity = "product"
epsilon = {epsilon}
epoch = "day"
starts = {starts}
expires = {expires}
owners = ["web@example.org"]
"""


def file_of(charges: Sequence[float], first: date, days: int, allowed: float) -> str:
    """A file that asks one question on each day with a charge."""
    text = DAILY.format(days=days, epsilon=allowed)
    for number, charge in enumerate(charges):
        if charge:
            text += SOMETIMES.format(
                name=f"day_{number}",
                epsilon=charge,
                starts=first + timedelta(days=number),
                expires=first + timedelta(days=number + 1),
            )
    return text


def test_the_windows_of_a_file_are_the_references_and_its_promise_never_below() -> None:
    entry = GOLDEN["window-budget"]
    first, days = date(2026, 11, 2), entry["window"]
    text = file_of(entry["daily"], first, days, entry["lifetime"])
    metrics = loads(text).metrics.values()
    assert sum(metric.share(first) for metric in metrics) == entry["lifetime"] * 1e6
    worst = max(
        sum(
            metric.charge
            * metric.blocks(max(metric.starts, day), min(metric.expires, day + timedelta(days)))
            for metric in metrics
        )
        for day in (first + timedelta(days=shift) for shift in range(-days, len(entry["daily"])))
    )
    assert worst == entry["max_window"] * 1e6
    # A promise adds each metric's own worst window, so it may ask for more, never for less.
    promised = sum(metric.charge * metric.most_reports_in(days) for metric in metrics)
    assert promised >= worst
    with pytest.raises(RegistryError, match=r"project\.window"):
        loads(file_of(entry["daily"], first, days, entry["max_window"] - 0.1))


def test_of_a_metric_that_is_asked_daily_the_promise_is_exactly_the_worst_window() -> None:
    first = date(2026, 11, 2)
    text = DAILY.format(days=3, epsilon=1.5) + SOMETIMES.format(
        name="crashed", epsilon=0.5, starts=first, expires=first + timedelta(days=7)
    )
    (metric,) = loads(text).metrics.values()
    assert metric.charge * metric.most_reports_in(3) == 1_500_000
    with pytest.raises(RegistryError, match=r"project\.window"):
        loads(text.replace("epsilon = 1.5", "epsilon = 1.49"))

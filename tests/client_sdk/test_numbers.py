"""Numbers without buckets: how they are declared, placed in their range, and explained."""

import math
import re
from decimal import Context, Decimal, FloatOperation, Inexact, localcontext
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk import loads
from client_sdk.changes import changes
from client_sdk.errors import RegistryError
from client_sdk.mechanisms import POSITIONS
from client_sdk.metric import Metric, number_at
from client_sdk.preview import in_words
from client_sdk.registry import Registry
from tests.registries import registry

NAMES = ["one_bit_mean", "piecewise", "discrete_laplace"]


def file_of(**keys: str | None) -> Registry:
    own: dict[str, str | None] = {
        "question": '"How many hours was the app open?"',
        "type": '"number"',
        "range": "[-10, 30]",
        "missing": "0",
        "mechanism": '"one_bit_mean"',
        "sensitivity": '"product"',
        "epsilon": "1.0",
        "epoch": '"week"',
        "starts": "2026-11-02",
        "expires": "2027-12-31",
    } | keys
    lines = [f"{key} = {value}" for key, value in own.items() if value is not None]
    return loads(registry("\n".join(["[metrics.hours]", *lines])))


def hours(**keys: str | None) -> Metric:
    return file_of(**keys).metrics["hours"]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_whose_mean_is_measured_needs_no_buckets(name: str) -> None:
    metric = hours(mechanism=f'"{name}"')
    assert metric.mechanism.name == name
    assert metric.labels == ()
    assert metric.edges == (-10, 30)
    assert metric.missing == POSITIONS // 4
    assert metric.charge <= 1_000_000


@pytest.mark.parametrize(
    ("keys", "key", "rule"),
    [
        ({"buckets": "4"}, "buckets", "not a known key"),
        ({"missing": "31"}, "missing", "in range"),
        ({"range": "[3, 3]"}, "range", "ascend"),
        ({"mechanism": '{ name = "piecewise", steps = 0 }'}, "mechanism.steps", "1..32768"),
        ({"mechanism": '{ name = "piecewise", bits = 8 }'}, "mechanism.bits", "known key"),
        ({"mechanism": '{ name = "one_bit_mean", steps = 8 }'}, "mechanism.steps", "known key"),
        ({"mechanism": '"square_wave"'}, "buckets", "required"),
        ({"mechanism": '"square_wave"', "buckets": "300"}, "mechanism", "at most 256"),
        ({"mechanism": '"optimized_unary"'}, "buckets", "required"),
        ({"when_absent": "31"}, "when_absent", "value of the metric"),
        ({"when_absent": '"none"'}, "when_absent", "value of the metric"),
        ({"memoize": "{ epsilon_permanent = 2, distinct_values = 2 }"}, "memoize", "remembers"),
        ({"epsilon": "1e-20"}, "mechanism", "too small"),
    ],
)
def test_what_does_not_fit_a_number_is_named(keys: dict[str, str], key: str, rule: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(rule)) as caught:
        file_of(**keys)
    assert caught.value.key == f"metrics.hours.{key}"


@pytest.mark.parametrize("kind", ["boolean", "category"])
def test_values_without_an_order_are_not_smoothed(kind: str) -> None:
    values = {"values": '["a", "b"]', "catch_all": '"b"'} if kind == "category" else {}
    with pytest.raises(RegistryError, match="takes neighbours for alike"):
        file_of(type=f'"{kind}"', range=None, missing=None, mechanism='"square_wave"', **values)
    stars = {"values": "[1, 2, 3]", "missing": "2"}
    metric = hours(type='"ordinal"', range=None, mechanism='"square_wave"', **stars)
    assert metric.mechanism.name == "square_wave"


@pytest.mark.parametrize("name", NAMES)
def test_a_mean_is_no_answer_to_a_question_with_a_list(name: str) -> None:
    with pytest.raises(RegistryError, match="for this type"):
        file_of(type='"ordinal"', range=None, values="[1, 2]", missing="1", mechanism=f'"{name}"')


HOURS = hours()


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False)))
def test_every_number_has_the_nearest_place_of_its_range(value: int | float | Decimal) -> None:
    place, clamped = HOURS.encode(value)
    assert type(place) is int
    assert clamped == (not -10 <= value <= 30)
    wanted = min(max(float(value), -10.0), 30.0)
    assert abs(float(number_at(place, HOURS.edges)) - wanted) <= 40 / POSITIONS
    assert HOURS.decode(place) == number_at(place, HOURS.edges)


@pytest.mark.parametrize("nothing", [None, math.nan, Decimal("nan"), Decimal("sNaN")])
def test_nothing_is_the_number_that_stands_for_missing(nothing: Any) -> None:
    assert HOURS.encode(nothing) == (HOURS.missing, False)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.inf, POSITIONS),
        (-math.inf, 0),
        (Decimal("Infinity"), POSITIONS),
        (10**1_000_000, POSITIONS),
        (Decimal("1e-999999"), POSITIONS // 4),
        (Decimal("-1e-999999999"), POSITIONS // 4),
        (5e-324, POSITIONS // 4),
    ],
    ids=["inf", "-inf", "decimal-inf", "a-million-digits", "tiny", "tinier", "denormal"],
)
def test_a_number_out_of_all_proportion_is_placed_at_once(value: Any, place: int) -> None:
    began = perf_counter()
    assert HOURS.encode(value)[0] == place
    assert perf_counter() - began < 0.2  # exact fractions of these would fill the memory


def test_the_precision_of_the_host_does_not_move_a_number() -> None:
    wanted = HOURS.encode(7.654321)
    file = {"range": "[-10.1234567, 30]", "missing": "7.654321"}
    missing = hours(**file).missing
    for traps in ([FloatOperation], [Inexact]):
        with localcontext(Context(prec=2, traps=traps)):
            assert HOURS.encode(7.654321) == wanted
            assert hours(**file).missing == missing


def test_other_steps_are_another_channel_and_other_when_absent_another_version() -> None:
    coarse = hours(mechanism='{ name = "piecewise", steps = 16 }')
    fine = hours(mechanism='{ name = "piecewise", steps = 17 }')
    assert coarse.channel_hash != fine.channel_hash
    zero, one = hours(when_absent="0"), hours(when_absent="1")
    assert zero.channel_hash == one.channel_hash
    assert zero.fingerprint != one.fingerprint


def test_what_changes_for_a_number_is_said_in_its_words() -> None:
    found = changes(file_of(), file_of(range="[-10, 31]", when_absent="2"))
    told = {finding.rule: finding.text for finding in found}
    assert "when_absent" in told
    assert any("another range" in text for text in told.values())


@pytest.mark.parametrize(
    ("name", "response", "said"),
    [
        ("one_bit_mean", "1", "one bit, 1, set the more often, the higher a number is"),
        ("one_bit_mean", "0", "one bit, 0,"),
        ("piecewise", 17, "place 17 of 0 to 50, near a number's own or any other"),
        ("discrete_laplace", 0, "place 0 of 0 to 64,"),
    ],
)
def test_a_report_of_a_number_is_explained_with_its_deniability(
    name: str, response: int | str, said: str
) -> None:
    metric = hours(mechanism=f'"{name}"')
    report = {"metric": "hours", "fingerprint": metric.fingerprint, "epoch": 2970, "cohort": 0}
    words = in_words({**report, "response": response}, metric)
    assert said in words
    assert "every number from -10 to 30 may or may not have been your answer" in words

"""Whatever the host records is mapped into the domain, without telling anybody the value."""

import enum
from collections.abc import Callable
from decimal import Context, Decimal, FloatOperation, localcontext
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk import Registry, WrongType, loads
from client_sdk.metric import LONGEST_STRING, Metric, normalized

REGISTRY = loads("""
schema = 1
[project]
name = "a"
lifetime_epsilon = 100
contact = "c"
[metrics.flag]
type = "boolean"
missing = true
question = "q"
sensitivity = "product"
epsilon = 1
epoch = "month"
starts = 2026-12-01
expires = 2027-03-01
[metrics.theme]
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
missing = "dark"
question = "q"
sensitivity = "product"
epsilon = 1
epoch = "month"
starts = 2026-12-01
expires = 2027-03-01
[metrics.code]
type = "category"
values = [200, 404, 0]
catch_all = 0
question = "q"
sensitivity = "product"
epsilon = 1
epoch = "month"
starts = 2026-12-01
expires = 2027-03-01
[metrics.stars]
type = "ordinal"
values = [1, 2, 3]
missing = 2
question = "q"
sensitivity = "product"
epsilon = 1
epoch = "month"
starts = 2026-12-01
expires = 2027-03-01
[metrics.load]
type = "number"
range = [-10, 10]
buckets = 4
missing = 9.5
question = "q"
sensitivity = "product"
epsilon = 1
epoch = "month"
starts = 2026-12-01
expires = 2027-03-01
[metrics.page]
type = "string"
missing = "(none)"
memoize = { epsilon_permanent = 4, distinct_values = 2 }
question = "q"
sensitivity = "location"
epsilon = 1
epoch = "month"
""")
FLAG, THEME, CODE, STARS, LOAD, PAGE = REGISTRY.metrics.values()


class Theme(enum.StrEnum):
    DARK = "dark"


class Status(enum.IntEnum):
    NOT_FOUND = 404


class Stubborn(float):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __gt__ = __le__ = __ge__ = __lt__


@pytest.mark.parametrize(
    ("metric", "value", "encoded", "clamped"),
    [
        (FLAG, True, 1, False),
        (FLAG, False, 0, False),
        (THEME, "light", 0, False),
        (THEME, "Light", 2, True),
        (THEME, "", 2, True),
        (THEME, "x" * 10**6, 2, True),
        (THEME, Theme.DARK, 1, False),
        (CODE, 404, 1, False),
        (CODE, Status.NOT_FOUND, 1, False),
        (CODE, -(10**30), 2, True),
        (STARS, 3, 2, False),
        (STARS, 4, 1, True),  # an ordinal has no catch-all: strangers count as missing
        (LOAD, -10, 0, False),
        (LOAD, -10.5, 0, True),
        (LOAD, -5, 1, False),
        (LOAD, -5.0000001, 0, False),
        (LOAD, Decimal("-5"), 1, False),
        (LOAD, 0, 2, False),
        (LOAD, -0.0, 2, False),
        (LOAD, 10, 3, False),
        (LOAD, 10.0000001, 3, True),
        (LOAD, float("inf"), 3, True),
        (LOAD, float("-inf"), 0, True),
        (LOAD, Decimal("Infinity"), 3, True),
        (LOAD, Decimal("-1e999999"), 0, True),
        (LOAD, 1e308, 3, True),
        (LOAD, Stubborn(5.5), 3, False),
        (PAGE, "example.org", "example.org", False),
        (PAGE, "", "", False),
        (PAGE, "e\u0301", "\u00e9", False),  # NFC
        (PAGE, "\ud800", "\ud800", False),  # half a surrogate pair
        (PAGE, "x" * (LONGEST_STRING + 1), "x" * LONGEST_STRING, True),
    ],
)
def test_a_value_is_mapped_into_the_domain(
    metric: Metric, value: object, encoded: object, clamped: bool
) -> None:
    assert metric.encode(value) == (encoded, clamped)


@pytest.mark.parametrize("metric", REGISTRY.metrics.values(), ids=lambda metric: metric.name)
@pytest.mark.parametrize(
    "nothing", [None, float("nan"), float("-nan"), Decimal("NaN"), Decimal("sNaN")], ids=str
)
def test_nothing_and_not_a_number_become_missing(metric: Metric, nothing: object) -> None:
    missing = {"flag": 1, "theme": 1, "code": 2, "stars": 1, "load": 3, "page": "(none)"}
    assert metric.encode(nothing) == (missing[metric.name], False)


CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (FLAG, 1),
        (FLAG, 0),
        (FLAG, CANARY),
        (FLAG, 1.0),
        (THEME, 5),
        (THEME, True),
        (THEME, CANARY.encode()),
        (THEME, [CANARY]),
        (CODE, True),  # True == 1, but it is no integer that somebody meant
        (CODE, 404.0),
        (CODE, "404"),
        (STARS, CANARY),
        (LOAD, True),
        (LOAD, CANARY),
        (LOAD, 1j),
        (LOAD, Status),
        (PAGE, CANARY.encode()),
        (PAGE, 5),
        (PAGE, (CANARY,)),
    ],
)
def test_a_wrong_type_is_refused_without_showing_the_value(metric: Metric, value: object) -> None:
    with pytest.raises(WrongType, match=rf"^{metric.name} takes .*None$") as caught:
        metric.encode(value)
    assert CANARY not in str(caught.value)


def test_a_host_that_traps_float_comparisons_can_record_floats() -> None:
    with localcontext(Context(prec=1, traps=[FloatOperation])):
        assert LOAD.encode(4.9999) == (2, False)


@pytest.mark.parametrize("value", [10**1_000_000, -(10**1_000_000)], ids=["large", "small"])
def test_an_integer_of_a_million_digits_is_clamped_at_once(value: int) -> None:
    began = perf_counter()
    assert LOAD.encode(value) == (3 if value > 0 else 0, True)
    assert perf_counter() - began < 0.05  # converting it would take 12 seconds


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False)))
def test_every_number_falls_into_the_bucket_that_holds_it(value: int | float | Decimal) -> None:
    encoded, clamped = LOAD.encode(value)
    assert isinstance(encoded, int)
    assert clamped == (not -10 <= value <= 10)
    if not clamped:
        low, high = LOAD.edges[encoded], LOAD.edges[encoded + 1]
        assert low <= value and (value < high or encoded == 3)


@given(st.text(st.characters(), max_size=1100))
def test_the_normal_form_of_a_string_is_its_own_normal_form(text: str) -> None:
    once = normalized(text)
    assert len(once) <= LONGEST_STRING
    assert normalized(once) == once


def test_a_string_that_normalization_lengthens_still_has_one_form() -> None:
    # U+FB2C becomes three characters in NFC.
    once = normalized("\ufb2c" * LONGEST_STRING)
    assert len(once) == LONGEST_STRING
    assert normalized(once) == once


@given(st.sampled_from([FLAG, THEME, CODE, STARS, LOAD]), st.from_type(object))
def test_what_is_encoded_always_lies_in_the_domain(metric: Metric, value: object) -> None:
    try:
        encoded, _ = metric.encode(value)
    except WrongType:
        return
    assert type(encoded) is int
    assert 0 <= encoded < len(metric.labels)
    assert metric.mechanism.domain == len(metric.labels)


def test_a_share_counts_the_epochs_that_are_left(
    registry_of: Callable[..., Registry],
) -> None:
    metric = registry_of().metrics["theme"]  # daily, 1 to 7 December
    assert metric.share(metric.starts) == 7_000_000
    assert metric.share(metric.starts.replace(day=7)) == 1_000_000
    assert metric.share(metric.expires) == 0
    assert PAGE.share(PAGE.starts) == PAGE.charge == 8_000_000

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_sdk.epochs import (
    LENGTHS,
    EpochLength,
    as_length,
    day_of,
    end_of,
    epoch_of,
    first_day,
    label,
    parse,
)

days = st.dates(date(1970, 1, 1), date(9000, 1, 1))
lengths = st.sampled_from(LENGTHS)


@given(lengths, days)
def test_a_label_names_its_epoch(length: EpochLength, day: date) -> None:
    epoch = epoch_of(length, day)
    assert parse(length, label(length, epoch)) == epoch


@given(st.sampled_from(["day", "week", "month"]), days)
def test_an_epoch_holds_its_days_and_ends_where_the_next_begins(
    length: EpochLength, day: date
) -> None:
    epoch = epoch_of(length, day)
    first, following = first_day(length, epoch), first_day(length, epoch + 1)
    assert first <= day < following
    assert epoch_of(length, first) == epoch
    assert epoch_of(length, following - timedelta(days=1)) == epoch
    assert epoch_of(length, following) == epoch + 1
    assert day_of(end_of(length, epoch)) == following
    assert day_of(end_of(length, epoch) - 1) == following - timedelta(days=1)


@pytest.mark.parametrize(
    ("length", "day", "epoch", "name"),
    [
        ("day", date(1970, 1, 1), 0, "1970-01-01"),
        ("day", date(2026, 11, 29), 20_786, "2026-11-29"),
        ("week", date(1970, 1, 1), 0, "1970-W01"),
        ("week", date(1970, 1, 4), 0, "1970-W01"),
        ("week", date(1970, 1, 5), 1, "1970-W02"),
        ("week", date(2026, 11, 29), 2_969, "2026-W48"),  # a Sunday
        ("week", date(2026, 11, 30), 2_970, "2026-W49"),
        ("week", date(2026, 12, 31), 2_974, "2026-W53"),
        ("week", date(2027, 1, 3), 2_974, "2026-W53"),  # an ISO year with 53 weeks
        ("week", date(2027, 1, 4), 2_975, "2027-W01"),
        ("week", date(2024, 12, 30), 2_870, "2025-W01"),  # week 1 of 2025 begins in 2024
        ("month", date(1970, 1, 31), 0, "1970-01"),
        ("month", date(2026, 12, 31), 683, "2026-12"),
        ("month", date(2027, 1, 1), 684, "2027-01"),
        ("once", date(2026, 11, 29), 0, "once"),
    ],
)
def test_known_days_have_known_epochs(
    length: EpochLength, day: date, epoch: int, name: str
) -> None:
    assert epoch_of(length, day) == epoch
    assert label(length, epoch) == name


@pytest.mark.parametrize(
    ("seconds", "day"),
    [
        (0, date(1970, 1, 1)),
        (86_399.999, date(1970, 1, 1)),
        (86_400, date(1970, 1, 2)),
        (-0.001, date(1969, 12, 31)),
        (1_796_083_200, date(2026, 12, 1)),
    ],
)
def test_days_change_at_midnight_utc(seconds: float, day: date) -> None:
    assert day_of(seconds) == day


def test_once_never_ends_by_itself() -> None:
    assert end_of("once", 0) == float("inf")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        ("day", "2026-W48-7"),
        ("day", "20261129"),
        ("day", "2026-11-31"),
        ("day", "1969-12-31"),
        ("day", " 2026-11-29"),
        ("day", ""),
        ("week", "2026-W54"),
        ("week", "2025-W53"),
        ("week", "2026-W00"),
        ("week", "2026-48"),
        ("week", "2026-W5"),
        ("week", "2026-W48-1"),
        ("week", "0001-W01"),
        ("week", "9999-W53"),
        ("month", "2026-13"),
        ("month", "2026-1"),
        ("month", "2026-11-29"),
        ("month", "99999-01"),
        ("once", "Once"),
        ("once", "0"),
        ("week", "\uff12\uff10\uff12\uff16-W48"),
    ],
)
def test_what_names_no_epoch_is_refused_with_an_example(length: EpochLength, text: str) -> None:
    with pytest.raises(ValueError, match=rf"an epoch of length {length} is written like .*, got"):
        parse(length, text)


@given(lengths, st.text(max_size=12))
def test_parsing_raises_value_errors_only(length: EpochLength, text: str) -> None:
    try:
        epoch = parse(length, text)
    except ValueError:
        return
    assert label(length, epoch) == text


def test_an_unknown_length_is_refused() -> None:
    assert as_length("week") == "week"
    with pytest.raises(ValueError, match="one of day, week, month, once, got 'hour'"):
        as_length("hour")

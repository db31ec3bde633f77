"""What a reviewer is told to look at twice."""

from datetime import date
from math import log
from typing import Any

import pytest

from client_sdk import Registry, RegistryError, loads
from client_sdk.review import (
    Finding,
    covering_changes,
    error_of_a_rare_value,
    review,
    yearly,
)

TODAY = date(2026, 12, 7)
TEXT = """
schema = 1
[project]
name = "a"
lifetime_epsilon = 1000
contact = "{contact}"
[metrics."{name}"]
question = "{question}"
type = "boolean"
sensitivity = "{sensitivity}"
epsilon = {epsilon}
epoch = "{epoch}"
starts = 2026-12-01
expires = {expires}
owners = ["{owner}"]
{more}
"""
STRING = """
[metrics.s]
question = "Which site is the start page?"
type = "string"
sensitivity = "product"
epsilon = 1
memoize = { epsilon_permanent = 4, distinct_values = 2 }
epoch = "week"
min_reports = 1000
when_absent = ""
starts = 2026-12-01
expires = 2028-12-01
"""
NUMBER = """
[metrics."{name}"]
question = "{question}"
type = "number"
range = [0, 10]
buckets = 5
missing = 0
sensitivity = "product"
epsilon = 2
epoch = "month"
when_absent = 0
starts = 2026-12-01
expires = 2027-12-01
"""


def text(more: str = "when_absent = false", **changes: str) -> str:
    usual = {
        "name": "crashed",
        "question": "Did the app crash this month?",
        "contact": "telemetry@example.org",
        "owner": "ui-team@example.org",
        "sensitivity": "product",
        "epsilon": "1",
        "epoch": "month",
        "expires": "2028-12-01",
    }
    return TEXT.format(**{**usual, **changes}, more=more)


def found(text: str, rule: str | None = None, today: date = TODAY) -> list[Finding]:
    """The findings of one rule, or all."""
    findings = review(loads(text), today)
    return [each for each in findings if rule is None or each.rule == rule]


def only(text: str, rule: str, today: date = TODAY) -> Finding:
    (finding,) = found(text, today=today)
    assert finding.rule == rule
    return finding


def test_a_careful_file_gives_nothing_to_ask() -> None:
    assert found(text()) == []


@pytest.mark.parametrize(
    # The usual ranges of the design's lint.
    ("sensitivity", "low", "high"),
    [
        ("census", "0.1", "1"),
        ("health", "0.5", "2"),
        ("location", "1", "3"),
        ("product", "1", "5"),
        ("experiment", "2", "8"),
        ("public report", "0.5", "3"),
    ],
)
def test_epsilons_outside_the_usual_range_are_noted(sensitivity: str, low: str, high: str) -> None:
    def noted(epsilon: str) -> list[Finding]:
        return found(text(sensitivity=sensitivity, epsilon=epsilon), "usual_epsilon")

    assert not noted(low) and not noted(high)
    for epsilon, side in ((float(low) * 0.9, "below"), (float(high) * 1.1, "above")):
        (note,) = noted(f"{epsilon:.3f}")
        assert note.key == "metrics.crashed.epsilon" and side in note.text
        assert note.level == "note"


def test_silence_that_shows_is_noted() -> None:
    note = only(text(more=""), "silence")
    assert note.key == "crashed" and "when_absent" in note.text
    assert found(text(more="", epoch="once"), "silence") == []  # there it would be refused


def test_changes_that_show_are_noted() -> None:
    (note,) = found(text() + STRING, "memoize")
    assert note.key == "metrics.s.memoize"


def test_an_expired_metric_is_an_error() -> None:
    assert found(text(), "expired", date(2028, 11, 30)) == []
    error = only(text(), "expired", today=date(2028, 12, 1))
    assert error.level == "error" and "metrics.crashed.expires" in str(error)


@pytest.mark.parametrize(
    ("expires", "today", "noted"),
    [
        ("2028-12-01", TODAY, False),
        ("2028-12-08", TODAY, True),
        # Counted from the start where that lies ahead.
        ("2028-12-01", date(2026, 1, 1), False),
        ("2028-12-02", date(2026, 1, 1), True),
    ],
)
def test_a_life_of_more_than_two_years_is_noted(expires: str, today: date, noted: bool) -> None:
    assert [each.key for each in found(text(expires=expires), "expiry", today)] == [
        "metrics.crashed.expires"
    ] * noted


def test_a_metric_without_an_end_is_noted() -> None:
    (note,) = found(text() + STRING.replace("expires = 2028-12-01\n", ""), "expiry")
    assert "no end" in note.text


@pytest.mark.parametrize("owner", ["the UI team", "ui@team", "@example.org", "a b@example.org"])
def test_an_owner_who_cannot_be_written_to_is_noted(owner: str) -> None:
    note = only(text(owner=owner), "owners")
    assert note.key == "metrics.crashed.owners" and owner in note.text


@pytest.mark.parametrize(
    ("contact", "noted"),
    [
        ("us", True),
        ("telemetry@example.org", False),
        ("Telemetry <telemetry@example.org>", False),
        ("https://example.org/privacy", False),
    ],
)
def test_a_contact_nobody_can_reach_is_noted(contact: str, noted: bool) -> None:
    assert len(found(text(contact=contact))) == noted


@pytest.mark.parametrize(
    ("question", "name", "complaint"),
    [
        ("Crashed?", "crashed", "write it out"),
        ("Did it crash?", "crashed", "write it out"),
        ("The app crashed this month", "crashed", "no question mark"),
        ("Did the app crash?", "did_the_app.crash", "write it out"),
    ],
)
def test_a_question_that_tells_a_user_nothing_is_noted(
    question: str, name: str, complaint: str
) -> None:
    assert complaint in only(text(question=question, name=name), "question").text


def test_four_words_may_be_a_question() -> None:
    assert found(text(question="Did the app crash?")) == []


@pytest.mark.parametrize(
    ("name", "question", "noted"),
    [
        ("load", "Is a page slow to load?", True),
        ("load_seconds", "Is a page slow to load?", False),
        ("load", "How many seconds does a page load?", False),
        ("windows", "How many windows are open?", False),
        ("cache.mib", "How large is the cache?", False),
    ],
)
def test_a_number_without_a_unit_is_noted(name: str, question: str, noted: bool) -> None:
    number = NUMBER.format(name=name, question=question)
    assert len(found(text() + number, "unit")) == noted


def test_a_costly_year_is_noted_with_the_metric_that_costs_most() -> None:
    # 13 months touch a year: 13 epsilon each.
    second = text(name="upgraded").partition("[metrics")
    both = text() + "[metrics" + second[2]
    note = only(both.replace("epsilon = 1\n", "epsilon = 1.2\n", 1), "yearly_epsilon")
    assert "28.6 epsilon" in note.text and "crashed, 15.6" in note.text
    assert found(both.replace("2028-12-01", "2027-08-01"), "yearly_epsilon") == []
    for epsilon, noted in (("0.77", True), ("0.76", False)):  # 2 x 13 x 0.77 = 20.02
        cheaper = both.replace("epsilon = 1\n", f"epsilon = {epsilon}\n")
        assert len(found(cheaper, "yearly_epsilon")) == noted


@pytest.mark.parametrize(
    ("one", "other", "noted"),
    [
        ("crashed", "crash", False),
        ("theme_used", "theme_user", True),
        ("startup.time", "startup_time", True),
        ("cpu", "gpu", False),
        ("crashed", "theme", False),
    ],
)
def test_names_that_are_taken_for_each_other_are_noted(one: str, other: str, noted: bool) -> None:
    both = text(name=one, epoch="once", more="") + (
        "[metrics" + text(name=other, epoch="once", more="").partition("[metrics")[2]
    )
    assert [each.key for each in found(both, "similar_names")] == [f"{one}, {other}"] * noted


def test_a_release_of_min_reports_that_says_nothing_is_noted() -> None:
    # q(1-q)/n/(p-q)^2 with p = e/(1+e), q = 1 - p: 0.192 at epsilon 1 and n = 25.
    metric = loads(text()).metrics["crashed"]
    assert error_of_a_rare_value(metric, 25) == pytest.approx(0.192, abs=5e-4)
    assert not found(text(more="when_absent = false\nmin_reports = 15"))  # 0.248
    note = only(text(more="when_absent = false\nmin_reports = 10"), "min_reports")
    assert "30 %" in note.text


def test_no_grace_at_all_is_noted() -> None:
    (note,) = found(text(more="grace = 0"), "grace")
    assert note.key == "metrics.crashed.grace"
    assert found(text(more="grace = 1"), "grace") == []
    assert found(text(more="grace = 0", epoch="once"), "grace") == []


def test_a_long_grace_of_a_daily_metric_is_noted() -> None:
    daily = {"epoch": "day", "expires": "2026-12-10"}
    assert found(text(**daily, more="grace = 7"), "grace") == []
    assert "8 days" in found(text(**daily, more="grace = 8"), "grace")[0].text
    assert found(text(more="grace = 31"), "grace") == []


def test_a_catch_all_that_is_no_value_is_refused_at_load() -> None:
    broken = text(more='values = ["a", "b"]\ncatch_all = "c"').replace("boolean", "category")
    with pytest.raises(RegistryError, match=r"catch_all: must be one of values, got 'c'"):
        loads(broken)


def test_a_year_costs_what_its_epochs_do() -> None:
    def costs(**changes: str) -> int:
        return yearly(loads(text(**changes)).metrics["crashed"])

    # 365 days touch at most 53 weeks; 365 days; 13 months; of 53 weeks, 14 blocks of four.
    assert costs(epoch="week") == 53_000_000
    assert costs(epoch="day") == 365_000_000
    assert costs(epoch="month") == 13_000_000
    assert costs(epoch="week", more="when_absent = false\nevery = 4") == 14_000_000


def test_a_memoized_metric_costs_its_reservation_whatever_the_year() -> None:
    assert yearly(loads(text() + STRING).metrics["s"]) == 8_000_000


def string_registry(**changes: Any) -> Registry:
    table = STRING
    for key, value in changes.items():
        table = table.replace(f"{key} = 2026-12-01", f"{key} = {value}")
        table = table.replace(f"{key} = 2028-12-01", f"{key} = {value}")
    return loads(text() + table)


def test_the_bound_that_covers_changes_counts_every_report() -> None:
    metric = string_registry(starts="2026-12-07", expires="2026-12-28").metrics["s"]
    # Three weeks; 128 bits that may all differ, ln(q/p) each with q = 1 - p.
    mechanism: Any = metric.mechanism
    q, p = mechanism.report_if_one, mechanism.report_if_zero
    bound = covering_changes(metric)
    assert bound is not None
    assert bound / 1e6 == pytest.approx(3 * 128 * log(q / p), abs=1e-5)
    assert bound > metric.share(metric.starts) == 8_000_000


def test_without_memory_the_share_covers_changes_already() -> None:
    metric = loads(text(epoch="week")).metrics["crashed"]
    # 105 weeks from Monday 30 November 2026 to Thursday 30 November 2028.
    assert covering_changes(metric) == metric.share(metric.starts) == 105_000_000


def test_without_an_end_there_is_no_bound_on_changes() -> None:
    endless = loads(text() + STRING.replace("expires = 2028-12-01\n", ""))
    assert covering_changes(endless.metrics["s"]) is None

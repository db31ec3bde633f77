"""What a reviewer is told to look at twice."""

from math import log

import pytest

from client_sdk import loads
from client_sdk.review import covering_changes, warnings, yearly

TEXT = """
schema = 1
[project]
name = "a"
lifetime_epsilon = 1000
contact = "c"
[metrics.m]
question = "Q?"
type = "boolean"
sensitivity = "{sensitivity}"
epsilon = {epsilon}
epoch = "{epoch}"
starts = 2026-12-01
expires = 2028-12-01
{more}
"""
STRING = """
[metrics.s]
question = "Q?"
type = "string"
sensitivity = "product"
epsilon = 1
memoize = { epsilon_permanent = 4, distinct_values = 2 }
epoch = "week"
when_absent = ""
"""


def text(sensitivity="product", epsilon="1", epoch="week", more="when_absent = false") -> str:
    return TEXT.format(sensitivity=sensitivity, epsilon=epsilon, epoch=epoch, more=more)


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
def test_epsilons_outside_the_usual_range_are_noted(sensitivity, low, high):
    for epsilon in (low, high):
        assert not warnings(loads(text(sensitivity, epsilon)))
    for epsilon, side in ((float(low) * 0.9, "below"), (float(high) * 1.1, "above")):
        (note,) = warnings(loads(text(sensitivity, f"{epsilon:.3f}")))
        assert "metrics.m.epsilon" in note and side in note


def test_silence_that_shows_is_noted():
    (note,) = warnings(loads(text(more="")))
    assert note.startswith("m: ") and "when_absent" in note


def test_changes_that_show_are_noted():
    (note,) = warnings(loads(text() + STRING))
    assert "metrics.s.memoize" in note


def test_a_year_costs_what_its_epochs_do():
    # 365 days touch at most 53 weeks; 365 days; 13 months; with every = 4, 53 weeks touch at most 14 blocks.
    assert yearly(loads(text()).metrics["m"]) == 53_000_000
    assert yearly(loads(text(epoch="day")).metrics["m"]) == 365_000_000
    assert yearly(loads(text(epoch="month")).metrics["m"]) == 13_000_000
    spread = loads(text(more="when_absent = false\nevery = 4")).metrics["m"]
    assert yearly(spread) == 14_000_000


def test_the_bound_that_covers_changes_counts_every_report():
    metric = loads(
        text()
        + STRING.replace(
            'epoch = "week"', 'epoch = "week"\nstarts = 2026-12-07\nexpires = 2026-12-28'
        )
    ).metrics["s"]
    # Three weeks; 128 bits that may all differ, ln(q/p) each with q = 1 - p.
    mechanism = metric.mechanism
    q, p = mechanism.report_if_one, mechanism.report_if_zero
    assert covering_changes(metric) / 1e6 == pytest.approx(3 * 128 * log(q / p), abs=1e-5)
    assert covering_changes(metric) > metric.share(metric.starts) == 8_000_000


def test_without_an_end_there_is_no_bound_on_changes():
    assert covering_changes(loads(text() + STRING).metrics["s"]) is None

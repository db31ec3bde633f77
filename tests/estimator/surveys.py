"""Surveys and what came of them, for tests: tallies of whole reports, releases, previews."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.tally import Tally
from client_sdk.survey import Question, Survey, loads_survey
from estimator.estimate import estimate
from estimator.plausibility import judge
from estimator.releases import previews
from estimator.releases.files import write
from estimator.releases.previews import Preview
from estimator.releases.release import Release, compose
from tests import surveys
from tests.registries import Date
from tests.surveys import Document, toml


def question(
    name: str,
    mechanism: str,
    answers: Sequence[str],
    *,
    epsilon: float = 1.0,
    prefer_not: bool = False,
    text: str = "Well?",
) -> Document:
    """One question of a survey's file."""
    return surveys.question(
        name,
        mechanism=mechanism,
        epsilon=epsilon,
        prefer_not_to_answer=prefer_not,
        text={"en": text, "ar": "هل؟"},
        answers={each: {"en": each.capitalize(), "ar": each} for each in answers},
    )


LATE = question("late", "randomized_response", ["yes", "no"], text="Were you late?")
ILL = question(
    "ill",
    "generalized_randomized_response",
    ["never", "once", "often"],
    prefer_not=True,
    text="Ill at work?",
)
WHY = question("why", "optimized_unary", ["a", "b", "c", "d"], text="Why?")
WHO = question("who", "symmetric_unary", ["a", "b", "c"], text="Who?")
ALONE = question("alone", "generalized_randomized_response", ["yes", "no"])
DAYS = question("days", "generalized_randomized_response", list("abcdef"), epsilon=2.0)


HEAD: Document = {
    "languages": ["ar", "en"],
    "starts": Date("2026-11-01"),
    "expires": Date("2026-12-31"),
    "most_epsilon": 20.0,
    "min_reports": 50,
    "title": {"en": "Habits at work", "ar": "عادات العمل"},
}


def text_of(*questions: Document, **head: Any) -> str:
    """The text of a survey's file; head are keys of its [survey] table."""
    return toml(surveys.survey(*questions, **HEAD | head))


def survey_of(*questions: Document, **head: Any) -> Survey:
    """A survey of these questions."""
    return loads_survey(text_of(*questions, **head))


def tally_of(question: Question, shares: Sequence[float], n: int) -> Tally:
    """The tally that n reports have on average, in whole reports.

    Args:
        shares: Of the values in the metric's own order.
    """
    mechanism = question.metric.mechanism
    law = np.zeros(mechanism.cells)
    for value, share in enumerate(shares):
        law += share * np.array([float(part) for part in mechanism.channel(value, 0)])
    counts = np.round(n * law).astype(np.int64)
    if mechanism.kind == "cell":
        counts[0] += n - counts.sum()
    return Tally(np.array([n], np.int64), counts[None, :])


def release_of(question: Question, tally: Tally) -> Release:
    """The release of a tally."""
    metric = question.metric
    seen = judge(metric.mechanism, tally, ())
    return compose(metric, "survey habits", 0, estimate(metric, tally), seen, now=1_796_600_000.0)


def put(
    directory: Path, question: Question, tally: Tally, *, taken_at: float | None = None
) -> None:
    """Write a release, or a preview that was taken then."""
    release = release_of(question, tally)
    if taken_at is None:
        write(release, directory)
    else:
        previews.put(Preview(release, taken_at), directory)

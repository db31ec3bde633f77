"""Surveys and what came of them, for tests: tallies of whole reports, releases, previews."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aggregator.tally import Tally
from client_sdk.survey import Question, Survey, loads_survey
from estimator.estimate import estimate
from estimator.plausibility import judge
from estimator.releases import previews
from estimator.releases.files import write
from estimator.releases.previews import Preview
from estimator.releases.release import Release, compose

HEAD = """
schema = 1
[survey]
name = "{name}"
contact = "survey@example.org"
languages = ["ar", "en"]
admission = "{admission}"
starts = 2026-11-01
expires = 2026-12-31
most_epsilon = {most}
min_reports = 50
[survey.title]
en = "{title}"
ar = "عادات العمل"
[survey.purpose]
en = "The works council asks."
ar = "يسأل مجلس العاملين."
"""
QUESTION = """
[[questions]]
name = "{name}"
epsilon = {epsilon}
mechanism = "{mechanism}"
sensitivity = "census"
prefer_not_to_answer = {prefer_not}
[questions.text]
en = "{text}"
ar = "هل؟"
"""
ANSWER = '[questions.answers.{name}]\nen = "{text}"\nar = "{name}"\n'


def question(
    name: str,
    mechanism: str,
    answers: Sequence[str],
    *,
    epsilon: str = "1.0",
    prefer_not: bool = False,
    text: str = "Well?",
) -> str:
    """One question of a survey's file."""
    told = str(prefer_not).lower()
    head = QUESTION.format(
        name=name, mechanism=mechanism, epsilon=epsilon, text=text, prefer_not=told
    )
    return head + "".join(ANSWER.format(name=each, text=each.capitalize()) for each in answers)


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
DAYS = question("days", "generalized_randomized_response", list("abcdef"), epsilon="2.0")


def text_of(*questions: str, name: str = "habits", **head: str) -> str:
    """The text of a survey's file."""
    told = {"admission": "open", "most": "20", "title": "Habits at work"} | head
    return HEAD.format(name=name, **told) + "".join(questions)


def survey_of(*questions: str, **head: str) -> Survey:
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

"""Whether a question can be answered at all, in plain words, and what would help, with figures."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from estimator.planning.inverse import Target, epsilon_for, values_for
from estimator.planning.question import Question
from estimator.planning.ranking import Choice, Ranking

LARGEST_EPSILON = 8
"""Above it a larger epsilon is no advice: it protects hardly anybody."""


@dataclass(frozen=True)
class Verdict:
    """What the most exact mechanism can and cannot tell.

    Attributes:
        answers: Whether the smallest share that matters is visible; None if no formula says it.
        mechanism: Which mechanism that is; None if none can be planned.
        text: One sentence.
        helps: What would make it visible, one sentence each; empty if it is.
    """

    answers: bool | None
    mechanism: str | None
    text: str
    helps: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self) | {"helps": list(self.helps)}


def verdict(ranking: Ranking) -> Verdict:
    """Judge a question by the most exact mechanism that can answer it."""
    best = ranking.best
    if best is None:
        return unplanned(ranking.choices[0].name) if ranking.choices else _NONE
    return verdict_on(best, ranking.question)


def verdict_on(choice: Choice, question: Question) -> Verdict:
    """Judge a question by one mechanism that has a law."""
    limit, target = choice.figures.detection_limit, question.smallest_share
    if limit is not None and limit <= target:
        return Verdict(True, choice.name, _said(choice, question, limit))
    said = f"{_said(choice, question, limit)}; {percent(target)} matters"
    if limit is not None and percent(limit) == percent(target):
        said += ", and is just missed"
    return Verdict(False, choice.name, said, tuple(_helps(choice, question, Target(limit=target))))


def _said(choice: Choice, question: Question, limit: float | None) -> str:
    start = f"{question.reports:,.0f} reports at epsilon {question.epsilon.normalize():f}"
    if choice.figures.of == "mean":
        if limit is None:
            return f"{start} of a mean: no change of it is noticed, however large"
        return f"{start} of a mean: no change below {percent(limit)} of the range is noticed"
    kind = "candidate" if question.type == "string" else "value"
    over = f"over {question.listed} {kind}{'s' if question.listed > 1 else ''}"
    over = "yes/no" if question.type == "boolean" else over
    if limit is None:
        return f"{start} {over}: nothing is visible, whatever its share"
    return f"{start} {over}: nothing below {percent(limit)} is visible"


def _helps(choice: Choice, question: Question, target: Target) -> Iterator[str]:
    devices = target.devices(choice, question)
    if devices is not None:
        yield f"more devices: {round_up(devices):,} of them"
    epsilon = epsilon_for(choice, question, target)
    if epsilon is not None and epsilon <= LARGEST_EPSILON:
        yield f"a larger epsilon: {epsilon.normalize():f}"
    elif epsilon is None:
        bound = "" if question.memoize is None else " below epsilon_permanent"
        yield f"no larger epsilon{bound} is enough by itself"
    values = values_for(choice, question, target)
    if values is not None and values < question.listed:
        yield f"fewer values: {values}"
    reports = target.reports(choice, question)
    if reports is not None and question.inclusion < 1:
        whole = reports / question.devices
        if whole <= 1:
            inclusion = math.ceil(100 * whole) / 100
            yield f"every, sample: {inclusion:g} of the devices in an epoch are enough"
    if reports is not None and question.epoch != "once":
        pooled = math.ceil(reports / question.reports)
        unit = question.epoch
        if question.memoize is not None:
            yield (
                f"longer epochs in which {pooled} times as many devices report; the average of "
                f"{unit}s does less, since remembered noise stays"
            )
        elif pooled <= 1000:
            yield (
                f"longer epochs in which {pooled} times as many devices report; or the average "
                f"of {pooled} {unit}s, for {pooled} times epsilon"
            )


def unplanned(mechanism: str) -> Verdict:
    """Return the verdict on a mechanism without a law."""
    said = f"no formula states the error of {mechanism}, which is biased: simulate it"
    return Verdict(None, mechanism, said)


_NONE = Verdict(False, None, "no mechanism can answer this question")


def percent(share: float) -> str:
    """Print a share with two digits; of one above 1 that it is no share."""
    if share > 1:
        return "over 100 %"
    return f"{float(f'{100 * share:.2g}'):g} %"


def round_up(number: int) -> int:
    """Return a number of two digits and zeros, at least as large."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // step) * step

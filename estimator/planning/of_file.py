"""A plan of each metric that a file declares: what it will tell, and what would tell more."""

from dataclasses import dataclass
from typing import Any

from client_sdk.metric import Metric
from client_sdk.registry import Registry
from estimator.planning.question import Question
from estimator.planning.ranking import Choice, chosen, rank
from estimator.planning.verdict import Verdict, unplanned, verdict_on

_EQUAL = 1.0005


@dataclass(frozen=True)
class Planned:
    """What to expect of one metric.

    Attributes:
        metric: Its name.
        choice: Its own mechanism; None for strings without candidates, which are not looked for.
        verdict: Whether it answers.
        better: The most exact of all that could answer, if its error is less: name and shape.
        gain: The own error as a multiple of that one's.
    """

    metric: str
    choice: Choice | None
    verdict: Verdict
    better: str | None = None
    gain: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-ready."""
        return {
            "metric": self.metric,
            "figures": None if self.choice is None else self.choice.figures.to_dict(),
            "notes": [] if self.choice is None else list(self.choice.notes),
            "verdict": self.verdict.to_dict(),
            "better": self.better,
            "gain": self.gain,
        }


def planned(registry: Registry, devices: int) -> tuple[Planned, ...]:
    """Return a plan of each metric, in the file's order."""
    return tuple(_planned(metric, devices) for metric in registry.metrics.values())


def _planned(metric: Metric, devices: int) -> Planned:
    if metric.type == "string" and not metric.candidates:
        nothing = "there are no candidates: a release says how many reports came, and no share"
        return Planned(metric.name, None, Verdict(False, None, nothing))
    question = Question.of(metric, devices)
    own = chosen(metric, question)
    if own.law is None:
        return Planned(metric.name, own, unplanned(own.name))
    best = rank(question).best
    better = gain = None
    if best is not None and best.figures.of == own.figures.of:
        mine, other = own.figures.rare_error, best.figures.rare_error
        if mine is not None and other is not None and mine > other * _EQUAL:
            better, gain = _told(best), mine / other
    return Planned(metric.name, own, verdict_on(own, question), better, gain)


def _told(choice: Choice) -> str:
    declared = choice.declared()
    if isinstance(declared, str):
        return declared
    return f"{choice.name} ({', '.join(f'{k} = {v}' for k, v in declared.items() if k != 'name')})"

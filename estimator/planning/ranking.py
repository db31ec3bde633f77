"""Which mechanisms can answer a question, and how well: the most exact one first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from client_sdk.errors import RegistryError
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Metric
from estimator.errors import DecodeError
from estimator.planning.figures import Figures, cells_of, figures_of, metric_law
from estimator.planning.laws import Law
from estimator.planning.question import Question, measures_mean
from estimator.planning.sketch_shapes import best_shape, declared_as, fingerprint_note


@dataclass(frozen=True)
class Choice:
    """One mechanism for a question.

    Attributes:
        metric: As a file would declare it.
        law: How exact its reports are; None if no formula says it.
        figures: At the question's number of reports.
        is_default: Whether a file that names no mechanism gets it.
        notes: What a reviewer should know about it, in words.
    """

    metric: Metric
    law: Law | None
    figures: Figures
    is_default: bool
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.metric.mechanism.name

    @property
    def cells(self) -> int:
        """Over how many values a decision has to hold at once."""
        return cells_of(self.metric)

    def declared(self) -> str | dict[str, Any]:
        """Return what a file says under `mechanism`."""
        return declared_as(self.metric.mechanism)


@dataclass(frozen=True)
class Ranking:
    """All that can answer a question.

    Attributes:
        question: It.
        choices: Of shares by the error of a rare value, then of means, then what has no formula.
        refused: Names of the others that take such values, and why they cannot.
        default: What a file that names none gets; None if it must name one.
    """

    question: Question
    choices: tuple[Choice, ...]
    refused: Mapping[str, str]
    default: str | None

    @property
    def best(self) -> Choice | None:
        """The most exact one of those with a law; None if there is none."""
        return next((choice for choice in self.choices if choice.law is not None), None)

    def named(self, name: str) -> Choice | None:
        """Return the choice with a name, None if it cannot answer."""
        return next((choice for choice in self.choices if choice.name == name), None)

    @property
    def gain(self) -> float | None:
        """The default's error of a rare value as a multiple of the best one's."""
        default = None if self.default is None else self.named(self.default)
        best = self.best
        if default is None or best is None or default.figures.of != best.figures.of:
            return None
        if default.figures.rare_error is None or best.figures.rare_error is None:
            return None
        return default.figures.rare_error / best.figures.rare_error


def rank(question: Question) -> Ranking:
    """Compare all mechanisms that can answer, or look at the one that the question names."""
    default = _default(question)
    if question.mechanism is not None:
        only = choose(question.mechanism, question, default)
        return Ranking(question, (only,), {}, default)
    choices: list[Choice] = []
    refused: dict[str, str] = {}
    for name in sorted(CATALOGUE):
        if not _takes(name, question):
            continue
        try:
            choices.append(choose(name, question, default))
        except (RegistryError, DecodeError) as error:
            refused[name] = error.rule if isinstance(error, RegistryError) else str(error)
    choices.sort(key=_order)
    return Ranking(question, tuple(choices), refused, default)


def choose(
    mechanism: str | Mapping[str, Any], question: Question, default: str | None = None
) -> Choice:
    """Return one mechanism's figures for a question; sketches by name get their best shape.

    Raises:
        RegistryError: It cannot be declared for this question.
        DecodeError: It cannot tell the candidates apart.
    """
    if isinstance(mechanism, str) and question.type == "string" and mechanism in CATALOGUE:
        metric, law = best_shape(mechanism, question)
    else:
        metric = question.metric(mechanism)
        law = metric_law(metric)
    return chosen(metric, question, law, default)


def chosen(
    metric: Metric, question: Question, law: Law | None, default: str | None = None
) -> Choice:
    """Return the figures of a metric that there is."""
    note = fingerprint_note(metric.mechanism, question.devices)
    notes = () if note is None else (note,)
    if law is None:
        notes += ("smoothed, hence biased towards even shares: no formula states its error",)
    name = metric.mechanism.name
    return Choice(metric, law, figures_of(metric, question, law), name == default, notes)


def _takes(name: str, question: Question) -> bool:
    """Return whether a mechanism is about such values and such a memory at all."""
    kind = CATALOGUE[name]
    if kind.memoizes != (question.memoize is not None):
        return False
    if question.type == "number" and measures_mean(name):
        return True
    if question.type == "number" and not question.buckets:
        return False
    encodes = {"string": "string", "multi_select": "several"}.get(question.type, "one")
    ordered = question.type in ("ordinal", "number")
    return kind.encodes == encodes and (ordered or not kind.ordered)


def _default(question: Question) -> str | None:
    try:
        return question.metric().mechanism.name
    except RegistryError:
        return None


def _order(choice: Choice) -> tuple[bool, bool, float, int]:
    error = choice.figures.rare_error
    # Of equal errors the shorter report.
    rounded = 0.0 if error is None else float(f"{error:.6g}")
    return choice.law is None, choice.figures.of == "mean", rounded, choice.figures.bytes

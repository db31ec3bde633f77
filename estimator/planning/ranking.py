"""Which mechanisms can answer a question, and how well: the most exact one first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from client_sdk.declaration.values import ORDERED
from client_sdk.errors import RegistryError
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Metric
from estimator.errors import DecodeError
from estimator.planning.figures import Figures, cells_of, figures_of, metric_law
from estimator.planning.laws import Law, ShareLaw
from estimator.planning.question import Question, measures_mean
from estimator.planning.sketch_shapes import best_shape, declared_as, fingerprint_note

FEW_SUPPORTS = 10
"""Below it estimates of rare values that no single count gives are far from normal, which plans
take them for."""


@dataclass(frozen=True)
class Choice:
    """One mechanism for a question.

    Attributes:
        metric: As a file would declare it.
        law: How exact its reports are; None if no formula says it.
        figures: At the question's number of reports.
        notes: What a reviewer should know about it, in words.
    """

    metric: Metric
    law: Law | None
    figures: Figures
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
        default: What a file that names none gets; None if it must name one. Of strings in its
            usual shape, whatever is best for the candidates.
    """

    question: Question
    choices: tuple[Choice, ...]
    refused: Mapping[str, str]
    default: Choice | None

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
        best = self.best
        if self.default is None or best is None or self.default.figures.of != best.figures.of:
            return None
        if self.default.figures.rare_error is None or not best.figures.rare_error:
            return None  # without noise, at the largest epsilons: nothing is a multiple of that
        return self.default.figures.rare_error / best.figures.rare_error


def rank(question: Question) -> Ranking:
    """Compare all mechanisms that can answer, or look at the one that the question names.

    Raises:
        RegistryError: The one that it names cannot, or none of them can.
        DecodeError: None can tell the candidates apart.
    """
    default = _default(question)
    if question.mechanism is not None:
        return Ranking(question, (choose(question.mechanism, question),), {}, default)
    choices: list[Choice] = []
    refused: dict[str, RegistryError | DecodeError] = {}
    for name in sorted(CATALOGUE):
        if not _takes(name, question):
            continue
        try:
            choices.append(choose(name, question))
        except (RegistryError, DecodeError) as error:
            refused[name] = error
    if refused and not choices:
        raise next(iter(refused.values()))
    choices.sort(key=_order)
    why = {n: e.rule if isinstance(e, RegistryError) else str(e) for n, e in refused.items()}
    return Ranking(question, tuple(choices), why, default)


def choose(mechanism: str | Mapping[str, Any], question: Question) -> Choice:
    """Return one mechanism's figures for a question; sketches by name get their best shape.

    Raises:
        RegistryError: It cannot be declared for this question.
        DecodeError: It cannot tell the candidates apart.
    """
    if isinstance(mechanism, str) and question.type == "string" and _is_sketch(mechanism):
        return chosen(best_shape(mechanism, question), question)
    return chosen(question.metric(mechanism), question)


def _is_sketch(name: str) -> bool:
    return name in CATALOGUE and CATALOGUE[name].encodes == "string"


def chosen(metric: Metric, question: Question) -> Choice:
    """Return the figures of a metric that there is."""
    law = metric_law(metric)
    note = fingerprint_note(metric.mechanism, question.devices)
    notes: tuple[str, ...] = () if note is None else (note,)
    if isinstance(law, ShareLaw) and not law.counted:
        few = law.rare_supports(question.reports)
        if few < FEW_SUPPORTS:
            notes += (
                f"a rare value is expected to get {few:.2g} supports: what is said to be present "
                "and visible is rough",
            )
    if law is None:
        notes += ("smoothed, hence biased towards even shares: no formula states its error",)
    return Choice(metric, law, figures_of(metric, question, law), notes)


def _takes(name: str, question: Question) -> bool:
    """Return whether a mechanism is about such values and such a memory at all."""
    kind = CATALOGUE[name]
    if kind.memoizes != (question.memoize is not None):
        return False
    if question.type == "number" and measures_mean(name):
        return True
    if question.type == "number" and not question.buckets:
        return False
    if name == "randomized_response" and question.listed != 2:
        return False
    encodes = {"string": "string", "multi_select": "several"}.get(question.type, "one")
    ordered = question.type in ORDERED
    return kind.encodes == encodes and (ordered or not kind.ordered)


def _default(question: Question) -> Choice | None:
    try:
        return chosen(question.metric(), question)
    except (RegistryError, DecodeError):
        return None


def _order(choice: Choice) -> tuple[bool, bool, float, float, int]:
    figures = choice.figures
    # Of equal errors that which needs the least to call a value present, then the shorter report.
    error, level = (
        0.0 if each is None else float(f"{each:.6g}")
        for each in (figures.rare_error, figures.decision_level)
    )
    return choice.law is None, figures.of == "mean", error, level, figures.bytes

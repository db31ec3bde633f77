"""A browser survey on paper: the same questions by dice and slips, so that both can be mixed.

A device gives each answer the odds of the browser's mechanism, or odds of a slightly smaller
epsilon: on paper nobody loses more than the page promises. Each mode is estimated by its own odds.
"""

from collections.abc import Sequence
from fractions import Fraction

from client_sdk.mechanisms import Mechanism
from client_sdk.survey import Question, Survey
from client_sdk.survey.odds import sent_as
from estimator.designs.base import Design, DesignError
from estimator.designs.choosing import for_epsilon
from estimator.designs.devices import DEVICES, Device
from estimator.designs.draws import TRUTH, Family, Order, family
from estimator.designs.forced import ForcedResponse
from estimator.designs.several_answers import SeveralAnswers
from sottovoce.surveys.paper.procedure import Procedure, line_epsilon

HALF = Fraction(1, 2)


def procedures(
    survey: Survey, language: str, devices: Sequence[Device] | None = None
) -> list[Procedure]:
    """Return a survey's questions for paper, in order.

    Args:
        survey: As its file says.
        language: One of its own.
        devices: Among which to choose.

    Raises:
        ValueError: The survey is not written in the language, or no device keeps its epsilon.
    """
    if language not in survey.languages:
        raise ValueError(
            f"language: the survey is written in {', '.join(survey.languages)}, got {language!r}"
        )
    return [procedure_of(question, language, devices or DEVICES) for question in survey.questions]


def procedure_of(
    question: Question, language: str, devices: Sequence[Device] = DEVICES
) -> Procedure:
    """Return one question for paper.

    Raises:
        DesignError: None of the devices stays within its epsilon.
    """
    mechanism = question.metric.mechanism
    epsilon = float(mechanism.epsilon)
    each = _lines(mechanism)
    names = tuple(answer.name for answer in question.answers)
    choices = _line_family(mechanism) if each else family(SeveralAnswers.name, answers=names)
    choice = for_epsilon(choices, epsilon, devices)
    if choice is None:
        raise DesignError(
            f"question {question.name!r}: none of the devices stays within epsilon {epsilon:g}"
        )
    labels = {answer.name: answer.text[language] for answer in question.answers}
    return Procedure(
        question.text[language],
        choice,
        labels={} if each else labels,
        each=labels if each else {},
        browser_epsilon=epsilon,
        name=question.name,
    )


def browser_design(question: Question) -> Design:
    """Return the design that a browser follows: of bits that of one line of the card."""
    mechanism = question.metric.mechanism
    if _lines(mechanism):
        return ForcedResponse(sent_as(mechanism, 0, 1), 1 - sent_as(mechanism, 0, 0))
    answers = range(len(question.answers))
    names = tuple(answer.name for answer in question.answers)
    rows = tuple(tuple(sent_as(mechanism, i, j) for j in answers) for i in answers)
    return SeveralAnswers(names, rows)


def _lines(mechanism: Mechanism) -> bool:
    """Return whether the mechanism decides about each answer apart."""
    return mechanism.kind == "bits" and mechanism.cells > 1


def _line_family(mechanism: Mechanism) -> Family:
    """Return the orders of one line: of optimized_unary half are empty, whatever is true."""
    yes, no = Order("say", "yes"), Order("say", "no")
    half = sent_as(mechanism, 0, 0) == HALF
    return Family(
        (yes, TRUTH, no),
        (lambda each: (each, HALF - each, HALF)) if half else (lambda t: (t, 1 - 2 * t, t)),
        lambda p: ForcedResponse(p[0], p[2]),
        line_epsilon,
    )

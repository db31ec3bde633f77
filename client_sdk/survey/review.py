"""What the owner of a survey should look at twice; rules that must hold are checked at load.

A note is a question to the author. An error is something that would not work as it is written.
"""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from math import ceil

from client_sdk.errors import ParameterError
from client_sdk.mechanisms import Declared, Mechanism, build
from client_sdk.review import LARGEST_ERROR, Finding, error_of_a_rare_value, unusual_epsilon
from client_sdk.survey.compiled import MANY_ANSWERS
from client_sdk.survey.model import Question, Survey
from client_sdk.survey.names import PREFER_NOT

HIGH_EPSILON = Decimal(6)
"""Of all questions together: who knows the file learns up to e**6, 400 to 1, about a respondent."""
LETTERS_OF_A_LINE = 36
LINES_OF_A_PHONE = 20
"""What a phone of 360 by 640 CSS pixels shows of a question, in letters of 18 pixels."""
LINES_OF_AN_ANSWER = 2
"""Least height of an answer, for fingers."""
_WORTH_IT = 1.1


def review_survey(survey: Survey, today: date) -> list[Finding]:
    """Return what an owner should know before fielding.

    Args:
        survey: A file that keeps every rule.
        today: A UTC date, for what is over.
    """
    found = list(_of_survey(survey, today))
    for question in survey.questions:
        found += [*_of_privacy(question), *_of_words(question, survey), *_of_errors(question)]
    return found


def better(question: Question) -> Mechanism | None:
    """Return a mechanism that is clearly more exact for many answers, None without one."""
    metric = question.metric
    if metric.type == "boolean":
        return None
    declared = Declared(len(question.answers), metric.epsilon, None, {})
    try:
        others = [build(name, declared) for name in (MANY_ANSWERS, "optimized_unary")]
    except ParameterError:  # so small an epsilon leaves one of them no channel
        return None
    best = min(others, key=lambda mechanism: mechanism.rare_variance)
    exact = metric.mechanism.rare_variance > _WORTH_IT**2 * best.rare_variance
    return best if exact and best.name != metric.mechanism.name else None


def _of_survey(survey: Survey, today: date) -> Iterator[Finding]:
    if survey.phase(today) == "over":
        text = f"must lie ahead, got {survey.expires}; nobody can answer any more"
        yield Finding("error", "over", "survey.expires", text)
    if Decimal(survey.epsilon) > HIGH_EPSILON:
        yield Finding(
            "note",
            "total_epsilon",
            "survey.most_epsilon",
            f"all questions together lose {survey.epsilon}, more than {HIGH_EPSILON}; ask less, or "
            "lower an epsilon",
        )


def _of_privacy(question: Question) -> Iterator[Finding]:
    key = f"questions.{question.name}"
    yield from unusual_epsilon(question.metric, key)
    if question.answers[-1].name != PREFER_NOT:
        yield Finding(
            "note",
            "prefer_not",
            f"{key}.prefer_not_to_answer",
            "who does not want to answer this question has to leave the whole survey",
        )
    if question.odds.kept >= 100:
        yield Finding(
            "error",
            "odds",
            f"{key}.epsilon",
            "100 of 100 people send their own answer: chance protects nobody",
        )
    elif question.odds.other == 0:
        yield Finding(
            "error",
            "odds",
            key,
            "0 of 100 people with another true answer send a given one, says the page, as it "
            "rounds: lower epsilon, offer fewer answers, or use optimized_unary",
        )


def _of_words(question: Question, survey: Survey) -> Iterator[Finding]:
    for language in survey.languages:
        lines = _lines(question.text[language])
        for answer in question.answers:
            lines += max(LINES_OF_AN_ANSWER, _lines(answer.text[language]))
        if lines > LINES_OF_A_PHONE:
            yield Finding(
                "note",
                "phone",
                f"questions.{question.name}",
                f"in {language} question and answers fill about {lines} lines; a phone shows "
                f"{LINES_OF_A_PHONE}, so people may not see every answer",
            )


def _lines(text: str) -> int:
    return ceil(len(text) / LETTERS_OF_A_LINE)


def _of_errors(question: Question) -> Iterator[Finding]:
    metric = question.metric
    error = error_of_a_rare_value(metric, metric.min_reports)
    if error > LARGEST_ERROR:
        yield Finding(
            "note",
            "min_reports",
            f"questions.{question.name}",
            f"{metric.min_reports} answers have a standard error of {100 * error:.0f} % and say "
            "nothing; ask for more with min_reports",
        )
    best = better(question)
    if best is not None:
        less = (best.rare_variance / metric.min_reports) ** 0.5
        yield Finding(
            "note",
            "mechanism",
            f"questions.{question.name}.mechanism",
            f"with {len(question.answers)} answers {best.name} is more exact: a standard error "
            f"of {100 * less:.1f} % at {metric.min_reports} answers instead of {100 * error:.1f} %",
        )

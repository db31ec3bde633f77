"""The surveys' pages: which there are, and of each what was asked, how, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.connection import StoreUnavailable
from aggregator.survey.endings import Endings
from client_sdk.epochs import day_of
from client_sdk.survey import Survey
from client_sdk.survey.model import Phase
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.words import count
from estimator.dashboard.problems import ReadProblem
from estimator.drawing import Palette, Spec
from estimator.estimates import Estimate
from estimator.releases.charts import apart, in_percent, shares_chart
from estimator.releases.telling import Facts
from estimator.surveys import words
from estimator.surveys.results import Result, results

_PHASES: dict[Phase, str] = {"coming": "not open yet", "open": "open", "over": "over"}


@dataclass(frozen=True)
class Row:
    """One survey in the list.

    Attributes:
        survey: Its file.
        title: In the language of results.
        language: That language.
        direction: Its direction.
        phase: Whether it can be answered, in words.
        reports: Most reports of any question that may be shown; None: of none.
        stage: Of all questions together.
    """

    survey: Survey
    title: str
    language: str
    direction: str
    phase: str
    reports: int | None
    stage: str


@dataclass(frozen=True)
class AnswerRow:
    """One answer's figures as they are shown.

    Attributes:
        text: As respondents read it.
        share: In percent, as all others here.
        error: Standard error.
        interval: Of this answer by itself.
        consistent: Made possible, which is biased.
        negative: Whether the share is below zero or above one.
    """

    text: str
    share: str
    error: str
    interval: str
    consistent: str
    negative: bool


@dataclass(frozen=True)
class Asked:
    """One question and what came of it.

    Attributes:
        result: Its figures.
        heading: Its text.
        answers: In the order of the page.
        non_response: In a sentence; empty: not to answer was no answer, or nothing may be shown.
        impossible: Sentences on what no true share can be.
        design: What chance did to an answer.
    """

    result: Result
    heading: str
    answers: tuple[AnswerRow, ...]
    non_response: str
    impossible: tuple[str, ...]
    design: Facts

    @property
    def name(self) -> str:
        """The question's name."""
        return self.result.question.name


@dataclass(frozen=True)
class SurveyPage:
    """The page.

    Attributes:
        survey: Its file.
        row: What the list says of it.
        purpose: Who asks, why, and who looks.
        facts: When, whom, and at what cost.
        asked: Its questions.
    """

    survey: Survey
    row: Row
    purpose: str
    facts: Facts
    asked: tuple[Asked, ...]


def survey_rows(inputs: Inputs) -> list[Row]:
    """Gather the list.

    Raises:
        DocumentError: A file is not what its name says.
    """
    return [_row(inputs, each, results(each, inputs.releases)) for each in inputs.surveys]


def survey_page(inputs: Inputs, name: str) -> SurveyPage:
    """Gather one survey's page.

    Raises:
        ReadProblem: There is no such survey.
        DocumentError: A file is not what its name says.
    """
    survey = survey_named(inputs, name)
    found = results(survey, inputs.releases)
    language = words.language_of(survey)
    return SurveyPage(
        survey=survey,
        row=_row(inputs, survey, found),
        purpose=survey.purpose[language],
        facts=_facts(inputs, survey),
        asked=tuple(_asked(each, language) for each in found),
    )


def survey_named(inputs: Inputs, name: str) -> Survey:
    """Return the survey of a name.

    Raises:
        ReadProblem: There is none.
    """
    for survey in inputs.surveys:
        if survey.name == name:
            return survey
    raise ReadProblem("not_found", "no survey of this name is served here", "survey")


def answers_chart(
    inputs: Inputs, survey: Survey, question: str, palette: Palette, width: int, label_width: int
) -> Spec | None:
    """Return the chart of a question's answers; None: there is nothing to draw.

    Args:
        question: Its name.
        width: Of the room for the shares, in pixels.
        label_width: Most that the answers' texts take beside it, in pixels.
    """
    language = words.language_of(survey)
    for each in results(survey, inputs.releases):
        if each.question.name == question and each.release is not None:
            names = apart(answer.text[language] for answer, _ in each.answers)
            named = [(name, entry) for name, (_, entry) in zip(names, each.answers, strict=True)]
            title = _title(each)
            return shares_chart(each.release, palette, width, label_width, title, named)
    return None


def _title(result: Result) -> str:
    n = 0 if result.estimates is None else result.estimates.n
    so_far = "" if result.stage == "final" else "so far, provisional; "
    return f"{so_far}{n:,} reports"


def _row(inputs: Inputs, survey: Survey, found: Sequence[Result]) -> Row:
    language = words.language_of(survey)
    shown = [each.estimates.n for each in found if each.estimates is not None]
    return Row(
        survey=survey,
        title=survey.title[language],
        language=language,
        direction=survey.interface[language].direction,
        phase=_phase(inputs, survey),
        reports=max(shown, default=None),
        stage=_stage(found),
    )


def _phase(inputs: Inputs, survey: Survey) -> str:
    phase = survey.phase(day_of(inputs.clock()))
    ended = phase == "open" and Endings(inputs.source.store).closed(survey)
    return "ended early" if ended else _PHASES[phase]


def _stage(found: Sequence[Result]) -> str:
    stages = {each.stage for each in found if not each.withheld}
    if "so far" in stages:
        return "so far"
    if "final" in stages:
        return "final"
    return "withheld" if any(each.withheld for each in found) else "nothing yet"


def _facts(inputs: Inputs, survey: Survey) -> Facts:
    facts = [
        ("Asked", f"{survey.starts} to {survey.expires}, last day included (UTC)"),
        ("Who may answer", words.admission(survey)),
        (
            "What it costs a respondent",
            f"epsilon {survey.epsilon} for all {len(survey.questions)} questions together"
            if len(survey.questions) > 1
            else f"epsilon {survey.epsilon}",
        ),
        ("Languages", ", ".join(survey.interface[each].name for each in survey.languages)),
        ("Contact", survey.contact),
    ]
    if (told := _invitations(inputs, survey)) is not None:
        facts.insert(2, ("Invitations", told))
    return facts


def _invitations(inputs: Inputs, survey: Survey) -> str | None:
    """Return how many there are; None: anybody may answer, or there is no store to ask."""
    try:
        known = None if inputs.invitations is None else inputs.invitations(survey.name)
    except StoreUnavailable:
        return "not known while the store is away"
    return None if known is None else words.invitations(survey, *known)


def _asked(result: Result, language: str) -> Asked:
    question = result.question
    non_response = result.non_response
    design = [
        ("What chance does", words.mechanism(question)),
        ("Odds", words.odds(question.odds, len(question.answers))),
        ("Of one answer", f"epsilon {float(question.metric.mechanism.epsilon):.4g}"),
        (
            "The price of protection",
            f"1,000 answers say as much as {count(words.worth(question))} direct ones would, of a "
            "share near one half",
        ),
    ]
    return Asked(
        result=result,
        heading=question.text[language],
        answers=tuple(_answer(answer.text[language], entry) for answer, entry in result.answers),
        non_response="" if non_response is None else _said_nothing(non_response),
        impossible=tuple(words.impossible(result.answers, language)),
        design=design,
    )


def _answer(text: str, entry: Estimate) -> AnswerRow:
    return AnswerRow(
        text=text,
        share=in_percent(entry.share),
        error=in_percent(entry.standard_error),
        interval=words.interval(entry),
        consistent=in_percent(entry.consistent),
        negative=not 0 <= (entry.share or 0.0) <= 1,
    )


def _said_nothing(entry: Estimate) -> str:
    return (
        f"Non-response: an estimated {in_percent(entry.share)} prefer not to answer, probably "
        f"{words.interval(entry)}. That answer is randomized like any other, so this is an "
        "estimate, too. Who left the page before sending is counted nowhere."
    )

"""A survey's design and its odd-looking figures, in words: for pages and for the terminal."""

from collections.abc import Iterator, Sequence

from client_sdk.survey import Answer, Odds, Question, Survey
from estimator.debias import Channel
from estimator.estimates import Estimate
from estimator.releases.charts import in_percent
from estimator.uncertainty import variance_population

_NONE = 1e-9
"""What a standard error that is zero may be by rounding."""

_MECHANISMS = {
    "randomized_response": "the answer is kept or turned round (randomized response, Warner 1965)",
    "generalized_randomized_response": "the answer is kept or replaced by any other one "
    "(generalized randomized response)",
    "symmetric_unary": "each answer has a tick, which is kept or turned round "
    "(symmetric unary encoding)",
    "optimized_unary": "each answer has a tick, and one that is not there appears less often than "
    "the one that is there stays (optimized unary encoding)",
}


def language_of(survey: Survey) -> str:
    """Return the language that results are shown in: English where the survey has it."""
    return "en" if "en" in survey.languages else survey.languages[0]


def mechanism(question: Question) -> str:
    """Return what chance does, and what that is called."""
    name = question.metric.mechanism.name
    return _MECHANISMS.get(name, name.replace("_", " "))


def odds(odds: Odds, answers: int) -> str:
    """Return what chance does to the answers of 100 people.

    Args:
        answers: How many the question has.
    """
    if odds.kind == "bits":
        return (
            f"of 100 people {odds.kept} tick their own answer, and {odds.other} any given other one"
        )
    others = "the other one" if answers == 2 else "any given other one"
    return f"of 100 people {odds.kept} send their own answer, and {odds.other} {others}"


def admission(survey: Survey) -> str:
    """Return who may answer."""
    return "anybody who has the link" if survey.admission == "open" else "by invitation"


def invitations(survey: Survey, made: int, used: int) -> str:
    """Return how many there are; used ones in steps that tell of no single person."""
    step = max(1, *(question.metric.min_reports for question in survey.questions))
    if used < step:
        return f"{made:,} made, fewer than {step:,} of them used"
    least = used - used % step
    part = f" ({in_percent(least / made)})" if made else ""
    return f"{made:,} made, at least {least:,} of them used{part}"


def interval(entry: Estimate) -> str:
    """Return the ends of an estimate's interval; a dash without one."""
    if entry.interval is None:
        return "\N{EN DASH}"
    ends = map(in_percent, entry.interval)
    return " to ".join(end.replace(" ", "\N{NO-BREAK SPACE}") for end in ends)


def worth(question: Question, answers: int = 1000) -> int:
    """Return how many direct answers say as much as these, of a share near one half."""
    variance = float(variance_population(0.5, 1, Channel.of_values(question.metric.mechanism)))
    return max(1, round(answers * 0.25 / variance))


def impossible(answers: Sequence[tuple[Answer, Estimate]], language: str) -> Iterator[str]:
    """Yield a sentence on each estimate that no true share can be, and on such intervals."""
    for answer, entry in answers:
        name = (
            f"\N{LEFT DOUBLE QUOTATION MARK}{answer.text[language]}\N{RIGHT DOUBLE QUOTATION MARK}"
        )
        yield from _impossible(name, entry)
        if entry.standard_error is not None and entry.standard_error < _NONE:
            yield (
                f"The standard error of {name} is 0 because no report says it, or every one. That "
                "is no certainty: go by its interval."
            )
    ends = [entry.interval for _, entry in answers if entry.interval is not None]
    if any(low < 0 <= high or low <= 1 < high for low, high in ends):
        yield "Of an interval that sticks out of 0 to 100 % only the part inside is possible."


def _impossible(name: str, entry: Estimate) -> Iterator[str]:
    share = entry.share or 0.0
    if 0 <= share <= 1:
        return
    low, high = entry.interval or (0.0, 1.0)
    side, end = ("below zero", f"below {in_percent(high)}")
    if share > 1:
        side, end = ("above 100 %", f"above {in_percent(low)}")
    outside = high < 0 or low > 1
    yield (
        f"{name} is estimated at {in_percent(share)}, {side}. No true share is: chance has taken "
        f"the estimate there{'' if outside else f' from a true one that is probably {end}'}. It is "
        f"not cut off, for then sums and averages would be too {'large' if share < 0 else 'small'}."
    )
    if outside:
        yield (
            f"Even the interval of {name}, {interval(entry)}, holds nothing that can be true. "
            "Chance alone does that rarely: see whether answers were made up, or went through "
            "other chances than the file says."
        )

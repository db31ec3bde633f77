"""A survey's design and its odd-looking figures, in words: for pages and for the terminal."""

from collections.abc import Iterator, Sequence

from client_sdk.survey import Answer, Odds, Question, Survey
from estimator.debias import Channel
from estimator.estimates import Estimate
from estimator.releases.charts import in_percent
from estimator.uncertainty import variance_population

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


def interval(entry: Estimate) -> str:
    """Return the ends of an estimate's interval; a dash without one."""
    if entry.interval is None:
        return "\N{EN DASH}"
    return " to ".join(map(in_percent, entry.interval))


def worth(question: Question, answers: int = 1000) -> int:
    """Return how many direct answers say as much as these, of a share near one half."""
    variance = float(variance_population(0.5, 1, Channel.of_values(question.metric.mechanism)))
    return max(1, round(answers * 0.25 / variance))


def impossible(answers: Sequence[tuple[Answer, Estimate]], language: str) -> Iterator[str]:
    """Yield a sentence on each estimate that no true share can be, and on such intervals."""
    for answer, entry in answers:
        share = entry.share or 0.0
        low, high = entry.interval or (0.0, 1.0)
        if 0 <= share <= 1:
            continue
        name = (
            f"\N{LEFT DOUBLE QUOTATION MARK}{answer.text[language]}\N{RIGHT DOUBLE QUOTATION MARK}"
        )
        side, where = ("below zero", "near zero") if share < 0 else ("above 100 %", "near 100 %")
        yield (
            f"{name} is estimated at {in_percent(share)}, {side}. No true share is: the true one "
            f"is {where}, and chance has taken the estimate beyond. It is not cut off, for then "
            f"sums and averages would be too {'large' if share < 0 else 'small'}."
        )
        if high < 0 or low > 1:
            yield (
                f"Even the interval of {name}, {interval(entry)}, holds nothing that can be true. "
                "Chance alone does that rarely: see whether answers were made up, or went through "
                "other chances than the file says."
            )
    ends = [entry.interval for _, entry in answers if entry.interval is not None]
    if any(low < 0 <= high or low <= 1 < high for low, high in ends):
        yield "Of an interval that sticks out of 0 to 100 % only the part inside is possible."

"""The interview itself: asks one question after the other, checks each answer at once.

An answer is checked by the rules that devices apply to a file and by what a review calls an error.
What cannot be answered at its price is said before anything is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Protocol

from client_sdk.errors import RegistryError
from client_sdk.review import DAYS_OF_A_YEAR, review, yearly
from estimator.errors import DecodeError
from estimator.planning.inverse import Target, epsilon_for
from estimator.planning.question import Question
from estimator.planning.ranking import Choice, rank
from estimator.planning.verdict import percent, verdict_on
from sottovoce.interview import answers as read
from sottovoce.interview import cost, what
from sottovoce.interview.entry import Answers, alone, entry_of, metric_of
from sottovoce.interview.step import Setting, Step

BACK = "<"
WORTH = 1.05
"""An error so many times that of the best: then the best is written instead of the default."""
_SHARED = ("project.lifetime_epsilon", "project.window")
"""What all metrics of a file share: one more may be too much."""


class Talk(Protocol):
    """Who is asked: a terminal, a pipe, a test."""

    def say(self, text: str) -> None:
        """Show something."""

    def ask(self, prompt: str) -> str:
        """Show what is asked and return a line, without its end.

        Raises:
            EOFError: There is none.
        """


Turn = Callable[[Talk, dict[str, Any]], str | None]
"""Something between two questions: may say, ask and answer; returns to which key to go back."""


def interview(talk: Talk, setting: Setting) -> Answers:
    """Ask everything and return the answers, which make an entry that keeps all rules.

    Where the entry goes to a file, the answer `agreed` says whether it shall.

    Raises:
        EOFError: The answers end before the questions do.
    """
    order = _order(setting)
    keys = [key for key, _ in order]
    answers: dict[str, Any] = {}
    typed: dict[str, str] = {}
    at = 0
    talk.say(
        f"An empty line takes what stands in brackets; {BACK} goes back. Nothing is written yet."
    )
    while at < len(order):
        step = order[at][1]
        if not isinstance(step, Step):
            back = step(talk, answers)
        elif step.when(answers):
            asked = [key for key, each in order[:at] if isinstance(each, Step) and key in answers]
            back = _asked(talk, step, answers, typed, setting.today, asked)
        else:
            back = None
        if back is None:
            at += 1
            continue
        at = keys.index(back)
        for key in keys[at:]:
            answers.pop(key, None)
    return answers


def _order(setting: Setting) -> list[tuple[str, Step | Turn]]:
    """Return all questions and turns by the key of what they answer."""

    def price(line: str, answers: Answers) -> Decimal:
        return _price(line, answers, setting.today)

    def judge(talk: Talk, answers: dict[str, Any]) -> str | None:
        return _judge(talk, answers, setting.today)

    def agree(talk: Talk, answers: dict[str, Any]) -> str | None:
        return _agree(talk, answers, setting)

    before = (
        *what.of_project(setting),
        *what.of_metric(setting),
        *what.of_values(),
        *cost.of_time(setting),
        *cost.of_price(setting, price),
    )
    after = (*cost.of_life(setting), *cost.of_budget(setting))
    return [
        *((step.key, step) for step in before),
        ("mechanism", judge),
        *((step.key, step) for step in after),
        ("agreed", agree),
    ]


def _asked(
    talk: Talk,
    step: Step,
    answers: dict[str, Any],
    typed: dict[str, str],
    today: date,
    earlier: Sequence[str],
) -> str | None:
    """Ask until there is an answer that keeps all rules, or return the key to go back to."""
    default = typed.get(step.key) or step.default(answers)
    talk.say(f"\n{step.words(answers)}\n  {step.why}")
    while True:
        line = talk.ask(f"{step.key}{'' if default is None else f' [{default}]'}> ").strip()
        if line == BACK:
            if earlier:
                return earlier[-1]
            talk.say("  This is the first question.")
            continue
        given = line or default
        if given is None:
            talk.say("  An answer is needed.")
            continue
        try:
            value = step.read(given, answers)
            notes = _checked(answers | {step.key: value}, today, step.key)
        except (ValueError, DecodeError) as error:
            talk.say(f"  That cannot be: {error}")
            if given == default and typed.pop(step.key, None) is not None:
                default = step.default(answers)  # what was typed before no longer fits
            continue
        answers[step.key] = value
        if line:
            typed[step.key] = line
        for note in notes:
            talk.say(f"  note: {note}")
        return None


def _checked(answers: Answers, today: date, key: str) -> list[str]:
    """Return the notes of a review about one key.

    Raises:
        RegistryError: A rule is broken.
        ValueError: A review calls it an error.
    """
    registry = alone(answers, today)
    found = [each for each in review(registry, today) if each.key.endswith(f".{key}")]
    for each in found:
        if each.level == "error":
            raise ValueError(str(each))
    return [str(each) for each in found]


def question_of(answers: Answers, today: date) -> Question:
    """Return what the answers ask, as planners know it."""
    metric = metric_of(answers, today)
    found = Question.of(metric, answers["devices"])
    return replace(found, share=answers.get("share"))


def picked(question: Question) -> tuple[Choice | None, Any]:
    """Return the mechanism for a question, and what the file says of it: None by default."""
    ranking = rank(question)
    best, default = ranking.best, ranking.default
    if default is not None and (ranking.gain is None or ranking.gain < WORTH):
        return default, None
    return (default, None) if best is None else (best, best.declared())


def _price(line: str, answers: Answers, today: date) -> Decimal:
    """Return the epsilon that is typed, or the least for an error in per cent."""
    error = read.percentage(line)
    if error is None:
        return read.number(line)
    asked = question_of(answers, today)
    target = Target(error=float(error))
    found = None
    for _ in range(2):  # another mechanism may be the best at the epsilon that is found
        choice, _declared = picked(asked)
        if choice is None or choice.law is None:
            raise ValueError("must be an epsilon: no formula states this question's errors")
        found = epsilon_for(choice, asked, target)
        if found is None:
            devices = target.devices(choice, asked)
            more = "" if devices is None else f"; at epsilon {asked.epsilon:f} {devices:,} could"
            raise ValueError(
                f"must be larger: {asked.devices:,} devices reach {percent(float(error))} with no "
                f"epsilon{more}"
            )
        asked = asked.at(found)
    assert found is not None
    return found


def _judge(talk: Talk, answers: dict[str, Any], today: date) -> str | None:
    """Say how exact the answer will be and what it costs; ask what to do if it is too little."""
    asked = question_of(answers, today)
    choice, declared = picked(asked)
    if choice is None:
        talk.say("\nNo mechanism can answer this question.")
        return "type"
    answers["mechanism"] = declared
    metric = metric_of(answers, today)
    metric = metric._replace(expires=metric.starts + timedelta(days=DAYS_OF_A_YEAR))
    talk.say(f"\nepsilon {answers['epsilon']:f} by {choice.name}{_named(declared)}.")
    for line in (*_exact(choice, asked), *choice.notes):
        talk.say(f"  {line}")
    spends = yearly(metric) / 1e6
    once = "in its life" if metric.memoize is not None or metric.epoch == "once" else "a year"
    talk.say(f"  A device spends at most {spends:g} epsilon {once}.")
    if choice.law is None:
        return None
    found = verdict_on(choice, asked)
    talk.say(f"  {found.text}.")
    if found.answers:
        return None
    talk.say("  So this question CANNOT be answered as it is asked. What would help:")
    for each in found.helps:
        talk.say(f"  - {each}")
    kept = _choice(talk, "Change it, or keep it all the same?", ("change", "keep"))
    return None if kept == "keep" else "devices"


def _choice(talk: Talk, words: str, options: tuple[str, ...]) -> str:
    """Ask for one of several words, the first of which an empty line means."""
    while True:
        line = talk.ask(f"{words} {' or '.join(options)} [{options[0]}]> ").strip()
        try:
            return read.choice(options, line or options[0])
        except ValueError as error:
            talk.say(f"  That cannot be: {error}")


def _named(declared: Any) -> str:
    return ", the default" if declared is None else ", which the entry names"


def _exact(choice: Choice, question: Question) -> list[str]:
    figures = choice.figures
    if figures.rare_error is None or figures.common_error is None:
        return []
    if figures.of == "mean":
        return [f"Standard error of the mean: at most {percent(figures.rare_error)} of the range."]
    return [
        f"Standard error: {percent(figures.rare_error)} of a rare value's share, "
        f"{percent(figures.common_error)} of a share of {percent(question.common)}."
    ]


def _agree(talk: Talk, answers: dict[str, Any], setting: Setting) -> str | None:
    """Check the entry inside its file and show it; where it does not fit, go back."""
    if setting.file is None:
        return None
    try:
        setting.file.with_entry(answers)
    except RegistryError as error:
        if error.key not in _SHARED:
            raise
        talk.say(f"\nThat does not fit: {error}")
        return "epsilon_permanent" if answers.get("remember") else "epoch"
    talk.say("\n" + entry_of(answers))
    said = _choice(talk, f"Write this to {setting.file.path}?", ("yes", "no", BACK))
    answers["agreed"] = said == "yes"
    return "expires" if said == BACK else None

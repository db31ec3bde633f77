"""The questions of the interview, in their order: in plain words, each with its reason.

None of them asks for a mechanism: the planner finds it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from math import ceil
from typing import Any

from client_sdk.declaration import SENSITIVITIES
from client_sdk.epochs import LENGTHS, epoch_of, first_day
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import FOREVER
from client_sdk.review import LARGEST_ERROR, USUAL_EPSILON
from estimator.planning.question import Question
from estimator.planning.verdict import percent, round_up
from sottovoce.interview import answers as read
from sottovoce.interview.entry import Answers, alone, metric_of
from sottovoce.interview.file import File

TYPES = {
    "boolean": "yes or no",
    "category": "one of a list",
    "ordinal": "one of a list that has an order",
    "number": "a number in a range",
    "string": "a text out of too many to list",
    "multi_select": "several of a list",
}
USUAL_REPORTS = {"day": "28", "week": "4", "month": "1"}
"""`every` with which a device answers about once a month."""
LEAST_REPORTS = 100


@dataclass(frozen=True)
class Setting:
    """What is known before the first question.

    Attributes:
        today: A UTC date.
        file: Where the entry goes; None: it is printed.
        devices: How many are supposed, unless somebody says it.
    """

    today: date
    file: File | None = None
    devices: int = 10_000

    @property
    def new_file(self) -> bool:
        return self.file is not None and self.file.registry is None


@dataclass(frozen=True)
class Step:
    """One question.

    Attributes:
        key: Of the answer.
        words: What is asked.
        why: Why it matters, in one line.
        read: From what is typed to the answer; raises ValueError.
        default: What an empty line means; None: an answer is needed.
        when: Whether it is asked at all, after what was answered before.
    """

    key: str
    words: Callable[[Answers], str]
    why: str
    read: Callable[[str, Answers], Any]
    default: Callable[[Answers], str | None] = lambda _: None
    when: Callable[[Answers], bool] = lambda _: True


def of_project(setting: Setting) -> tuple[Step, ...]:
    """What a new file says of itself."""

    def new(_: Answers) -> bool:
        return setting.new_file

    return (
        Step(
            "project",
            _said("The file is new. What is the project's name?"),
            "Users see who asks.",
            lambda typed, _: read.text(typed),
            when=new,
        ),
        Step(
            "contact",
            _said("Whom can a user ask about it? An address."),
            "A promise needs somebody who answers for it.",
            lambda typed, _: read.text(typed),
            when=new,
        ),
    )


def of_metric(setting: Setting) -> tuple[Step, ...]:
    """What is asked of whom."""

    def name(typed: str, _: Answers) -> str:
        registry = None if setting.file is None else setting.file.registry
        if registry is not None and typed in registry.metrics:
            raise ValueError(f"must be new: the file has a metric {typed}, which stays as it is")
        return typed

    return (
        Step(
            "name",
            _said("What is the metric's name? Small letters, digits, _ and dots."),
            "The app records under it, and releases are named by it.",
            name,
        ),
        Step(
            "question",
            _said("What is asked, and what will be decided with the answer? A sentence or two."),
            "Users read it, and what decides nothing need not be collected.",
            lambda typed, _: read.text(typed),
        ),
        Step(
            "owners",
            _said("Who looks at the result? Addresses, commas between them."),
            "What nobody looks at need not be collected; digests go there.",
            lambda typed, _: read.texts(typed),
            lambda answers: answers.get("contact") or _contact(setting),
        ),
        Step(
            "sensitivity",
            _said(_listed("How sensitive is it?", dict.fromkeys(SENSITIVITIES, ""))),
            "It says which epsilon is usual, and reviewers look at it.",
            lambda typed, _: read.choice(SENSITIVITIES, typed),
            lambda _: "product",
        ),
        Step(
            "type",
            _said(_listed("What is an answer?", TYPES)),
            "Noise is shaped by what can be answered; free text cannot be asked.",
            lambda typed, _: read.choice(tuple(TYPES), typed),
            lambda _: "boolean",
        ),
    )


def of_values() -> tuple[Step, ...]:
    """What can be answered."""
    return (
        Step(
            "values",
            _said("Which values are there? Commas between them, or @FILE with one on each line."),
            "The fewer there are the better each is seen; they cannot be changed later.",
            lambda typed, _: read.labels(typed),
            when=_of("category", "ordinal", "multi_select"),
        ),
        Step(
            "catch_all",
            _said("Which of them stands for everything that is not in the list?"),
            "Apps meet values that nobody thought of.",
            lambda typed, answers: read.label_of(answers["values"], typed),
            lambda answers: _quoted(answers["values"][-1]),
            _of("category"),
        ),
        Step(
            "most",
            _said("How many of them can one device select at most?"),
            "Noise grows with it; of more the first of the list are reported.",
            lambda typed, _: read.integer(typed),
            lambda answers: str(min(3, len(answers["values"]))),
            _of("multi_select"),
        ),
        Step(
            "range",
            _said("Between which two numbers does it lie? What lies outside is moved to the end."),
            "Noise is as wide as the range, so take the narrowest that will do.",
            lambda typed, _: read.ends(typed),
            when=_of("number"),
        ),
        Step(
            "buckets",
            _said("Into how many equal buckets is it cut? 0 if its mean alone is wanted."),
            "A mean takes far fewer devices than a distribution; many buckets are seen badly.",
            lambda typed, _: read.integer(typed) or None,
            lambda _: "10",
            _of("number"),
        ),
        Step(
            "missing",
            _said("What is reported where the app has no value (None, NaN)?"),
            "Leaving devices out would tell on them.",
            lambda typed, answers: (
                read.number(typed)
                if answers["type"] == "number"
                else read.label_of(answers["values"], typed)
            ),
            lambda answers: (
                f"{answers['range'][0]:f}"
                if answers["type"] == "number"
                else _quoted(answers["values"][0])
            ),
            _of("ordinal", "number"),
        ),
        Step(
            "candidates",
            _said("Which texts are looked for? Commas between them, or @FILE, one on each line."),
            "Only these are estimated; the list can be changed later.",
            lambda typed, _: read.texts(typed),
            when=_of("string"),
        ),
    )


def of_time(setting: Setting) -> tuple[Step, ...]:
    """How often it is asked, what may show over time, and of how many devices."""

    def remembers(answers: Answers) -> bool:
        if answers.get("change_is_sensitive") or not _over_time(answers):
            return False
        encodes = metric_of(answers, setting.today).mechanism.encodes
        return any(kind.memoizes and kind.encodes == encodes for kind in CATALOGUE.values())

    def remembered(answers: Answers) -> bool:
        return bool(answers.get("remember"))

    return (
        Step(
            "epoch",
            _said(_listed("How long is an epoch?", dict.fromkeys(LENGTHS, ""))),
            "A device reports at most once in each, and pays for it; longer ones cost less.",
            lambda typed, _: read.choice(LENGTHS, typed),
            lambda _: "week",
        ),
        Step(
            "change_is_sensitive",
            _said("Would it harm somebody if it showed that their value changed, or when?"),
            "Then nothing may be remembered: remembered noise hides values, not changes.",
            lambda typed, _: read.yes(typed),
            lambda answers: _yes(answers["sensitivity"] in ("health", "location")),
            _over_time,
        ),
        Step(
            "remember",
            _said("Does a device give the same answer for months, and is it asked all the time?"),
            "Then its noise can be remembered: paid once for each value, not for each report.",
            lambda typed, _: read.yes(typed),
            lambda answers: _yes(answers["type"] == "string"),
            remembers,
        ),
        Step(
            "epsilon_permanent",
            _said("What may all reports of one value ever tell together? An epsilon."),
            "It is reserved for each value that a device has, and limits averages of many epochs.",
            lambda typed, _: read.number(typed),
            lambda _: "4",
            remembered,
        ),
        Step(
            "distinct_values",
            _said("How many different values can a device have in its life?"),
            "So many are paid for in advance; later ones are not reported.",
            lambda typed, _: read.integer(typed),
            lambda _: "2",
            remembered,
        ),
        Step(
            "devices",
            _said("How many devices are there in an epoch that can report it?"),
            "Errors fall with the square root of their number.",
            _devices,
            lambda _: str(setting.devices),
        ),
        Step(
            "every",
            _said("In one of how many epochs does a device report?"),
            "4 costs a device a quarter, and each epoch's error doubles.",
            lambda typed, _: read.integer(typed),
            lambda answers: "1" if remembered(answers) else USUAL_REPORTS[answers["epoch"]],
            lambda answers: answers["epoch"] != "once",
        ),
        Step(
            "sample",
            _said("Which part of the devices takes part at all?"),
            "Whoever is not needed need not be asked; it can be raised later.",
            lambda typed, _: read.number(typed),
            lambda _: "1",
        ),
    )


def of_price(setting: Setting, epsilon: Callable[[str, Answers], Decimal]) -> tuple[Step, ...]:
    """How exact the answer has to be, and what that costs.

    Args:
        setting: What is known.
        epsilon: Reads an epsilon, or finds one for an error.
    """

    def smallest(answers: Answers) -> str:
        asked = Question.of(metric_of(answers, setting.today), answers["devices"])
        return percent(asked.smallest_share)

    def usual(answers: Answers) -> str:
        low, high = USUAL_EPSILON[answers["sensitivity"]]
        asked = min(max(Decimal(1), low), high)
        if answers.get("remember"):
            asked = min(asked, answers["epsilon_permanent"] / 4)
        return f"{asked:f}"

    def price(answers: Answers) -> str:
        low, high = USUAL_EPSILON[answers["sensitivity"]]
        return (
            "What may one report tell? An epsilon, or in per cent the standard error that is "
            f"needed.\n  For sensitivity {answers['sensitivity']} {low} to {high} is usual."
        )

    return (
        Step(
            "share",
            lambda answers: (
                "Which part of the range is the smallest difference that matters?"
                if answers["type"] == "number" and not answers.get("buckets")
                else "Which is the smallest share that matters? (1 % of the devices, or 0.01)"
            ),
            "Whether the question can be answered depends on it.",
            lambda typed, _: read.share(typed),
            smallest,
        ),
        Step(
            "epsilon",
            price,
            "With epsilon 1 a report is at most 2.7 times as probable from one value as another.",
            epsilon,
            usual,
        ),
    )


def of_life(setting: Setting) -> tuple[Step, ...]:
    """What is published, when it begins and when it ends."""

    def fewest(answers: Answers) -> str:
        variance = metric_of(answers, setting.today).mechanism.rare_variance
        return str(max(LEAST_REPORTS, round_up(ceil(variance / LARGEST_ERROR**2))))

    def begin(answers: Answers) -> str:
        length = answers["epoch"]
        if length == "once":
            return (setting.today + timedelta(days=1)).isoformat()
        return first_day(length, epoch_of(length, setting.today) + 1).isoformat()

    return (
        Step(
            "when_absent",
            lambda answers: (
                f"What does a device report for a {answers['epoch']} in which the app recorded "
                f"nothing? {read.NOTHING} for nothing"
                + (", none for no selection." if answers["type"] == "multi_select" else ".")
            ),
            "Silence shows, and estimates are then about devices that recorded something.",
            lambda typed, answers: read.absent(answers["type"], answers.get("values", ()), typed),
            _absent,
            lambda answers: answers["epoch"] != "once",
        ),
        Step(
            "min_reports",
            _said("Below how many reports is nothing published?"),
            "An estimate of few reports is noise.",
            lambda typed, _: read.integer(typed),
            fewest,
        ),
        Step(
            "starts",
            _said("On which day does it begin?"),
            "Devices need the new file by then; a whole first epoch is easier to read.",
            lambda typed, _: read.day(typed),
            begin,
        ),
        Step(
            "expires",
            _said("On which day does it end?"),
            "Devices reserve their budget up to then, and somebody has to decide anew.",
            lambda typed, _: read.day(typed),
            lambda answers: _a_year_after(answers["starts"], answers["epoch"]),
        ),
    )


def of_budget(setting: Setting) -> tuple[Step, ...]:
    """What a device may spend in its life, in a new file."""

    def covering(answers: Answers) -> str:
        (metric,) = alone(answers, setting.today).metrics.values()
        return str(max(24, ceil(metric.share(metric.starts) / 1e6)))

    return (
        Step(
            "lifetime_epsilon",
            _said("How much epsilon may one device ever spend, on all metrics together?"),
            "It never renews; leave room for questions to come.",
            lambda typed, _: read.number(typed),
            covering,
            lambda _: setting.new_file,
        ),
    )


def _said(words: str) -> Callable[[Answers], str]:
    return lambda _: words


def _of(*types: str) -> Callable[[Answers], bool]:
    return lambda answers: answers["type"] in types


def _over_time(answers: Answers) -> bool:
    return bool(answers["epoch"] != "once") or answers["type"] == "string"


def _listed(words: str, options: dict[str, str]) -> str:
    lines = [
        f"  {place} {option}" + (f": {said}" if said else "")
        for place, (option, said) in enumerate(options.items(), 1)
    ]
    return "\n".join([words, *lines])


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _quoted(value: object) -> str:
    """Return a value as it can be typed where - means none and quotes are read."""
    plain = str(value)
    return f'"{plain}"' if plain == read.NOTHING else plain


def _contact(setting: Setting) -> str | None:
    registry = None if setting.file is None else setting.file.registry
    return None if registry is None else registry.contact


def _devices(typed: str, _: Answers) -> int:
    devices = read.integer(typed)
    if devices < 1:
        raise ValueError(f"must be at least 1, got {devices}")
    return devices


def _absent(answers: Answers) -> str:
    kind = answers["type"]
    if kind == "category":
        return _quoted(answers["catch_all"])
    if kind == "ordinal":
        return _quoted(answers["missing"])
    return {"boolean": "no", "multi_select": "none"}.get(kind, read.NOTHING)


def _a_year_after(day: date, epoch: str) -> str | None:
    if day.year >= FOREVER.year - 1:
        return None
    if epoch == "week":
        return (day + timedelta(weeks=52)).isoformat()
    return date(day.year + 1, day.month, min(day.day, 28)).isoformat()

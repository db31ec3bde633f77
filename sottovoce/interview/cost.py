"""How often it is asked, how exactly, at which price and for how long: the later questions.

None of them asks for a mechanism: the planner finds it.
"""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from math import ceil

from client_sdk.epochs import LENGTHS, epoch_of, first_day
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import FOREVER
from client_sdk.review import LARGEST_ERROR, USUAL_EPSILON
from estimator.planning.question import Question
from estimator.planning.verdict import percent, round_up
from sottovoce.interview import answers as read
from sottovoce.interview.entry import Answers, alone, metric_of
from sottovoce.interview.step import Setting, Step, listed, quoted, said, yes

USUAL_REPORTS = {"day": "28", "week": "4", "month": "1"}
"""`every` with which a device answers about once a month."""
LEAST_REPORTS = 100


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
            said(listed("How long is an epoch?", dict.fromkeys(LENGTHS, ""))),
            "A device reports at most once in each, and pays for it; longer ones cost less.",
            lambda typed, _: read.choice(LENGTHS, typed),
            lambda _: "week",
        ),
        Step(
            "change_is_sensitive",
            said("Would it harm somebody if it showed that their value changed, or when?"),
            "Then nothing may be remembered: remembered noise hides values, not changes.",
            lambda typed, _: read.yes(typed),
            lambda answers: yes(answers["sensitivity"] in ("health", "location")),
            _over_time,
        ),
        Step(
            "remember",
            said("Does a device give the same answer for months, and is it asked all the time?"),
            "Then its noise can be remembered: paid once for each value, not for each report.",
            lambda typed, _: read.yes(typed),
            lambda answers: yes(answers["type"] == "string"),
            remembers,
        ),
        Step(
            "epsilon_permanent",
            said("What may all reports of one value ever tell together? An epsilon."),
            "It is reserved for each value that a device has, and limits averages of many epochs.",
            lambda typed, _: read.number(typed),
            lambda _: "4",
            remembered,
        ),
        Step(
            "distinct_values",
            said("How many different values can a device have in its life?"),
            "So many are paid for in advance; later ones are not reported.",
            lambda typed, _: read.integer(typed),
            lambda _: "2",
            remembered,
        ),
        Step(
            "devices",
            said("How many devices are there in an epoch that can report it?"),
            "Errors fall with the square root of their number.",
            _devices,
            lambda _: str(setting.devices),
        ),
        Step(
            "every",
            said("In one of how many epochs does a device report?"),
            "4 costs a device a quarter, and each epoch's error doubles.",
            lambda typed, _: read.integer(typed),
            lambda answers: "1" if remembered(answers) else USUAL_REPORTS[answers["epoch"]],
            lambda answers: answers["epoch"] != "once",
        ),
        Step(
            "sample",
            said("Which part of the devices takes part at all?"),
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
            said("Below how many reports is nothing published?"),
            "An estimate of few reports is noise.",
            lambda typed, _: read.integer(typed),
            fewest,
        ),
        Step(
            "starts",
            said("On which day does it begin?"),
            "Devices need the new file by then; a whole first epoch is easier to read.",
            lambda typed, _: read.day(typed),
            begin,
        ),
        Step(
            "expires",
            said("On which day does it end?"),
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
            said("How much epsilon may one device ever spend, on all metrics together?"),
            "It never renews; leave room for questions to come.",
            lambda typed, _: read.number(typed),
            covering,
            lambda _: setting.new_file,
        ),
    )


def _over_time(answers: Answers) -> bool:
    return bool(answers["epoch"] != "once") or answers["type"] == "string"


def _devices(typed: str, _: Answers) -> int:
    devices = read.integer(typed)
    if devices < 1:
        raise ValueError(f"must be at least 1, got {devices}")
    return devices


def _absent(answers: Answers) -> str:
    kind = answers["type"]
    if kind == "category":
        return quoted(answers["catch_all"])
    if kind == "ordinal":
        return quoted(answers["missing"])
    return {"boolean": "no", "multi_select": "none"}.get(kind, read.NOTHING)


def _a_year_after(day: date, epoch: str) -> str | None:
    if day.year >= FOREVER.year - 1:
        return None
    if epoch == "week":
        return (day + timedelta(weeks=52)).isoformat()
    return date(day.year + 1, day.month, min(day.day, 28)).isoformat()

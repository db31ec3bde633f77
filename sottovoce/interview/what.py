"""What is asked, of whom, and what can be answered: the first questions of the interview."""

from client_sdk.declaration import SENSITIVITIES
from sottovoce.interview import answers as read
from sottovoce.interview.entry import Answers
from sottovoce.interview.step import Setting, Step, listed, of_types, quoted, said

TYPES = {
    "boolean": "yes or no",
    "category": "one of a list",
    "ordinal": "one of a list that has an order",
    "number": "a number in a range",
    "string": "a text out of too many to list",
    "multi_select": "several of a list",
}


def of_project(setting: Setting) -> tuple[Step, ...]:
    """What a new file says of itself."""

    def new(_: Answers) -> bool:
        return setting.new_file

    return (
        Step(
            "project",
            said("The file is new. What is the project's name?"),
            "Users see who asks.",
            lambda typed, _: read.text(typed),
            when=new,
        ),
        Step(
            "contact",
            said("Whom can a user ask about it? An address."),
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
            said("What is the metric's name? Small letters, digits, _ and dots."),
            "The app records under it, and releases are named by it.",
            name,
        ),
        Step(
            "question",
            said("What is asked, and what will be decided with the answer? A sentence or two."),
            "Users read it, and what decides nothing need not be collected.",
            lambda typed, _: read.text(typed),
        ),
        Step(
            "owners",
            said("Who looks at the result? Addresses, commas between them."),
            "What nobody looks at need not be collected; digests go there.",
            lambda typed, _: read.texts(typed),
            lambda answers: answers.get("contact") or _contact(setting),
        ),
        Step(
            "sensitivity",
            said(listed("How sensitive is it?", dict.fromkeys(SENSITIVITIES, ""))),
            "It says which epsilon is usual, and reviewers look at it.",
            lambda typed, _: read.choice(SENSITIVITIES, typed),
            lambda _: "product",
        ),
        Step(
            "type",
            said(listed("What is an answer?", TYPES)),
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
            said("Which values are there? Commas between them, or @FILE with one on each line."),
            "The fewer there are the better each is seen; they cannot be changed later.",
            lambda typed, _: read.labels(typed),
            when=of_types("category", "ordinal", "multi_select"),
        ),
        Step(
            "catch_all",
            said("Which of them stands for everything that is not in the list?"),
            "Apps meet values that nobody thought of.",
            lambda typed, answers: read.label_of(answers["values"], typed),
            lambda answers: quoted(answers["values"][-1]),
            of_types("category"),
        ),
        Step(
            "most",
            said("How many of them can one device select at most?"),
            "Noise grows with it; of more the first of the list are reported.",
            lambda typed, _: read.integer(typed),
            lambda answers: str(min(3, len(answers["values"]))),
            of_types("multi_select"),
        ),
        Step(
            "range",
            said("Between which two numbers does it lie? What lies outside is moved to the end."),
            "Noise is as wide as the range, so take the narrowest that will do.",
            lambda typed, _: read.ends(typed),
            when=of_types("number"),
        ),
        Step(
            "buckets",
            said("Into how many equal buckets is it cut? 0 if its mean alone is wanted."),
            "A mean takes far fewer devices than a distribution; many buckets are seen badly.",
            lambda typed, _: read.integer(typed) or None,
            lambda _: "10",
            of_types("number"),
        ),
        Step(
            "missing",
            said("What is reported where the app has no value (None, NaN)?"),
            "Leaving devices out would tell on them.",
            lambda typed, answers: (
                read.number(typed)
                if answers["type"] == "number"
                else read.label_of(answers["values"], typed)
            ),
            lambda answers: (
                f"{answers['range'][0]:f}"
                if answers["type"] == "number"
                else quoted(answers["values"][0])
            ),
            of_types("ordinal", "number"),
        ),
        Step(
            "candidates",
            said("Which texts are looked for? Commas between them, or @FILE, one on each line."),
            "Only these are estimated; the list can be changed later.",
            lambda typed, _: read.texts(typed),
            when=of_types("string"),
        ),
    )


def _contact(setting: Setting) -> str | None:
    registry = None if setting.file is None else setting.file.registry
    return None if registry is None else registry.contact

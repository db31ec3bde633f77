"""What a survey is, once its file has been read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from client_sdk.metric import Metric
from client_sdk.registry import Registry

Admission = Literal["open", "invitation"]
Phase = Literal["coming", "open", "over"]


@dataclass(frozen=True)
class Interface:
    """The page's own words in one language.

    Attributes:
        language: A tag such as "en", for `lang`.
        name: What the language calls itself, for the language switch.
        direction: For `dir`.
        texts: By key; the keys and the {placeholders} of each are those of languages/en.toml.
    """

    language: str
    name: str
    direction: Literal["ltr", "rtl"]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Odds:
    """What chance does to an answer, of 100 people, rounded to whole people.

    Attributes:
        kind: "cell": one answer is sent. "bits": each answer is sent with or without a tick.
        kept: Of 100 people with one true answer, how many send it, or tick it.
        other: How many of them send, or tick, any given other one.
    """

    kind: Literal["cell", "bits"]
    kept: int
    other: int


@dataclass(frozen=True)
class Answer:
    """One answer of a question.

    Attributes:
        name: In the file; PREFER_NOT for that one.
        text: By language.
        value: What the metric takes for it: its name, or a boolean where there are two.
    """

    name: str
    text: Mapping[str, str]
    value: str | bool


@dataclass(frozen=True)
class Question:
    """One question, with the metric that counts it.

    Attributes:
        name: In the file.
        text: By language.
        answers: In the order of the page; PREFER_NOT last, where there is one.
        metric: From the survey's registry.
        odds: See `Odds`.
        deniability: Whether the page says that nobody can tell; only where the odds allow it.
    """

    name: str
    text: Mapping[str, str]
    answers: tuple[Answer, ...]
    metric: Metric
    odds: Odds
    deniability: bool


@dataclass(frozen=True)
class Survey:
    """One survey.

    Attributes:
        name: In addresses and metric names.
        contact: Who answers questions about it.
        languages: Tags; the first is the default.
        admission: Who may answer: everybody, or who holds an invitation.
        starts: First day.
        expires: Last day. The metrics expire on the day after, as metrics.toml counts.
        title: By language.
        purpose: By language: who asks, why, and who looks at it.
        questions: In order.
        interface: The page's own words, by language.
        registry_text: The metrics.toml that it compiles to.
        registry: The same, read.
        epsilon: What all questions together lose at most, rounded up to millionths: decimal text.
        text: The file as it was read.
    """

    name: str
    contact: str
    languages: tuple[str, ...]
    admission: Admission
    starts: date
    expires: date
    title: Mapping[str, str]
    purpose: Mapping[str, str]
    questions: tuple[Question, ...]
    interface: Mapping[str, Interface]
    registry_text: str
    registry: Registry
    epsilon: str
    text: str

    def __repr__(self) -> str:
        return f"Survey({self.name!r}, {[question.name for question in self.questions]})"

    def phase(self, today: date) -> Phase:
        """Say whether the survey can be answered on a UTC date."""
        if today < self.starts:
            return "coming"
        return "open" if today <= self.expires else "over"

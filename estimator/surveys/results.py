"""What comes of a survey: of each question its release, or before the end what it says so far.

Nothing is known here but what is published: release files, and previews of open epochs. Below
`min_reports` neither has numbers.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from client_sdk.epochs import label
from client_sdk.survey import PREFER_NOT, Answer, Question, Survey
from estimator.estimates import Estimate, Estimates
from estimator.releases import previews
from estimator.releases.files import path_of, read
from estimator.releases.previews import Preview
from estimator.releases.release import POOLED, Release

Stage = Literal["nothing yet", "so far", "final"]
ONCE = label("once", 0)


@dataclass(frozen=True)
class Result:
    """What comes of one question.

    Attributes:
        question: As the file has it.
        release: The release, or what it would be; None: there is neither.
        taken_at: When that was, Unix time in seconds; None: it is the release itself.
        others: Fingerprints of other versions of the question that there are figures of.
    """

    question: Question
    release: Release | None
    taken_at: float | None
    others: tuple[str, ...]

    @property
    def stage(self) -> Stage:
        """How far it is."""
        if self.release is None:
            return "nothing yet"
        return "final" if self.taken_at is None else "so far"

    @property
    def estimates(self) -> Estimates | None:
        """The numbers; None: there are none, or too few reports to show any."""
        return None if self.release is None else self.release.estimates

    @property
    def withheld(self) -> bool:
        """Whether there are too few reports to show."""
        return self.release is not None and self.release.estimates is None

    @property
    def answers(self) -> list[tuple[Answer, Estimate]]:
        """Answers with their estimates, in the order of the page."""
        if self.estimates is None:
            return []
        known = {(type(entry.value), entry.value): entry for entry in self.estimates.entries}
        return [
            (answer, known[type(answer.value), answer.value])
            for answer in self.question.answers
            if (type(answer.value), answer.value) in known
        ]

    @property
    def non_response(self) -> Estimate | None:
        """The estimated share of those who prefer not to answer; None: that is no answer here."""
        found = (entry for answer, entry in self.answers if answer.name == PREFER_NOT)
        return next(found, None)


def results(survey: Survey, directory: Path) -> list[Result]:
    """Read what comes of each question, in the order of the file.

    Args:
        survey: What was asked.
        directory: Of the releases.

    Raises:
        DocumentError: A file is not what its name says.
        OSError: One cannot be read.
    """
    return [_result(question, directory) for question in survey.questions]


def document(survey: Survey, found: list[Result]) -> dict[str, Any]:
    """Return all of it for programs; of a question whose numbers are withheld not even their n."""
    return {
        "survey": survey.name,
        "title": dict(survey.title),
        "starts": survey.starts.isoformat(),
        "expires": survey.expires.isoformat(),
        "admission": survey.admission,
        "epsilon": survey.epsilon,
        "questions": [
            {
                "question": each.question.name,
                "text": dict(each.question.text),
                "answers": [
                    {"name": answer.name, "text": dict(answer.text), "value": answer.value}
                    for answer in each.question.answers
                ],
                "odds": asdict(each.question.odds),
                "stage": each.stage,
                "taken_at": each.taken_at,
                "other_versions": list(each.others),
                "release": None if each.release is None else each.release.to_dict(),
            }
            for each in found
        ],
    }


def _result(question: Question, directory: Path) -> Result:
    metric = question.metric
    others = tuple(sorted(set(_versions(directory, metric.name)) - {metric.fingerprint, POOLED}))
    final = path_of(directory, metric.name, ONCE, metric.fingerprint)
    if final.exists():
        return Result(question, read(final), None, others)
    preview = _preview(directory, question)
    if preview is None:
        return Result(question, None, None, others)
    return Result(question, preview.release, preview.taken_at, others)


def _preview(directory: Path, question: Question) -> Preview | None:
    metric = question.metric
    try:
        return previews.read(previews.place(directory, metric.name, ONCE, metric.fingerprint))
    except FileNotFoundError:
        return None


def _versions(directory: Path, name: str) -> Iterator[str]:
    open_ones = previews.place(directory, name, ONCE, "").parent
    for folder in (directory / name, open_ones):
        for path in folder.glob(f"{ONCE}.*.json"):
            yield path.name.split(".")[1]

"""The overview: does the system do its work, and what does each metric say now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from client_sdk.metric import Metric
from client_sdk.survey import survey_of
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.standing import Standing, standing
from estimator.errors import DocumentError
from estimator.releases import telling
from estimator.releases.alarms import alarms
from estimator.releases.caveats import SMOOTHED
from estimator.releases.charts import in_percent, shown
from estimator.releases.number import ends_in_unit, figure_in_unit, foremost
from estimator.releases.release import Release


@dataclass(frozen=True)
class Top:
    """One figure of a release: a mean, a median, or the largest share.

    Attributes:
        of: What it is of: "mean", "median", or the name of a value.
        estimate: With its unit where it has one.
        interval: At the release's level.
        smoothed: Whether that is about the share as smoothed, not about the true one.
    """

    of: str
    estimate: str
    interval: str
    smoothed: bool = False


@dataclass(frozen=True)
class Row:
    """One metric.

    Attributes:
        name: Of the metric.
        question: What is asked, without why.
        latest: Its latest release; None: there is none yet.
        top: Of that, the figure that says most; None if withheld or empty.
        alarms: Of that, in words.
        asked: Whether the newest registry still asks it.
    """

    name: str
    question: str
    latest: Release | None
    top: Top | None
    alarms: tuple[str, ...]
    asked: bool


@dataclass(frozen=True)
class Overview:
    """The page.

    Attributes:
        project: The project's name; None while the store is away.
        standing: Whether the system does its work.
        rows: Metrics that are asked, in the order of the file, then those that were.
        unreadable: Metrics whose latest release cannot be read, and why.
        surveys: How many surveys have pages of their own; their questions are no rows here.
    """

    project: str | None
    standing: Standing
    rows: tuple[Row, ...]
    unreadable: Mapping[str, str]
    surveys: int = 0

    @property
    def alarming(self) -> list[Row]:
        """Metrics whose latest release somebody should look at before using it."""
        return [row for row in self.rows if row.alarms]


def overview(inputs: Inputs) -> Overview:
    """Gather the page."""
    found = standing(inputs)
    registry = found.registry
    asked = {} if registry is None else dict(registry.metrics)
    latest: dict[str, Release] = {}
    unreadable: dict[str, str] = {}
    for name in inputs.published.metrics():
        try:
            release = inputs.published.latest(name)
        except DocumentError as error:
            unreadable[name] = str(error)
        except OSError as error:
            unreadable[name] = str(error.strerror)
        else:
            latest |= {} if release is None else {name: release}
    project = None if registry is None else registry.project
    shown = {survey.name for survey in inputs.surveys}
    rows = [row for row in _rows(asked, latest) if survey_of(row.name) not in shown]
    return Overview(project, found, tuple(rows), unreadable, len(shown))


def _rows(asked: dict[str, Metric], latest: dict[str, Release]) -> Iterator[Row]:
    for name, metric in asked.items():
        yield _row(name, metric.question, latest.get(name), asked=True)
    for name, release in latest.items():
        if name not in asked:
            yield _row(name, release.question, release, asked=False)


def _row(name: str, question: str, release: Release | None, *, asked: bool) -> Row:
    found = () if release is None else tuple(alarms(release))
    return Row(name, telling.asked(question)[0], release, _top(release), found, asked)


def _top(release: Release | None) -> Top | None:
    if release is None or release.estimates is None:
        return None
    number = foremost(release.estimates)
    if number is not None:
        return Top(number.name, figure_in_unit(number), ends_in_unit(number))
    named = [entry for entry in release.estimates.entries if entry.share is not None]
    if not named:
        return None
    top = max(named, key=lambda entry: entry.share or 0.0)
    ends = top.interval
    interval = f"{in_percent(ends[0])} to {in_percent(ends[1])}" if ends else "\N{EN DASH}"
    smoothed = release.channels.mechanism in SMOOTHED
    return Top(shown(top.value), in_percent(top.share), interval, smoothed)

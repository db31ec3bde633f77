"""A metric's page: a release with all that it says, what came before, and the epoch so far."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from werkzeug.datastructures import MultiDict

from client_sdk.epochs import day_of, epoch_of
from client_sdk.metric import Metric
from estimator.dashboard.pages import meaning
from estimator.dashboard.pages.choice import (
    EPOCHS,
    MOST_EPOCHS,
    Choice,
    choice,
    query_of,
    shown_history,
)
from estimator.dashboard.pages.history import History, history
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.problems import ReadProblem
from estimator.dashboard.shelf import METRIC, Entry
from estimator.due import due_at
from estimator.estimates import Estimates
from estimator.releases import previews, rows, telling
from estimator.releases.alarms import alarms
from estimator.releases.charts import shown_entries
from estimator.releases.previews import Preview
from estimator.releases.release import POOLED, Privacy, Release
from estimator.releases.rows import Table
from estimator.releases.telling import Facts
from estimator.releases.width import TARGET, is_of_a_mean, n_needed

_MOST_ROWS = 100
_FILES = (
    ("json", "signed document (JSON)"),
    ("csv", "table (CSV)"),
    ("sig", "signature"),
    ("html", "page to keep and send"),
)


@dataclass(frozen=True)
class Link:
    """Another view of the metric.

    Attributes:
        text: What is there.
        query: Of its address.
        here: Whether it is this one.
    """

    text: str
    query: Mapping[str, str]
    here: bool = False


@dataclass(frozen=True)
class Figures:
    """What a published release, or a preview, says in numbers.

    Attributes:
        estimates: The numbers.
        summary: In a sentence.
        table: Of values.
        hidden_in_chart: How many values the chart has no room for.
        alarms: In words.
    """

    estimates: Estimates
    summary: str
    table: Table
    hidden_in_chart: int
    alarms: tuple[str, ...]

    @property
    def above(self) -> str:
        """What the column of significance says."""
        return f"{self.estimates.level:.0%}"

    @property
    def number_heading(self) -> str:
        """What figures there are beside shares."""
        quantiles = bool(self.estimates.quantiles)
        if self.estimates.mean is None:
            return "Quantiles" if quantiles else ""
        return "Mean and quantiles" if quantiles else "Mean"


@dataclass(frozen=True)
class View:
    """One release of the metric.

    Attributes:
        release: The document.
        figures: None if it is withheld.
        days: What it covers.
        earlier: The epoch before; None: there is none.
        later: The epoch after.
        latest: Whether no later epoch was released.
        versions: Releases of this epoch, if there are several.
        history: Epochs up to this one.
        ranges: How far back the history may be seen, if that is a choice.
        sureness: How sure the figures are.
        meaning: What the figures mean.
        downloads: Texts and addresses.
        query: The query that names this view.
    """

    release: Release
    figures: Figures | None
    days: str
    earlier: Link | None
    later: Link | None
    latest: bool
    versions: tuple[Link, ...]
    history: History
    ranges: tuple[Link, ...]
    sureness: Facts
    meaning: tuple[str, ...]
    downloads: tuple[tuple[str, str], ...]
    query: Mapping[str, str]

    @property
    def drawable(self) -> bool:
        """Whether there is a trend to draw."""
        return sum(epoch.n is not None for epoch in self.history.epochs) > 1

    @property
    def of_a_mean(self) -> bool:
        """Whether widths are those of a mean."""
        return is_of_a_mean(self.release)

    @property
    def one_point(self) -> str:
        """What one hundredth is of."""
        return "% of the range" if self.of_a_mean else "percentage point"

    @property
    def of(self) -> str:
        """What the figures are of."""
        return "Asked once" if self.release.epoch == "once" else self.release.epoch

    @property
    def published_before(self) -> Link | None:
        """The last epoch before that is not withheld."""
        for epoch in self.history.epochs[1:]:
            if epoch.n is not None and epoch.fingerprint is not None:
                query = {"epoch": epoch.name, "fingerprint": epoch.fingerprint}
                return Link(f"{epoch.name}, {epoch.n:,} reports", query)
        return None


@dataclass(frozen=True)
class SoFar:
    """An open epoch.

    Attributes:
        preview: As the schedule has taken it last.
        figures: None while it is withheld.
    """

    preview: Preview
    figures: Figures | None


@dataclass(frozen=True)
class MetricPage:
    """The page.

    Attributes:
        project: The project's name.
        name: Of the metric.
        heading: What is asked.
        reason: Why, and who looks.
        view: A release; None: there is none yet.
        first: The day on which the first release may come; None: it is there, or none will come.
        so_far: Open epochs; shown beside the latest release.
        device: What one report can tell about a device.
        cost: What was spent.
    """

    project: str
    name: str
    heading: str
    reason: str
    view: View | None
    first: str | None
    so_far: tuple[SoFar, ...]
    device: tuple[str, ...]
    cost: Facts


def metric_page(inputs: Inputs, name: str, given: "MultiDict[str, str]") -> MetricPage:
    """Gather the page.

    Raises:
        ReadProblem: The query is wrong, or there is no such metric or release.
        StoreUnavailable: There is no release, and the store, which knows what is asked, is away.
    """
    chosen = choice(inputs, name, given)
    if chosen is None:
        return _without_release(inputs, name)
    back = shown_history(inputs, chosen)
    release = inputs.published.release(chosen.entry)
    view = _view(inputs, chosen, release, back)
    heading, reason = telling.asked(release.question)
    so_far = _so_far(inputs, name, back) if view.latest else ()
    return MetricPage(
        project=release.project,
        name=name,
        heading=heading,
        reason=reason,
        view=view,
        first=None,
        so_far=so_far,
        device=tuple(meaning.of_the_device(release.privacy, once=release.epoch == "once")),
        cost=[*telling.cost(release.privacy), *telling.lives(release)],
    )


def preview_of(inputs: Inputs, name: str, epoch: str, fingerprint: str) -> Preview | None:
    """Return one preview of a metric that the page shows; None: there is none."""
    for each in _open_epochs(inputs, name):
        if (each.release.epoch, each.release.fingerprint) == (epoch, fingerprint):
            return each
    return None


def _without_release(inputs: Inputs, name: str) -> MetricPage:
    registry = inputs.source.newest()
    versions = [metric for metric in inputs.source.metrics() if metric.name == name]
    metric = registry.metrics.get(name) or (versions[-1] if versions else None)
    if metric is None:
        raise ReadProblem("not_found", "no metric of this name was ever asked", "metric")
    heading, reason = telling.asked(metric.question)
    privacy = Privacy.of(metric)
    return MetricPage(
        project=registry.project,
        name=name,
        heading=heading,
        reason=reason,
        view=None,
        first=_first_release(metric, inputs.clock()),
        so_far=_so_far(inputs, name, ()),
        device=tuple(meaning.of_the_device(privacy, once=metric.epoch == "once")),
        cost=telling.cost(privacy),
    )


def _first_release(metric: Metric, now: float) -> str | None:
    today = day_of(now)
    if not metric.endless and today >= metric.expires:
        return None
    epoch = epoch_of(metric.epoch, max(today, metric.starts))
    return day_of(due_at([metric], epoch)).isoformat()


def _view(inputs: Inputs, chosen: Choice, release: Release, back: Sequence[Release]) -> View:
    entry, estimates = chosen.entry, release.estimates
    epochs = inputs.published.chosen(entry.metric)
    before = [each for each in epochs if each.first_day < entry.first_day]
    after = [each for each in epochs if each.first_day > entry.first_day]
    return View(
        release=release,
        figures=None if estimates is None else _figures(release, estimates, back),
        days=telling.days(release),
        earlier=Link(before[-1].epoch, query_of(before[-1])) if before else None,
        later=Link(after[0].epoch, query_of(after[0])) if after else None,
        latest=not after,
        versions=_versions(inputs, entry),
        history=history(back),
        ranges=_ranges(chosen, len(before) + 1),
        sureness=[] if estimates is None else list(_sureness(release, estimates)),
        meaning=() if estimates is None else tuple(meaning.of_the_figures(release, estimates)),
        downloads=tuple(_downloads(inputs, entry)),
        query=chosen.query,
    )


def _figures(release: Release, estimates: Estimates, back: Sequence[Release]) -> Figures:
    listed = rows.table(release, shown_entries(release, _MOST_ROWS), back)
    drawn = len(shown_entries(release))
    return Figures(
        estimates=estimates,
        summary=telling.summary(release, estimates),
        table=listed,
        hidden_in_chart=len(estimates.all_entries) - drawn,
        alarms=tuple(alarms(release)),
    )


def _versions(inputs: Inputs, entry: Entry) -> tuple[Link, ...]:
    found = inputs.published.shelf.of(entry.metric, entry.epoch)
    if len(found) < 2:
        return ()
    found.sort(key=lambda each: each.fingerprint != POOLED)
    return tuple(
        Link(
            "all versions, pooled" if each.fingerprint == POOLED else each.fingerprint,
            query_of(each),
            each == entry,
        )
        for each in found
    )


def _ranges(chosen: Choice, epochs: int) -> tuple[Link, ...]:
    if epochs <= EPOCHS:
        return ()
    most = min(MOST_EPOCHS, epochs)
    everything = "all" if most == epochs else f"the last {most}"
    query = query_of(chosen.entry)
    return (
        Link(f"the last {EPOCHS}", query, chosen.epochs == EPOCHS),
        Link(everything, query | {"epochs": str(MOST_EPOCHS)}, chosen.epochs >= most),
    )


def _sureness(release: Release, estimates: Estimates) -> Iterator[tuple[str, str]]:
    facts = dict(telling.sureness(release, estimates))
    yield "Reports", facts.pop("Reports")
    spent = release.lifetime
    if spent is not None and spent.devices:
        words = f"{spent.devices:,} had ever reported anything when this was published"
        if estimates.n <= spent.devices:  # else some were erased since
            words += f"; {estimates.n / spent.devices:.0%} of them are in it"
        yield "Of how many devices", words
    if release.channels.inclusion == 1:
        once = release.epoch == "once"
        yield "Sample", f"every device is asked {'once' if once else 'in every epoch'}"
    elif release.channels.inclusion is None:
        yield "Sample", "as each version has it; shares are weighted by it"
    for term, words in facts.items():
        yield term, words
        needed = n_needed(release) if term == "Widest interval" else None
        if needed is not None:
            unit = "% of the range" if is_of_a_mean(release) else "point"
            wanted = f"For \N{PLUS-MINUS SIGN} {100 * TARGET:g} {unit}"
            same = "values stay as spread" if is_of_a_mean(release) else "shares stay"
            yield wanted, _still(needed, estimates.n, same)


def _still(needed: int, n: int, same: str) -> str:
    if needed <= n:
        return f"reached: {needed:,} reports are enough"
    return f"{needed:,} reports are needed, {needed - n:,} more than these, if {same} as they are"


def _downloads(inputs: Inputs, entry: Entry) -> Iterator[tuple[str, str]]:
    path = inputs.published.shelf.path(entry)
    for kind, text in _FILES:
        if path.with_suffix(f".{kind}").exists():
            query = {"fingerprint": entry.fingerprint} | (
                {} if kind == "json" else {"format": kind}
            )
            yield text, f"/v1/releases/{quote(entry.metric)}/{entry.epoch}?{urlencode(query)}"


def _open_epochs(inputs: Inputs, name: str) -> list[Preview]:
    if not re.fullmatch(METRIC, name):
        return []
    shelf = inputs.published.shelf
    found = previews.shown(inputs.releases, name)
    return [each for each in found if not shelf.of(name, each.release.epoch)]


def _so_far(inputs: Inputs, name: str, back: Sequence[Release]) -> tuple[SoFar, ...]:
    return tuple(
        SoFar(
            each,
            None
            if each.release.estimates is None
            else _figures(each.release, each.release.estimates, back),
        )
        for each in _open_epochs(inputs, name)
    )

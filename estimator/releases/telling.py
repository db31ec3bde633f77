"""What a release says, in words that its own page and the dashboard share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.errors import NotPublishable
from estimator.estimates import Estimate, Estimates
from estimator.releases.across_epochs import AcrossEpochs, change
from estimator.releases.caveats import SMOOTHED
from estimator.releases.charts import Names, in_percent, in_points, names_of, whole
from estimator.releases.number import (
    Figure,
    ends_in_unit,
    figure_in_unit,
    figures,
    foremost,
    in_unit,
)
from estimator.releases.release import Privacy, Release
from estimator.releases.width import half_width, is_of_a_mean

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Row:
    """One value's figures as they are shown.

    Attributes:
        value: Its name, as in the charts.
        whole: Its name, however long.
        share: In percent, as all others here.
        error: Standard error.
        interval: Of this value by itself.
        significant: "yes" or "no", judged over all values at once; a dash where it is not judged.
        change: Since the release before, in percentage points; * if significant; "" if unknown.
        negative: Whether the share is below zero.
    """

    value: str
    whole: str
    share: str
    error: str
    interval: str
    significant: str
    change: str
    negative: bool


@dataclass(frozen=True)
class NumberRow:
    """A mean or a quantile as it is shown, in the metric's unit.

    Attributes:
        name: What it is.
        value: The estimate.
        error: Standard error; "" for quantiles.
        interval: Its interval.
        change: Since the release before; * if significant; "" if unknown.
    """

    name: str
    value: str
    error: str
    interval: str
    change: str


@dataclass(frozen=True)
class Table:
    """The figures of a release.

    Attributes:
        rows: One per value that is shown.
        since: Epoch of the release before; None: there is none to compare with.
        hidden: How many smaller values are not shown.
        numbers: The mean, then quantiles; none of shares alone.
    """

    rows: tuple[Row, ...]
    since: str | None
    hidden: int
    numbers: tuple[NumberRow, ...] = ()


def table(release: Release, entries: Sequence[Estimate], history: Sequence[Release]) -> Table:
    """Return the figures of some entries, with changes since the last release before.

    Args:
        release: A published one.
        entries: Of the release.
        history: Releases that are comparable with it, oldest first.
    """
    moved = _change(release, history)
    changes = {} if moved is None else _changes(moved)
    names = names_of(release)
    listed = 0 if release.estimates is None else len(release.estimates.all_entries)
    return Table(
        rows=tuple(_row(entry, names, changes) for entry in entries),
        since=None if moved is None else moved.epochs[0],
        hidden=listed - len(entries),
        numbers=() if release.estimates is None else _numbers(release.estimates, moved),
    )


def asked(question: str) -> tuple[str, str]:
    """Return what a question asks, and then why and who looks, which may be empty."""
    heading, mark, reason = question.partition("?")
    return heading + mark, reason.strip()


def days(release: Release) -> str:
    """Return which days a release is about and when it was published."""
    covered = release.first_day
    if release.last_day != release.first_day:
        covered += f" to {release.last_day}"
    early = "; closed early, so it covers the part before that" if release.closed_early else ""
    return f"{covered} (UTC), published {release.published_on}{early}"


def summary(release: Release, estimates: Estimates) -> str:
    """Return the release in a sentence or two."""
    devices = f"{estimates.n:,} devices reported."
    if (number := foremost(estimates)) is not None:
        return (
            f"{devices} The estimated {_called(number)} {figure_in_unit(number)}, probably between "
            f"{ends_in_unit(number).replace(' to ', ' and ')}."
        )
    listed = [entry for entry in estimates.entries if entry.share is not None and entry.interval]
    if not listed:
        return devices
    top = max(listed, key=lambda entry: entry.share or 0.0)
    low, high = top.interval or (0.0, 0.0)
    named = (
        f"\N{LEFT DOUBLE QUOTATION MARK}{names_of(release)[type(top.value), top.value]}"
        f"\N{RIGHT DOUBLE QUOTATION MARK}: {in_percent(top.share)}"
    )
    if release.channels.mechanism in SMOOTHED:
        return f"{devices} The largest share as smoothed is {named}; a narrow peak is higher."
    return (
        f"{devices} The largest estimated share is {named}, probably between "
        f"{in_percent(low)} and {in_percent(high)}."
    )


def sureness(release: Release, estimates: Estimates) -> Facts:
    """Return what says how sure the figures are."""
    facts = [("Reports", f"{estimates.n:,}")]
    inclusion = release.channels.inclusion
    if inclusion is not None and inclusion < 1:
        facts.append(("Sample", f"one device in {1 / inclusion:.3g} is asked in each epoch"))
    half = half_width(release)
    if half is not None:
        facts.append(("Widest interval", _wide(release, half)))
    effects = [entry.design_effect for entry in estimates.entries if entry.design_effect]
    if effects:
        facts.append(
            (
                "Price of privacy",
                f"as precise as about {round(estimates.n / min(effects)):,} answers without noise, "
                "at best",
            )
        )
    if estimates.worst_shift is not None:
        facts.append(("If 1 % of reports are fakes", off_by_fakes(release, estimates.worst_shift)))
    if estimates.all_entries:
        around = f"{in_percent(estimates.negative_mass)} (noise around zero)"
        facts.append(("Sum of negative estimates", around))
    if release.range is not None:
        low, high = release.range
        facts.append(("Range", f"{low:,.15g} to {high:,.15g}; what is outside counts at its end"))
    facts.append(("Method", estimates.method))
    return facts


def off_by_fakes(release: Release, shift: float) -> str:
    """Return what one fake in a hundred reports does to a figure."""
    if is_of_a_mean(release):
        return f"the mean may be off by up to {in_unit(shift, shift)} more"
    return f"a share may be off by up to {in_points(shift)} percentage points more"


def influence(release: Release) -> str:
    """Return the same, short; a dash where there is none."""
    shift = None if release.estimates is None else release.estimates.worst_shift
    if shift is None:
        return "\N{EN DASH}"
    return in_unit(shift, shift) if is_of_a_mean(release) else f"{in_points(shift)} points"


def cost(given: Privacy) -> Facts:
    """Return what one device gave for a metric."""
    facts = [("Of one report", f"epsilon {given.epsilon:.4g}")]
    if given.epsilon_permanent is not None and given.distinct_values is not None:
        facts.append(
            (
                "Of all reports, ever",
                f"epsilon {given.epsilon_permanent:.4g} for each of {given.distinct_values} "
                "distinct values, between histories that change at the same times",
            )
        )
        fresh = given.epsilon_instantaneous
        facts.append(
            (
                "Whether a value changed",
                "not protected"
                if fresh is None
                else f"not protected beyond epsilon {fresh:.4g} per report",
            )
        )
    return facts


def lives(release: Release) -> Facts:
    """Return what devices had spent on all metrics by then, if it tells."""
    spent = release.lifetime
    if spent is None or spent.highest is None:
        return []
    return [
        (
            "Lifetime, all metrics",
            f"{spent.devices:,} devices have spent: median epsilon {spent.median:.4g}, highest "
            f"{spent.highest:.4g}; no device may pass {spent.cap:g}",
        )
    ]


def caveats(release: Release) -> list[str]:
    """Return what the figures are not: of the document's caveats those about no field of it."""
    return [caveat for caveat in release.caveats if "`" not in caveat]


def _row(entry: Estimate, names: Names, changes: Mapping[object, str]) -> Row:
    ends = entry.interval
    key = (type(entry.value), entry.value)
    return Row(
        value=names[key],
        whole=whole(entry.value),
        share=in_percent(entry.share),
        error=in_percent(entry.standard_error),
        interval=f"{in_percent(ends[0])} to {in_percent(ends[1])}" if ends else "",
        significant=_judged(entry.significant),
        change=changes.get(key, ""),
        negative=(entry.share or 0.0) < 0,
    )


def _judged(significant: bool | None) -> str:
    if significant is None:  # smoothing blurs who is present
        return "\N{EN DASH}"
    return "yes" if significant else "no"


def _called(number: Figure) -> str:
    """Return a figure as the subject of a sentence, with its verb."""
    if number.name in ("mean", "median"):
        return f"{number.name} is"
    return f"value that {number.name} is"


def _wide(release: Release, half: float) -> str:
    sign = "\N{PLUS-MINUS SIGN}"
    if not is_of_a_mean(release) or release.range is None:
        return f"{sign} {in_points(half)} percentage points"
    low, high = release.range
    width = half * (high - low)
    return f"{sign} {in_unit(width, width)}, which is {in_points(half)} % of the range"


def _numbers(estimates: Estimates, moved: AcrossEpochs | None) -> tuple[NumberRow, ...]:
    return tuple(
        NumberRow(
            name=each.name,
            value=figure_in_unit(each),
            error="" if each.error is None else in_unit(each.error, each.error),
            interval=ends_in_unit(each),
            change="" if each.error is None else _change_of_mean(moved),
        )
        for each in figures(estimates)
    )


def _change_of_mean(moved: AcrossEpochs | None) -> str:
    if moved is None or moved.mean is None:
        return ""
    half = _half(moved.mean.interval)
    sure = " *" if moved.mean.significant else ""
    told, ends = (in_unit(each, moved.mean.standard_error) for each in (moved.mean.value, half))
    return f"{told} \N{PLUS-MINUS SIGN} {ends}{sure}"


def _change(release: Release, history: Sequence[Release]) -> AcrossEpochs | None:
    before = [other for other in history if other.last_day < release.first_day]
    if not before:
        return None
    try:
        return change(before[-1], release)
    except NotPublishable:  # withheld, or of other values
        return None


def _changes(moved: AcrossEpochs) -> dict[object, str]:
    return {
        (type(entry.value), entry.value): (
            f"{in_points(entry.share)} \N{PLUS-MINUS SIGN} {in_points(_half(entry.interval))}"
            f"{' *' if entry.significant else ''}"
        )
        for entry in moved.entries
    }


def _half(interval: tuple[float, float]) -> float:
    return (interval[1] - interval[0]) / 2

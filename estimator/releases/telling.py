"""What a release says, in words that its own page and the dashboard share."""

from estimator.estimates import Estimates
from estimator.releases.caveats import SMOOTHED
from estimator.releases.charts import in_percent, in_points, names_of
from estimator.releases.number import Figure, ends_in_unit, figure_in_unit, foremost, in_unit
from estimator.releases.release import Privacy, Release
from estimator.releases.width import half_width, is_of_a_mean

Facts = list[tuple[str, str]]


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

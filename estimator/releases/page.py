"""A release as one self-contained page: charts, numbers and what they mean, in plain words.

The page loads nothing, runs no script, and holds nothing that the release does not publish.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from estimator.estimates import Estimates
from estimator.releases import rows, telling
from estimator.releases.alarms import alarms
from estimator.releases.charts import shown_entries
from estimator.releases.drawn import Drawn
from estimator.releases.release import Release


def page(release: Release, history: Sequence[Release], drawn: Drawn) -> str:
    """Return the HTML text.

    Args:
        release: What the page is about.
        history: Releases that are comparable with it, it included, oldest first.
        drawn: Its charts.
    """
    heading, reason = telling.asked(release.question)
    context: dict[str, Any] = {
        "release": release,
        "file": f"{release.epoch}.{release.fingerprint}",
        "heading": heading,
        "reason": reason,
        "days": telling.days(release),
        "privacy": [*telling.cost(release.privacy), *telling.lives(release)],
        "caveats": telling.caveats(release),
    }
    if release.estimates is not None:
        context |= _numbers(release, release.estimates, history)
        # Drawn by Vega from data, which it escapes.
        context |= {name: Markup(svg or "") for name, svg in vars(drawn).items()}
    return render("release.html", **context)


def render(template: str, **context: Any) -> str:
    """Fill in a template of this package; every text is escaped."""
    return _templates().get_template(template).render(context)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("estimator"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _numbers(release: Release, estimates: Estimates, history: Sequence[Release]) -> dict[str, Any]:
    return {
        "level": f"{estimates.level:.0%}",
        "level_of_100": f"{100 * estimates.level:g}",
        "odds": f"{1 / (1 - estimates.level):.0f}",
        "alarms": alarms(release),
        "summary": telling.summary(release, estimates),
        "table": rows.table(release, shown_entries(release), history),
        "mean": estimates.mean is not None,
        "quantiles": bool(estimates.quantiles),
        "sureness": telling.sureness(release, estimates),
    }

"""A metric's addresses: its page, and the pictures on it."""

from collections.abc import Callable

from flask import Blueprint, Response, render_template, request

from estimator.dashboard.api.queries import matching, one_of
from estimator.dashboard.pages.choice import Choice, choice, shown_history
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.metric import metric_page, preview_of
from estimator.dashboard.pages.pictures import picture
from estimator.dashboard.problems import ReadProblem
from estimator.dashboard.shelf import EPOCH, FINGERPRINT
from estimator.drawing import Palette, Spec
from estimator.releases.charts import shares_chart, trend_chart
from estimator.releases.number_charts import number_chart, number_trend_chart
from estimator.releases.release import Release
from estimator.releases.width import width_chart

_WIDTHS = ("narrow",)
_SHARES = {None: (380, 170), "narrow": (150, 110)}
_NUMBERS = {None: 400, "narrow": 230}
_COLUMNS = {None: 2, "narrow": 1}
_TIMES = {None: 480, "narrow": 250}
"""In pixels: beside a table on a desk, and on a phone."""
_PROVISIONAL = " so far, provisional"


def add_metric_addresses(blueprint: Blueprint, inputs: Inputs) -> None:
    """Add everything under /metrics/NAME; who may ask is decided where pages are."""

    @blueprint.get("/metrics/<name>")
    def show_metric(name: str) -> str:
        return render_template("metric.html", page=metric_page(inputs, name, request.args))

    @blueprint.get("/metrics/<name>/shares.svg")
    def draw_shares(name: str) -> Response:
        width, chosen = _asked(inputs, name)
        release = inputs.published.release(chosen.entry)
        return _shares(release, width, "")

    @blueprint.get("/metrics/<name>/number.svg")
    def draw_number(name: str) -> Response:
        width, chosen = _asked(inputs, name)
        return _number(inputs.published.release(chosen.entry), width, "")

    @blueprint.get("/metrics/<name>/number-trend.svg")
    def draw_number_trend(name: str) -> Response:
        width, chosen = _asked(inputs, name)
        back = shown_history(inputs, chosen)
        return _picture(lambda palette: number_trend_chart(back, palette, _TIMES[width]))

    @blueprint.get("/metrics/<name>/trend.svg")
    def draw_trend(name: str) -> Response:
        width, chosen = _asked(inputs, name)
        back = shown_history(inputs, chosen)
        return _picture(lambda palette: trend_chart(back, palette, _COLUMNS[width]))

    @blueprint.get("/metrics/<name>/width.svg")
    def draw_width(name: str) -> Response:
        width, chosen = _asked(inputs, name)
        back = shown_history(inputs, chosen)
        return _picture(lambda palette: width_chart(back, palette, _TIMES[width]))

    @blueprint.get("/metrics/<name>/preview.svg")
    def draw_preview(name: str) -> Response:
        return _shares(*_previewed(inputs, name), _PROVISIONAL)

    @blueprint.get("/metrics/<name>/preview-number.svg")
    def draw_preview_number(name: str) -> Response:
        return _number(*_previewed(inputs, name), _PROVISIONAL)


def _previewed(inputs: Inputs, name: str) -> tuple[Release, str | None]:
    width = one_of(request.args, "width", _WIDTHS)
    epoch = matching(request.args, "epoch", EPOCH)
    fingerprint = matching(request.args, "fingerprint", FINGERPRINT)
    found = preview_of(inputs, name, epoch or "", fingerprint or "")
    if found is None:
        raise ReadProblem("not_found", "there is no preview of this epoch")
    return found.release, width


def _asked(inputs: Inputs, name: str) -> tuple[str | None, Choice]:
    chosen = choice(inputs, name, request.args, "theme", "width")
    if chosen is None:
        raise ReadProblem("not_found", "there is no release of this metric", "metric")
    return one_of(request.args, "width", _WIDTHS), chosen


def _shares(release: Release, width: str | None, so_far: str) -> Response:
    title = _title(release, so_far)
    return _picture(lambda palette: shares_chart(release, palette, *_SHARES[width], title))


def _number(release: Release, width: str | None, so_far: str) -> Response:
    title = _title(release, so_far)
    return _picture(lambda palette: number_chart(release, palette, _NUMBERS[width], title))


def _title(release: Release, so_far: str) -> str:
    n = 0 if release.estimates is None else release.estimates.n
    return f"{release.epoch}{so_far}, {n:,} reports"


def _picture(draw: Callable[[Palette], Spec | None]) -> Response:
    return picture(draw, *Choice.NAMES, "width")

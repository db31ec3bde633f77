"""All charts of a release as SVG, which needs no fonts, scripts or network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from estimator.drawing import Spec, svg_of
from estimator.releases.charts import shares_chart, trend_chart
from estimator.releases.number_charts import number_chart, number_trend_chart
from estimator.releases.release import Release


@dataclass(frozen=True)
class Drawn:
    """A release's charts; None: there is none.

    Attributes:
        shares: See `shares_chart`.
        trend: See `trend_chart`.
        number: See `number_chart`.
        number_trend: See `number_trend_chart`.
    """

    shares: str | None
    trend: str | None
    number: str | None = None
    number_trend: str | None = None

    def by_name(self) -> Iterator[tuple[str, str]]:
        """Yield what there is, with what its file is called."""
        for name, svg in vars(self).items():
            if svg is not None:
                yield name.replace("_", "-"), svg


def draw(release: Release, history: Sequence[Release]) -> Drawn:
    """Draw the charts of a release; `history` is that of `trend_chart`, the release included."""
    return Drawn(
        _svg(shares_chart(release)),
        _svg(trend_chart(history)),
        _svg(number_chart(release)),
        _svg(number_trend_chart(history)),
    )


def _svg(chart: Spec | None) -> str | None:
    return None if chart is None else svg_of(chart)

"""Charts of pages, as pictures with an address of their own: light or dark, kept by browsers."""

from collections.abc import Callable

from flask import Response, request

from estimator.dashboard.answers import kept
from estimator.dashboard.api.queries import one_of, single
from estimator.dashboard.problems import ReadProblem
from estimator.drawing import DAYLIGHT, NIGHT, Palette, Spec, svg_of

_PALETTES = {"light": DAYLIGHT, "dark": NIGHT}


def picture(draw: Callable[[Palette], Spec | None], *more: str) -> Response:
    """Answer with a chart in the colours that the query asks for.

    Args:
        draw: Makes its specification; None: there is nothing to draw.
        more: Names of further parameters that the address takes.

    Raises:
        ReadProblem: The query is wrong, or there is nothing to draw.
    """
    theme = one_of(single(request.args, ("theme", *more)), "theme", _PALETTES) or "light"
    chart = draw(_PALETTES[theme])
    if chart is None:
        raise ReadProblem("not_found", "there is nothing to draw yet")
    return kept(svg_of(chart).encode(), "image/svg+xml")

"""Sheets as one HTML page: nothing is loaded from elsewhere, and it prints on A4 and letter."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("sottovoce.surveys.paper"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("sheet.html")


def page_of(document: dict[str, Any]) -> str:
    """Return the page of a document."""
    return _template().render(document)

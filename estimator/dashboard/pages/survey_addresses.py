"""The surveys' addresses: the list, each one's page, and the pictures on it."""

from flask import Blueprint, Response, render_template, request

from estimator.dashboard.api.queries import one_of, single
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.pictures import picture
from estimator.dashboard.pages.surveys import (
    answers_chart,
    survey_named,
    survey_page,
    survey_rows,
)

_WIDTHS = ("narrow",)
_ROOM = {None: (260, 160), "narrow": (140, 120)}
"""In pixels, for shares and for the answers' texts: beside a table on a desk, and on a phone."""


def add_survey_addresses(blueprint: Blueprint, inputs: Inputs) -> None:
    """Add everything under /surveys; who may ask is decided where pages are."""

    @blueprint.get("/surveys")
    def show_surveys() -> str:
        return render_template("surveys.html", rows=survey_rows(inputs))

    @blueprint.get("/surveys/<name>")
    def show_survey(name: str) -> str:
        single(request.args, ())
        return render_template("survey.html", page=survey_page(inputs, name))

    @blueprint.get("/surveys/<name>/<question>.svg")
    def draw_answers(name: str, question: str) -> Response:
        survey = survey_named(inputs, name)
        room = _ROOM[one_of(request.args, "width", _WIDTHS)]
        # `reports` only tells one picture from the next, for browsers that keep them.
        return picture(
            lambda palette: answers_chart(inputs, survey, question, palette, *room),
            "width",
            "reports",
        )

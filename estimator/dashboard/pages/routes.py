"""The pages' addresses."""

from functools import partial

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response

from estimator.dashboard.access import Access
from estimator.dashboard.pages.device import answer as device_answer
from estimator.dashboard.pages.guard import guarded
from estimator.dashboard.pages.ingest import day, ingest_chart, refusals_chart
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.metric_addresses import add_metric_addresses
from estimator.dashboard.pages.operations import WORDS, operations
from estimator.dashboard.pages.overview import overview
from estimator.dashboard.pages.pictures import picture
from estimator.dashboard.pages.privacy import ledger, privacy
from estimator.dashboard.pages.privacy_charts import CHARTS as PRIVACY_CHARTS
from estimator.dashboard.pages.questions import questions
from estimator.dashboard.pages.sessions import login_address, sessions
from estimator.dashboard.pages.survey_addresses import add_survey_addresses
from estimator.dashboard.pages.words import FILTERS

NAVIGATION = (
    ("pages.show_overview", "Overview"),
    ("pages.show_surveys", "Surveys"),
    ("pages.show_privacy", "Privacy"),
    ("pages.show_operations", "Operations"),
    ("pages.show_registry", "Registry"),
)


def pages(inputs: Inputs, access: Access) -> Blueprint:
    """Return everything under / that is for people."""
    blueprint = Blueprint(
        "pages",
        __name__,
        template_folder="templates",
        static_folder="static",
        static_url_path="/static",
    )
    for name, act in FILTERS.items():
        blueprint.add_app_template_filter(act, name)
    blueprint.register_blueprint(sessions(access))
    blueprint.after_request(guarded)

    @blueprint.before_request
    def readers_only() -> Response | None:
        free = request.blueprint == "pages.sessions" or request.endpoint == "pages.static"
        return None if free or access.granted() else redirect(login_address())

    @blueprint.app_context_processor
    def about_the_page() -> dict[str, object]:
        return {"navigation": NAVIGATION, "now": inputs.clock(), "reader": access.reader()}

    @blueprint.get("/")
    def show_overview() -> str:
        return render_template("overview.html", page=overview(inputs))

    @blueprint.get("/privacy")
    def show_privacy() -> str:
        return render_template("privacy.html", page=privacy(inputs))

    @blueprint.get("/privacy/<any(lifetime, shares):chart>.svg")
    def draw_privacy(chart: str) -> Response:
        return picture(partial(PRIVACY_CHARTS[chart], ledger(inputs)))

    @blueprint.route("/privacy/device", methods=["GET", "POST"])
    def show_device() -> tuple[str, int]:
        return device_answer(inputs)

    @blueprint.get("/operations")
    def show_operations() -> str:
        return render_template("operations.html", page=operations(inputs), **WORDS)

    @blueprint.get("/operations/ingest.svg")
    def draw_ingest() -> Response:
        return picture(lambda palette: ingest_chart(day(inputs), palette))

    @blueprint.get("/operations/refusals.svg")
    def draw_refusals() -> Response:
        return picture(lambda palette: refusals_chart(day(inputs), palette))

    @blueprint.get("/registry")
    def show_registry() -> str:
        return render_template("registry.html", page=questions(inputs))

    add_metric_addresses(blueprint, inputs)
    add_survey_addresses(blueprint, inputs)
    return blueprint

"""The addresses of surveys: one page each, and the files that its script is made of.

The server knows nobody on them: no cookie, no session, and no word in the address but the language.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, abort, render_template, request

from aggregator.survey.modules import CLIENT, PAGE, loaded_by, served_files
from client_sdk.survey import (
    Interface,
    Survey,
    built_in_languages,
    interface_of,
    page_document,
)

_ENTRY = f"{PAGE}/survey.js"
_ADMISSION = f"{CLIENT}/admission.js"  # loaded with the page: else who answers could be seen
_SENSORS = (
    "accelerometer",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "usb",
)
_HEADERS = {
    # "form-action 'none'": answers could not be posted as a form even if the script were broken.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{sensor}=()" for sensor in _SENSORS),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Of the files, too: what a browser keeps would tell its next user of the visit.
    "Cache-Control": "no-store",
}


def blueprint(
    surveys: Sequence[Survey],
    write_key: Callable[[], str],
    clock: Callable[[], float],
    closed: Callable[[Survey], bool],
) -> Blueprint:
    """Return the pages of some surveys.

    Args:
        surveys: Each with a name of its own.
        write_key: By which browsers enrol that answer open surveys.
        clock: Unix time in seconds; a survey begins and ends with a UTC day.
        closed: Whether a survey was ended before its last day.
    """
    known = {survey.name: survey for survey in surveys}
    served = served_files()
    modules = {
        "open": loaded_by((_ENTRY,), served),
        "invitation": loaded_by((_ENTRY, _ADMISSION), served),
    }
    pages = Blueprint("surveys", __name__, template_folder="templates")
    pages.after_request(_guarded)

    @pages.get("/s/<name>")
    def show_survey(name: str) -> Response:
        survey = known.get(name)
        if survey is None:
            words = interface_of(_wanted(built_in_languages(), "en"))
            return _page("not_found.html", words, 404)
        words = survey.interface[_wanted(survey.languages, survey.languages[0])]
        phase = survey.phase(datetime.fromtimestamp(clock(), UTC).date())
        if phase != "open":
            return _page(f"{phase}.html", words, 410 if phase == "over" else 200, survey=survey)
        if closed(survey):
            return _page("ended.html", words, 410, survey=survey)
        document = page_document(survey, words.language)
        if survey.admission == "open":
            document["write_key"] = write_key()
        entry, *others = modules[survey.admission]
        return _page(
            "questionnaire.html",
            words,
            survey=survey,
            document=document,
            entry=entry,
            modules=others,
        )

    @pages.get(f"/<any({PAGE}, {CLIENT}):folder>/<name>")
    def send_file(folder: str, name: str) -> Response:
        file = served.get(f"{folder}/{name}") or abort(404)
        return Response(file.content, content_type=file.media_type)

    pages.add_app_template_global(served.__getitem__, "survey_file")
    return pages


def _wanted(languages: Sequence[str], otherwise: str) -> str:
    """Return the language that the address or the browser asks for."""
    known = {language.lower(): language for language in reversed(languages)}
    # Where there is no Brazilian, any Portuguese.
    known = {language.partition("-")[0]: known[language] for language in known} | known
    accepted = [tag for tag, quality in request.accept_languages if quality > 0]
    for asked in (request.args.get("language", ""), *accepted):
        parts = asked.lower().split("-")
        while parts:  # Lookup of RFC 4647, 3.4
            if "-".join(parts) in known:
                return known["-".join(parts)]
            parts.pop()
    return otherwise


def _page(template: str, words: Interface, status: int = 200, **shown: Any) -> Response:
    answer = Response(render_template(template, words=words, **shown), status=status)
    answer.content_language.add(words.language)
    answer.vary.add("Accept-Language")
    return answer


def _guarded(answer: Response) -> Response:
    answer.headers.update(_HEADERS)
    return answer

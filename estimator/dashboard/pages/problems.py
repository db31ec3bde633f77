"""Problems as pages: what is a document for programs is a page for a person's browser."""

from flask import Flask, Response, render_template, request

from estimator.dashboard.pages.guard import guarded


def show_problems_as_pages(app: Flask) -> None:
    """Answer whoever asks for a page with one, whatever went wrong."""

    @app.after_request
    def as_page(answer: Response) -> Response:
        if answer.mimetype != "application/problem+json" or not _wants_a_page():
            return answer
        problem = answer.get_json()
        answer.set_data(render_template("problem.html", problem=problem))
        answer.content_type = "text/html; charset=utf-8"
        return guarded(answer)


def _wants_a_page() -> bool:
    # Programs say */*, or nothing.
    return any(kind == "text/html" for kind, _ in request.accept_mimetypes)

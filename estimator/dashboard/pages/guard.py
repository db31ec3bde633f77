"""What browsers are told not to do with a page."""

from flask import Response

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # Not "no-referrer": then forms come without their origin, see `forms`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def guarded(answer: Response) -> Response:
    """Forbid scripts, strangers' content and being framed, whatever a page should come to hold."""
    answer.headers.update(_HEADERS)
    return answer

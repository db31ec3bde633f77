"""Forms that are sent here: small, and only by this site's own pages."""

from urllib.parse import urlsplit

from flask import request

from estimator.dashboard.problems import ReadProblem

MOST_BYTES = 65_536
"""Of a form: an address to come back to and a key, or an id."""
_OWN = ("same-origin", "none")


def require_own_form() -> None:
    """Refuse what another site has sent in the reader's name, and what no form of ours is.

    To be called before the form is read, which takes what it is given into memory.

    Raises:
        ReadProblem: Another site has sent it, it is too large, or its length is not told.
    """
    if "Transfer-Encoding" in request.headers:
        raise ReadProblem("malformed", "must be sent with its length", "Transfer-Encoding")
    if (request.content_length or 0) > MOST_BYTES:
        raise ReadProblem("malformed", f"must be at most {MOST_BYTES} bytes", "Content-Length")
    site, origin = (request.headers.get(name) for name in ("Sec-Fetch-Site", "Origin"))
    if site is not None and site not in _OWN:
        raise ReadProblem("malformed", "must be sent from this site", "Sec-Fetch-Site")
    # Over plain http browsers say the origin only; programs, and very old browsers, say nothing.
    if site is None and origin is not None and not _is_here(origin):
        raise ReadProblem("malformed", "must be this site, as the Host header names it", "Origin")


def _is_here(origin: str) -> bool:
    # No page can make a browser send X-Forwarded-Host; a proxy that asks by another name does.
    names = (request.headers.get("Host"), request.headers.get("X-Forwarded-Host"))
    try:
        return urlsplit(origin).netloc.lower() in [name.lower() for name in names if name]
    except ValueError:
        return False

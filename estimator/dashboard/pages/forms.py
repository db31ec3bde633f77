"""Forms that are sent here: only by this site's own pages."""

from flask import request

from estimator.dashboard.problems import ReadProblem

_OWN = ("same-origin", "none")


def require_own_form() -> None:
    """Refuse what another site has sent in the reader's name; browsers say who sends.

    Raises:
        ReadProblem: Another site has.
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in _OWN:
        raise ReadProblem("malformed", "must be sent from this site", "Sec-Fetch-Site")

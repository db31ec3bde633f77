"""Logging in and out: a read key opens a session."""

import re
from urllib.parse import quote

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response

from estimator.dashboard.access import SESSION_HOURS, Access
from estimator.dashboard.pages.forms import require_own_form

_WITHIN = re.compile(r"/(?![/\\])[A-Za-z0-9_.~/?=&%:-]{0,500}")
"""Addresses of this dashboard, nobody else's."""


def sessions(access: Access) -> Blueprint:
    """Return /login and /logout."""
    blueprint = Blueprint("sessions", __name__)

    @blueprint.get("/login")
    def log_in() -> Response | str:
        target = _target(request.args.get("next"))
        return redirect(target) if access.granted() else _form(target)

    @blueprint.post("/login")
    def take_key() -> Response | tuple[str, int]:
        require_own_form()
        target = _target(request.form.get("next"))
        if access.log_in(request.form.get("key", "")):
            return redirect(target, 303)
        return _form(target, failed=True), 401

    @blueprint.post("/logout")
    def log_out() -> Response:
        require_own_form()
        access.log_out()
        return redirect("/login", 303)

    return blueprint


def login_address() -> str:
    """Return where to log in and come back from to the current address."""
    here = request.full_path.rstrip("?")
    return "/login" if here == "/" else f"/login?next={quote(here)}"


def _form(target: str, *, failed: bool = False) -> str:
    return render_template("login.html", target=target, failed=failed, hours=SESSION_HOURS)


def _target(wanted: str | None) -> str:
    return wanted if wanted and _WITHIN.fullmatch(wanted) else "/"

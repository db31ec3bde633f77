"""One device's page: what the ledger holds of an id that a reader typed.

Ids come in the body of a request and go nowhere: not into an address, a log, a browser's history or
its list of what was typed before.
"""

import re
from dataclasses import dataclass
from typing import Any

from flask import render_template, request
from werkzeug.datastructures import MultiDict

from estimator.dashboard.api.queries import single
from estimator.dashboard.one_device import DEVICE, account_of
from estimator.dashboard.pages.forms import require_own_form
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.problems import ReadProblem

_SHOWN = 64


@dataclass(frozen=True)
class Device:
    """The page.

    Attributes:
        typed: What stands in the form, cut.
        wrong: Whether that is no id.
        account: What `/v1/devices/{id}/ledger` says; None: there is no record.
    """

    typed: str = ""
    wrong: bool = False
    account: dict[str, Any] | None = None

    @property
    def unknown(self) -> bool:
        """Whether the ledger was asked and has no record."""
        return bool(self.typed) and not self.wrong and self.account is None


def device(inputs: Inputs, form: MultiDict[str, str]) -> Device:
    """Look up what was typed.

    Raises:
        ReadProblem: It is not this form.
        StoreUnavailable: The store is away.
    """
    given = single(form, ("device",))
    if "device" not in given:
        raise ReadProblem("malformed", "is required", "device")
    typed = given["device"].strip()
    if not re.fullmatch(DEVICE, typed.lower()):
        return Device(typed[:_SHOWN], wrong=True)
    return Device(typed, account=account_of(inputs.source, typed.lower()))


def answer(inputs: Inputs) -> tuple[str, int]:
    """Answer the current request with the form, and with what it was sent with, if it was."""
    single(request.args, ())
    if request.method != "POST":
        return render_template("device.html", page=Device()), 200
    require_own_form()
    found = device(inputs, request.form)
    status = 400 if found.wrong else 404 if found.unknown else 200
    return render_template("device.html", page=found), status

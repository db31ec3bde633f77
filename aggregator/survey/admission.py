"""Admissions: an invitation becomes a blind signature, and that signature becomes a device.

The two requests have nothing in common that the server could keep: the first shows an invitation
and a number that says nothing, the second a message that was inside the number, and its signature.
"""

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Protocol

from flask import Blueprint, Response, request

from aggregator.body import read_json_body
from aggregator.intake import Malformed, parse_admission
from aggregator.keyring.keys import Keys, KeySource
from aggregator.problems import Problem
from aggregator.store.invitations import Invitations
from aggregator.survey.admitted import device_of
from aggregator.survey.blind_signatures import PrivateKey, PublicKey
from aggregator.survey.invitations import SurveyKeys
from client_sdk.epochs import day_of
from client_sdk.survey.names import NAME

ADMISSIONS_PATH = "/v1/surveys/<survey>/admissions"
KEY_PATH = "/v1/surveys/<survey>/key"
MESSAGE_BYTES = 32
_ADMISSION = re.compile(
    rf"({NAME.pattern})\.([0-9a-f]{{{2 * MESSAGE_BYTES}}})\.((?:[0-9a-f]{{2}}){{64,1024}})"
)


class Limit(Protocol):
    """Runs an act if whoever asks for it is within the limits; else raises a Problem."""

    def __call__(self, act: Callable[[], str], /) -> str: ...


class Admissions:
    """Admits respondents to surveys.

    Args:
        invitations: Of the store.
        keys: The project's secrets, asked for at each request.
        clock: Unix time in seconds.
    """

    def __init__(
        self, invitations: Invitations, keys: KeySource, clock: Callable[[], float]
    ) -> None:
        self._invitations = invitations
        self._keys = keys
        self._clock = clock

    def public_key(self, survey: str) -> PublicKey:
        """Return what respondents blind for.

        Raises:
            Problem: `unknown_survey`.
        """
        return self._key(survey).public

    def sign(self, survey: str, body: bytes, limit: Limit) -> str:
        """Use an invitation up, and return the blind signature as hex digits.

        Raises:
            Malformed, Problem: It is not of the form, unknown, used for another message, or one
                of too many.
        """
        key = self._key(survey)
        asked = parse_admission(body, key.public.size)
        blinded = int(asked.blinded, 16)
        if not 0 < blinded < key.public.modulus:
            raise Malformed("blinded", "must be a number below the modulus, and not 0")

        def act() -> str:
            use = self._invitations.use(survey, asked.invitation, asked.blinded)
            if use == "unknown":
                detail = "no such invitation was made, or it was taken back"
                raise Problem("invitation_unknown", detail, "invitation")
            if use == "used":
                detail = "it was used for another blinded message; each is good for one"
                raise Problem("invitation_used", detail, "invitation")
            return f"{key.sign_blinded(blinded):0{2 * key.public.size}x}"

        return limit(act)

    def enrolment(self, ring: Keys, shown: str) -> Callable[[], tuple[str, bytes]]:
        """Return what gives id and key of the device that an admission makes: always the same id.

        Args:
            ring: The keys of this request.
            shown: `survey.message.signature`; the last two in hex digits.

        Raises:
            Problem: `bad_admission`.
        """
        found = _ADMISSION.fullmatch(shown)
        if found is None:
            raise _bad("must be survey.message.signature, in lower-case hex digits")
        survey, message, signature = found[1], bytes.fromhex(found[2]), bytes.fromhex(found[3])
        key = self._keys_of_surveys().of(survey, self._today())
        if key is None or not key.public.verifies(message, signature):
            raise _bad("the survey is over or unknown, or its key has not signed this message")
        device = device_of(ring.pseudonym_key, survey, message)
        return lambda: (device, ring.key_of(device))

    def _key(self, survey: str) -> PrivateKey:
        key = self._keys_of_surveys().of(survey, self._today())
        if key is None:
            raise Problem("unknown_survey", "there is no such survey by invitation, or it is over")
        return key

    def _keys_of_surveys(self) -> SurveyKeys:
        return SurveyKeys(self._invitations, self._keys.current().pseudonym_key)

    def _today(self) -> date:
        return day_of(self._clock())


def blueprint(admissions: Admissions, limit: Limit) -> Blueprint:
    """Return the addresses of admissions.

    Args:
        admissions: What they give.
        limit: Of the invitations that are tried.
    """
    made = Blueprint("admissions", __name__)

    @made.post(ADMISSIONS_PATH)
    def admit(survey: str) -> Response:
        return _json({"signature": admissions.sign(survey, read_json_body(request), limit)})

    @made.get(KEY_PATH)
    def show_key(survey: str) -> Response:
        return _json(key_document(survey, admissions.public_key(survey)))

    return made


def key_document(survey: str, key: PublicKey) -> dict[str, object]:
    """Return a survey's key as pages and this server's readers are told it: the same for all."""
    return {
        "survey": survey,
        "modulus": f"{key.modulus:0{2 * key.size}x}",
        "exponent": key.exponent,
        "digest": key.digest,
    }


def _bad(detail: str) -> Problem:
    return Problem("bad_admission", detail, "Authorization")


def _json(document: dict[str, object]) -> Response:
    return Response(json.dumps(document), content_type="application/json")

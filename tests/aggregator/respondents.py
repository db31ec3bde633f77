"""Respondents of surveys by invitation, as browsers are: they blind, unblind, enrol and report."""

import hashlib
import json
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from aggregator.survey.blind_signatures import PrivateKey, PublicKey
from aggregator.survey.invitations import SurveyKeys, invite, link
from client_sdk.report import DEVICES_PATH, Report, report_to_json
from client_sdk.survey import Survey, loads_survey
from tests.aggregator.conftest import Device
from tests.registries import Date
from tests.surveys import Document, question, survey, toml

FIRST_DAY, LAST_DAY = date(2026, 11, 1), date(2026, 12, 31)


def survey_text(admission: str, starts: date, expires: date, name: str = "habits") -> str:
    """The file of a survey with one question of yes or no."""
    own: Document = {
        "name": name,
        "admission": admission,
        "starts": Date(starts),
        "expires": Date(expires),
        "most_epsilon": 2.0,
        "min_reports": 50,
    }
    return toml(survey(question(prefer_not_to_answer=False), **own))


def survey_of(
    name: str = "habits", admission: str = "invitation", around: date | None = None
) -> Survey:
    """A survey; of all November and December 2026, or of the days around one."""
    days = (FIRST_DAY, LAST_DAY)
    if around is not None:
        days = (around - timedelta(days=2), around + timedelta(days=2))
    return loads_survey(survey_text(admission, *days, name))


def encoded(message: bytes, salt: bytes, bits: int) -> int:
    """EMSA-PSS-ENCODE of RFC 8017, 9.1.1, with SHA-384."""
    size = -(-bits // 8)
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = (b"\1" + salt).rjust(size - 49, b"\0")
    mask = b"".join(
        hashlib.sha384(digest + at.to_bytes(4, "big")).digest() for at in range(-(-size // 48))
    )
    masked = int.from_bytes(block, "big") ^ int.from_bytes(mask[: len(block)], "big")
    masked &= (1 << (bits - 8 * 49)) - 1
    return int.from_bytes(masked.to_bytes(len(block), "big") + digest + b"\xbc", "big")


@dataclass(frozen=True)
class Blinding:
    """One draw of a respondent: what a number hides."""

    public: PublicKey
    message: bytes
    salt: bytes
    mask: int

    @classmethod
    def drawn(cls, public: PublicKey, chance: random.Random | None = None) -> "Blinding":
        source = chance or secrets.SystemRandom()
        mask = source.randrange(2, public.modulus)
        return cls(public, source.randbytes(32), source.randbytes(48), mask)

    @property
    def encoded(self) -> int:
        return encoded(self.message, self.salt, self.public.modulus.bit_length() - 1)

    @property
    def number(self) -> int:
        key = self.public
        return self.encoded * pow(self.mask, key.exponent, key.modulus) % key.modulus

    @property
    def blinded(self) -> str:
        return f"{self.number:0{2 * self.public.size}x}"

    def finish(self, signature: str) -> bytes:
        key = self.public
        raw = int(signature, 16) * pow(self.mask, -1, key.modulus) % key.modulus
        assert pow(raw, key.exponent, key.modulus) == self.encoded
        return raw.to_bytes(key.size, "big")


class Hall:
    """A world with a survey by invitation, and those who come to it."""

    def __init__(
        self, world: Any, name: str = "habits", count: int = 3, around: date | None = None
    ) -> None:
        self.world = world
        self.survey = survey_of(name, around=around)
        self.keys = SurveyKeys(world.store.invitations, world.keys.pseudonym_key)
        self.key: PrivateKey = self.keys.open(name, self.survey.expires)
        world.catalogue.register(self.survey.registry_text)
        self.tokens = self.invite(count)

    def invite(self, count: int) -> list[str]:
        batches: Iterator[list[str]] = invite(self.world.store.invitations, self.survey.name, count)
        return [token for batch in batches for token in batch]

    def link(self, address: str, token: str) -> str:
        """What somebody was sent, of a server at an address."""
        return link(address, self.survey.name, token, self.key.public.digest)

    def drawn(self, chance: random.Random | None = None) -> Blinding:
        return Blinding.drawn(self.key.public, chance)

    def ask(self, token: str, blinded: str, survey: str | None = None) -> Any:
        body = json.dumps({"invitation": token, "blinded": blinded})
        return self.post(body.encode(), survey)

    def post(self, body: bytes, survey: str | None = None, **headers: str) -> Any:
        path = f"/v1/surveys/{survey or self.survey.name}/admissions"
        given = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.world.app.test_client().post(path, data=body, headers=given)

    def admission(self, token: str, drawn: Blinding | None = None) -> str:
        """What a browser makes of an invitation."""
        drawn = drawn or self.drawn()
        answer = self.ask(token, drawn.blinded)
        assert answer.status_code == 200, answer.json
        signature = drawn.finish(answer.json["signature"])
        return f"{self.survey.name}.{drawn.message.hex()}.{signature.hex()}"

    def enrol(self, admission: str) -> Any:
        headers = {"Authorization": f"Admission {admission}", "Content-Type": "application/json"}
        return self.world.app.test_client().post(DEVICES_PATH, data=b"{}", headers=headers)

    def device(self, admission: str) -> Device:
        answer = self.enrol(admission)
        assert answer.status_code == 201, answer.json
        return Device(answer.json["device"], bytes.fromhex(answer.json["key"]))

    def report(self, bit: int = 1) -> str:
        (question,) = self.survey.questions
        metric = question.metric
        return report_to_json(Report(metric.name, metric.fingerprint, 0, 0, bit), metric.mechanism)

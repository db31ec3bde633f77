"""The webhook against a real web server: what is posted, signed, repeated and refused."""

import base64
import json
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from estimator.errors import NotDelivered
from estimator.notices import webhook
from estimator.notices.digest import Digest
from tests.estimator.receivers import Hook, free, silent_server
from tests.estimator.test_mail import NOW, digest_of, released

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def sign(content: bytes) -> tuple[int, bytes]:
    return 3, KEY.sign(content)


def post(url: str, timeout: float = 10.0) -> None:
    webhook.post(url, digest_of(released()), "NAME", NOW, sign, timeout)


def test_the_body_is_signed_with_time_and_name():
    hook = Hook()
    with hook.running():
        post(hook.url)
    ((headers, body),) = hook.kept
    found = re.fullmatch(r"t=(\d+),key=(\d+),ed25519=(\S+)", headers["sottovoce-signature"])
    assert found is not None
    moment, key, signature = found.groups()
    assert (int(moment), key, headers["idempotency-key"]) == (NOW, "3", "NAME")
    content = b"sottovoce webhook v1\x00" + f"{moment}.NAME.".encode() + body
    KEY.public_key().verify(base64.b64decode(signature), content)
    assert Digest.from_dict(json.loads(body)) == digest_of(released())
    assert "authorization" not in headers


def test_a_server_that_stumbles_is_asked_again_with_the_same_bytes():
    hook = Hook(503, 502, 200)
    with hook.running():
        post(hook.url)
    assert len(hook.kept) == 3
    assert len({(headers["sottovoce-signature"], body) for headers, body in hook.kept}) == 1


@pytest.mark.parametrize(
    ("status", "lasting", "times"),
    [(301, True, 1), (307, True, 1), (404, True, 1), (429, False, 1), (500, False, 1)],
)
def test_what_is_not_2xx_is_not_delivered_and_redirects_are_not_followed(status, lasting, times):
    hook = Hook(status)
    with hook.running():
        with pytest.raises(NotDelivered, match=f"webhook at 127.0.0.1 answered {status}") as caught:
            post(hook.url)
    assert caught.value.lasting is lasting
    assert len(hook.kept) == times


def test_a_server_that_goes_on_stumbling_is_left_to_the_schedule():
    hook = Hook(*[503] * 9)
    with hook.running():
        with pytest.raises(NotDelivered, match="answered 503"):
            post(hook.url)
    assert len(hook.kept) == 3


def test_a_server_that_is_down_or_hangs_is_given_up_and_the_address_stays_secret():
    with pytest.raises(NotDelivered, match="ConnectionError") as caught:
        post(f"http://127.0.0.1:{free()}/hooks/SECRET")
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__
    with silent_server() as port:
        with pytest.raises(NotDelivered) as caught:
            post(f"http://127.0.0.1:{port}/hooks/SECRET", timeout=0.2)
    assert "SECRET" not in str(caught.value)


def test_what_cannot_be_signed_is_not_sent():
    def no_key(content: bytes) -> tuple[int, bytes]:
        raise ValueError("there must be an active signing key")

    hook = Hook()
    with hook.running():
        with pytest.raises(NotDelivered, match="must be an active signing key"):
            webhook.post(hook.url, digest_of(released()), "NAME", NOW, no_key)
    assert hook.kept == []

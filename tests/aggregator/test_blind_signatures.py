"""Blind signatures: the vectors of RFC 9474, and keys that survive being kept."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from aggregator.survey.blind_signatures import EXPONENT, KEY_BITS, PrivateKey, PublicKey
from tests.aggregator.respondents import Blinding

# RFC 9474, RSA Blind Signatures, appendix A.
VECTORS = json.loads((Path(__file__).parents[1] / "web" / "rfc9474.json").read_text())


def key_of_the_rfc() -> PrivateKey:
    p, q, n, e, d = (int(VECTORS["key"][name], 16) for name in "pqned")
    public = rsa.RSAPublicNumbers(e, n)
    return PrivateKey(
        rsa.RSAPrivateNumbers(
            p, q, d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q), public
        )
    )


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.fresh()


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_vectors_of_the_rfc_come_out(vector: dict[str, Any]) -> None:
    key = key_of_the_rfc()
    signed = key.sign_blinded(int(vector["blinded_msg"], 16))
    assert f"{signed:0{2 * key.public.size}x}" == vector["blind_sig"]
    signature = signed * int(vector["inv"], 16) % key.public.modulus
    assert signature == int(vector["sig"], 16)
    message = bytes.fromhex(vector["input_msg"])
    salt_bytes = len(vector["salt"]) // 2
    assert key.public.verifies(message, bytes.fromhex(vector["sig"]), salt_bytes)
    assert not key.public.verifies(message + b"\0", bytes.fromhex(vector["sig"]), salt_bytes)
    assert not key.public.verifies(message, bytes.fromhex(vector["sig"])[1:], salt_bytes)


def test_the_respondents_of_these_tests_blind_as_the_rfc_does() -> None:
    (vector,) = [v for v in VECTORS["vectors"] if v["name"] == "RSABSSA-SHA384-PSS-Deterministic"]
    public = key_of_the_rfc().public
    mask = pow(int(vector["inv"], 16), -1, public.modulus)
    message, salt = bytes.fromhex(vector["input_msg"]), bytes.fromhex(vector["salt"])
    drawn = Blinding(public, message, salt, mask)
    assert drawn.blinded == vector["blinded_msg"]
    assert drawn.finish(vector["blind_sig"]).hex() == vector["sig"]


def test_a_fresh_key_has_128_bits_of_strength_and_signs(key: PrivateKey) -> None:
    assert key.public.modulus.bit_length() == KEY_BITS >= 3072
    assert key.public.exponent == EXPONENT
    drawn = Blinding.drawn(key.public)
    signature = drawn.finish(f"{key.sign_blinded(drawn.number):x}")
    assert key.public.verifies(drawn.message, signature)
    assert not PrivateKey.fresh().public.verifies(drawn.message, signature)


def test_the_signature_does_not_depend_on_the_base_blinding(key: PrivateKey) -> None:
    masks: list[int] = []

    def below(bound: int) -> int:
        masks.append(random.randrange(bound))
        return masks[-1]

    signed = {key.sign_blinded(12345, below) for _ in range(3)}
    assert len(signed) == 1 and len(set(masks)) == 3
    assert signed == {pow(12345, key._numbers.d, key.public.modulus)}


def test_what_a_faulty_machine_computes_never_leaves(key: PrivateKey) -> None:
    numbers = key._numbers
    broken = rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, numbers.d, numbers.dmp1 + 2, numbers.dmq1, numbers.iqmp,
        numbers.public_numbers,
    )  # fmt: skip
    with pytest.raises(ArithmeticError):
        PrivateKey(broken).sign_blinded(12345)


def test_a_key_is_the_same_after_it_was_kept(key: PrivateKey) -> None:
    kept = PrivateKey.from_der(key.der())
    assert kept.public == key.public and kept.public.digest == key.public.digest
    assert kept.sign_blinded(7) == key.sign_blinded(7)
    assert str(key._numbers.d) not in repr(key)
    other = ec.generate_private_key(ec.SECP256R1())
    der = other.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(TypeError, match="RSA"):
        PrivateKey.from_der(der)


def test_sizes_are_the_moduluss() -> None:
    assert PublicKey(2**3071 + 1).size == 384
    assert key_of_the_rfc().public.size == 512
